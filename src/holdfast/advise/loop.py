"""The loop of an advice: assess single failures, make plans, and assess again with the plans in place."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from holdfast.advise.advice import Advice, MeasuredPlan, measured_plan, reasons
from holdfast.advise.budget import Budget, Prices, ranked
from holdfast.advise.candidates import Candidate, candidate_plans, completeness, least_budget
from holdfast.advise.losses import Expected, Loss, loss_of_case, losses_of, protected_case, single_losses, together_case
from holdfast.advise.protection_units import choices_of, tasks_of, units_of, whole_units
from holdfast.advise.reasons import percent
from holdfast.assess.assessment import Assessment, assess_results
from holdfast.assess.campaign import Campaign
from holdfast.assess.campaign_context import CampaignContext
from holdfast.assess.campaign_folder import Results
from holdfast.assess.campaign_run import run_campaign
from holdfast.assess.campaign_setup import DEFAULT_OPTIONS, build_campaign
from holdfast.assess.case import Case
from holdfast.assess.fitting import default_outages
from holdfast.assess.targets import Choice
from holdfast.documents.topology import Topology
from holdfast.errors import HoldfastError
from holdfast.terminal import say

Tried = dict[str, tuple[Campaign, Assessment]]
"""The campaigns behind an advice by their folders: the one without plans, and the one with plans in place."""

SINGLE, TOGETHER = "assessment", "with-plan"
HALF = "50%"
"""The default budget."""


class AdviceLoop:
    """Assesses, plans, and assesses again. Units of failure and protection are sources and whole PEs."""

    def __init__(
        self,
        context: CampaignContext,
        subject: dict[str, Any],
        topology: Topology,
        options: dict[str, Any],
        out: Path,
        *,
        write_reports: Callable[[Results, Sequence[Choice]], object],
    ) -> None:
        """`write_reports` writes the report pages of one campaign next to its results."""
        self._write_reports = write_reports
        self.context, self.subject, self.options, self.out = context, subject, options, out
        self.units, self.choices = units_of(context.graph), choices_of(context.graph)
        self.tasks, self.topology = tasks_of(context.graph), whole_units(topology, context.graph)
        self.failover_s: float = context.app.epoch_s if options["failover_s"] is None else options["failover_s"]

    def run(self, cpu: Mapping[str, float]) -> tuple[Advice, Tried]:
        """Return the advice and the campaigns behind it.

        With --loss, try budgets in ascending order until a plan reaches the goal. Raises HoldfastError if not even full
        replication reaches it, which is tried first.
        """
        first, assessed, single = self.assess_single_failures()
        impact = {name: loss.mean for name, loss in single.items()}
        if not sum(impact.values()):
            raise HoldfastError(
                "no failure changed the output noticeably: every section stayed within 3 % at every offset, so nothing needs a "
                "replica; longer outages (--outage) may show more"
            )
        prices = Prices(self.tasks, cpu, frozenset(s.name for s in self.context.graph.sources if s.reader is not None))

        def attempt(budget: Budget, plans: Sequence[Candidate]) -> tuple[Advice, Tried]:
            over, folder = self._failover_cases(plans, impact), f"{TOGETHER}-{budget.name}"
            tried = {SINGLE: (first, assessed), folder: self.assess(self._cases(plans, over), folder, fitting=first)}
            return self._advice(budget, plans, prices, single=single, over=over, tried=tried), tried

        if self.options["loss"] is not None:
            everything = Budget(replicas=sum(self.tasks.values()))
            _require_reachable_loss(attempt(everything, candidate_plans(self.topology, impact, everything, prices))[0])
        attempts = (attempt(budget, plans) for budget, plans in self._plans(impact, prices))
        return next((advice, tried) for advice, tried in attempts if advice.reaching_goal)

    def _advice(
        self,
        budget: Budget,
        plans: Sequence[Candidate],
        prices: Prices,
        *,
        single: Mapping[str, Loss],
        over: Mapping[str, Case],
        tried: Tried,
    ) -> Advice:
        """Return the advice for a budget, from the trials with its plans in place."""
        (first, assessed), (_, again) = tried.values()
        measured = losses_of(again.cases)
        measured_plans = tuple(self._measured_plan(plan, single, measured) for plan in plans)
        return Advice(
            application=self.context.app.name,
            budget=budget,
            outage_s=first.outages_s[-1],
            failover_s=self.failover_s,
            single=single,
            plans=measured_plans,
            because=reasons(assessed, self.choices),
            prices=prices,
            units=self.units,
            reaching_goal=self._objectives_reaching_goal(measured_plans, single),
            failing_over={name: loss_of_case(case.name, measured) for name, case in over.items()},
            goal_ic=self.options["ic"],
            goal_loss=self.options["loss"],
        )

    def _plans(self, impact: Mapping[str, float], prices: Prices) -> Iterator[tuple[Budget, list[Candidate]]]:
        """Yield each budget to try with its plans; skip a budget with the same plans as the previous one."""
        before = None
        for budget in self._budgets(impact, prices):
            plans = candidate_plans(self.topology, impact, budget, prices)
            if plans != before:
                yield budget, plans
            before = plans

    def _budgets(self, impact: Mapping[str, float], prices: Prices) -> Iterator[Budget]:
        """Yield the given budget, or the smallest that keeps the requested completeness; for --loss all budgets, ascending from
        the smallest that protects a unit with a loss."""
        if self.options["ic"] is not None:
            yield Budget(replicas=least_budget(self.topology, self.options["ic"], self.tasks))
        elif self.options["loss"] is not None:
            least = min(self.tasks[name] for name in impact if impact[name] > 0)
            yield from (Budget(replicas=replicas) for replicas in range(least, sum(self.tasks.values()) + 1))
        else:
            budget = Budget.of(self.options["budget"] or HALF)
            budget.check(prices)
            budget.check_worth(impact, prices)
            yield budget

    def _measured_plan(self, plan: Candidate, single: Mapping[str, Loss], measured: Mapping[str, Loss]) -> MeasuredPlan:
        complete = completeness(self.topology, plan.protected)
        return measured_plan(plan, single, measured, units=self.units, failover_s=self.failover_s, completeness=complete)

    def _objectives_reaching_goal(self, measured_plans: Sequence[MeasuredPlan], single: Mapping[str, Loss]) -> frozenset[str]:
        """Return the objectives whose plans reach the requested completeness or share of the loss; all if none is requested."""
        ic, loss = self.options["ic"], self.options["loss"]
        before = Expected.over(each for _, each in sorted(single.items())).mean
        return frozenset(
            each.candidate.objective
            for each in measured_plans
            if (ic is None or each.completeness >= ic - 1e-9) and (loss is None or each.single.mean <= loss * before)
        )

    def assess_single_failures(self) -> tuple[Campaign, Assessment, dict[str, Loss]]:
        """Assess single failures, and return the campaign, its assessment, and the loss of each unit.

        The offsets leave room for all later cases (fail-over, and everything failing at once), so that losses can be compared.
        """
        cases = [Case(self.units[choice.name]) for choice in self.choices if choice.chosen]
        others = [protected_case(target, failover_s=self.failover_s) for target in self.units.values()]
        others.append(together_case(self.units, (), failover_s=self.failover_s))
        fitting = build_campaign(self.context, [*cases, *others], self.subject, self._campaign_options(SINGLE))
        campaign, assessed = self.assess([case for case in fitting.cases if case in cases], SINGLE, fitting=fitting)
        return campaign, assessed, single_losses(self.choices, losses_of(assessed.cases))

    def _failover_cases(self, plans: Sequence[Candidate], impact: Mapping[str, float]) -> dict[str, Case]:
        """Return the cases with a replica for all units that a plan protects, and for the next unit of each plan."""
        ranking = ranked(self.units, impact)
        names = {name for plan in plans for name in plan.protected}
        names |= {name for plan in plans for name in [each for each in ranking if each not in plan.protected][:1]}
        return {name: protected_case(target, failover_s=self.failover_s) for name, target in self.units.items() if name in names}

    def _cases(self, plans: Sequence[Candidate], over: Mapping[str, Case]) -> list[Case]:
        """Return the single fail-over cases, and for every plan the case in which all unprotected units fail at once."""
        together = [together_case(self.units, plan.protected, failover_s=self.failover_s) for plan in plans]
        return list(dict.fromkeys([*over.values(), *together]))

    def assess(self, cases: Sequence[Case], folder: str, *, fitting: Campaign) -> tuple[Campaign, Assessment]:
        """Run a campaign of these cases in its own folder, with the offsets and section of another campaign, and assess it.

        Cases that cannot reach the scored sink, or have no tuples to lose, are left out.
        """
        campaign = build_campaign(self.context, cases, self.subject, self._campaign_options(folder, fitting))
        say(f"{folder}: {len(campaign.cases)} ways to fail, {campaign.size:,} trials")
        context = self.context.sectioned(campaign.section)
        results = run_campaign(context, campaign, self.out / folder, check=folder == SINGLE)
        self._write_reports(results, self.choices)
        return campaign, assess_results(results)[0]

    @cached_property
    def _outage_s(self) -> float:
        outage_s: float | None = self.options["outage_s"]
        return max(default_outages(self.context)) if outage_s is None else outage_s

    def _campaign_options(self, folder: str, fitting: Campaign | None = None) -> dict[str, Any]:
        """Return options of `holdfast assess` for a campaign, with the offsets and section of `fitting` if given."""
        lengths = (self._outage_s / 4, self._outage_s)
        return {
            **DEFAULT_OPTIONS,
            "repetitions": self.options["repetitions"],
            "outages": lengths if folder == SINGLE else lengths[1:],  # only single failures need the effect of the length
            "rate": "peak",
            "offsets": fitting.offsets if fitting else (),
            "section": fitting.section if fitting else None,
            "seed": self.options["seed"],
        }


def _require_reachable_loss(best: Advice) -> None:
    """Raise HoldfastError if not even full replication reduces the loss to the requested share."""
    if best.reaching_goal or best.goal_loss is None:
        return
    remaining = min(each.single.mean for each in best.plans) / best.unprotected.mean
    raise HoldfastError(
        f"--loss: even with a replica of everything {percent(remaining, digits=6)} of the loss under single failures remains; "
        f"expected at most {percent(best.goal_loss, digits=6)} (a shorter --failover leaves less)"
    )
