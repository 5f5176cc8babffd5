"""The loop of an advice: assess, plan, assess again with the plan in place."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from holdfast.advise.advice import Advice, WeighedUnit, reasons, weigh
from holdfast.advise.budget import Budget, Prices, ranked
from holdfast.advise.candidates import Candidate, candidate_plans, completeness, least_budget
from holdfast.advise.losses import Expected, Loss, alone, found, losses_of, protected_case, together_case
from holdfast.advise.protection_units import choices_of, tasks_of, units_of, whole_units
from holdfast.advise.reasons import percent
from holdfast.assess.assessment import Assessment, assess
from holdfast.assess.campaign import Campaign
from holdfast.assess.campaign_context import CampaignContext
from holdfast.assess.campaign_folder import Results
from holdfast.assess.campaign_run import run_campaign
from holdfast.assess.campaign_setup import build_campaign
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
"""The budget where none is given."""


class AdviceLoop:
    """Assess, plan, assess again. What fails and is protected is a source, or a PE with all its operators."""

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
        """Assess, plan and assess again, with more and more replicas where a share of the loss is to be kept.

        Raises HoldfastError for a share that not even a replica of everything keeps, which is tried first.
        """
        first, assessed, single = self.singles()
        impact = {name: loss.mean for name, loss in single.items()}
        if not sum(impact.values()):
            raise HoldfastError(
                "no failure left a mark on the output: no section of it was more than 3 % off at any offset, so nothing needs a "
                "replica; longer outages (--outage) may show more"
            )
        prices = Prices(self.tasks, cpu)

        def attempt(budget: Budget, plans: Sequence[Candidate]) -> tuple[Advice, Tried]:
            over, folder = self._failing_over(plans, impact), f"{TOGETHER}-{budget.name}"
            tried = {SINGLE: (first, assessed), folder: self.assessed(self._cases(plans, over), folder, fitting=first)}
            return self._advised(budget, plans, prices, single=single, over=over, tried=tried), tried

        if self.options["loss"] is not None:
            everything = Budget(replicas=sum(self.tasks.values()))
            _require_kept(attempt(everything, candidate_plans(self.topology, impact, everything, prices))[0])
        attempts = (attempt(budget, plans) for budget, plans in self._plans(impact, prices))
        return next((advice, tried) for advice, tried in attempts if advice.kept)

    def _advised(
        self,
        budget: Budget,
        plans: Sequence[Candidate],
        prices: Prices,
        *,
        single: Mapping[str, Loss],
        over: Mapping[str, Case],
        tried: Tried,
    ) -> Advice:
        """What the trials with plans in place make of a budget."""
        (first, assessed), (_, again) = tried.values()
        measured = losses_of(again.cases)
        weighed = tuple(self._weighed(plan, single, measured) for plan in plans)
        return Advice(
            application=self.context.app.name,
            budget=budget,
            outage_s=first.outages_s[-1],
            failover_s=self.failover_s,
            single=single,
            weighed=weighed,
            because=reasons(assessed, self.choices),
            prices=prices,
            units=self.units,
            kept=self._kept(weighed, single),
            failing_over={name: found(case.name, measured) for name, case in over.items()},
            asked_ic=self.options["ic"],
            asked_loss=self.options["loss"],
        )

    def _plans(self, impact: Mapping[str, float], prices: Prices) -> Iterator[tuple[Budget, list[Candidate]]]:
        """The plans of every budget to try; a budget that buys nothing else than the one before is left out."""
        before = None
        for budget in self._budgets(impact, prices):
            plans = candidate_plans(self.topology, impact, budget, prices)
            if plans != before:
                yield budget, plans
            before = plans

    def _budgets(self, impact: Mapping[str, float], prices: Prices) -> Iterator[Budget]:
        """The budget that was given, the least that keeps the completeness asked for, or all from the least that protects
        anything whose failure shows."""
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

    def _weighed(self, plan: Candidate, single: Mapping[str, Loss], measured: Mapping[str, Loss]) -> WeighedUnit:
        kept = completeness(self.topology, plan.protected)
        return weigh(plan, single, measured, units=self.units, failover_s=self.failover_s, completeness=kept)

    def _kept(self, weighed: Sequence[WeighedUnit], single: Mapping[str, Loss]) -> frozenset[str]:
        """The objectives whose plans keep what was asked for: a completeness, a share of the loss; without either, all."""
        ic, loss = self.options["ic"], self.options["loss"]
        before = Expected.over(each for _, each in sorted(single.items())).mean
        return frozenset(
            each.candidate.objective
            for each in weighed
            if (ic is None or each.completeness >= ic - 1e-9) and (loss is None or each.single.mean <= loss * before)
        )

    def singles(self) -> tuple[Campaign, Assessment, dict[str, Loss]]:
        """What each source and PE costs when it fails alone, with the assessment that says so.

        It is tried at offsets that leave room for failing over, and for everything failing at once, so that all can be compared.
        """
        cases = [Case(self.units[choice.name]) for choice in self.choices if choice.chosen]
        others = [protected_case(target, failover_s=self.failover_s) for target in self.units.values()]
        others.append(together_case(self.units, (), failover_s=self.failover_s))
        fitting = build_campaign(self.context, [*cases, *others], self.subject, self._wanted(SINGLE))
        campaign, assessed = self.assessed([case for case in fitting.cases if case in cases], SINGLE, fitting=fitting)
        return campaign, assessed, alone(self.choices, losses_of(assessed.cases))

    def _failing_over(self, plans: Sequence[Candidate], impact: Mapping[str, float]) -> dict[str, Case]:
        """The failure of everything that a plan protects, and of what it would protect next, with a replica in place."""
        ranking = ranked(self.units, impact)
        held = {name for plan in plans for name in plan.protected}
        held |= {name for plan in plans for name in [each for each in ranking if each not in plan.protected][:1]}
        return {name: protected_case(target, failover_s=self.failover_s) for name, target in self.units.items() if name in held}

    def _cases(self, plans: Sequence[Candidate], over: Mapping[str, Case]) -> list[Case]:
        """All failing over one by one, and for every plan all that it leaves open failing at once."""
        together = [together_case(self.units, plan.protected, failover_s=self.failover_s) for plan in plans]
        return list(dict.fromkeys([*over.values(), *together]))

    def assessed(self, cases: Sequence[Case], folder: str, *, fitting: Campaign) -> tuple[Campaign, Assessment]:
        """Try these cases in a folder of their own, at the offsets of another campaign, or read what was tried there. Those that
        cannot reach the scored sink, or have no tuples to lose, are left out."""
        campaign = build_campaign(self.context, cases, self.subject, self._wanted(folder, fitting))
        say(f"{folder}: {len(campaign.cases)} ways to fail, {campaign.size:,} trials")
        context = self.context.sectioned(campaign.section)
        results = run_campaign(context, campaign, self.out / folder, check=folder == SINGLE)
        self._write_reports(results, self.choices)
        facts, golden = results.read("facts") or {}, results.read("golden") or {}
        return campaign, assess(campaign, facts, golden, results.outcomes)[0]

    @cached_property
    def _outage_s(self) -> float:
        given: float | None = self.options["outage_s"]
        return max(default_outages(self.context)) if given is None else given

    def _wanted(self, folder: str, fitting: Campaign | None = None) -> dict[str, Any]:
        """What is asked of a campaign, as the options of `holdfast assess` have it; without another to fit, what fits the trace."""
        lengths = (self._outage_s / 4, self._outage_s)
        return {
            "repetitions": self.options["repetitions"],
            "outages": lengths if folder == SINGLE else lengths[1:],  # what length does matters only alone
            "rate": "peak",
            "targets": (),
            "offsets": fitting.offsets if fitting else (),
            "golden_runs": None,
            "fault": "loss",
            "section": fitting.section if fitting else None,
            "threshold": 0.03,
            "percentile": 0.9,
            "jitter": 8,
            "seed": self.options["seed"],
            "affected": None,
        }


def _require_kept(best: Advice) -> None:
    """Raise HoldfastError where not even a replica of everything leaves as little of the loss as was asked for."""
    if best.kept or best.asked_loss is None:
        return
    left = min(each.single.mean for each in best.weighed) / best.unprotected.mean
    raise HoldfastError(
        f"--loss: even with a replica of everything {percent(left, digits=6)} of the loss under single failures is left, which is "
        f"the best there is; wanted {percent(best.asked_loss, digits=6)} (a shorter --failover leaves less)"
    )
