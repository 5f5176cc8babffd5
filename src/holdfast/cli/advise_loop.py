"""The loop of an advice: assess, plan, assess again with the plan in place."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.cli.assess_campaign import campaign_of, carry_out
from holdfast.cli.assess_fitting import fitting_outages
from holdfast.cli.shared import say
from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from holdfast.advise.advice import Advice, Weighed
    from holdfast.advise.budget import Budget
    from holdfast.advise.candidate import Candidate
    from holdfast.advise.loss import Loss
    from holdfast.assess.assessment import Assessment
    from holdfast.assess.campaign import Campaign
    from holdfast.assess.case import Case
    from holdfast.assess.setting import Setting
    from holdfast.assess.target import Choice
    from holdfast.model.topology import Topology

SINGLE, TOGETHER = "assessment", "with-plan"
HALF = "50%"
"""The budget where none is given."""


class Loop:
    """Assess, plan, assess again."""

    def __init__(
        self,
        setting: "Setting",
        subject: dict[str, Any],
        choices: "Sequence[Choice]",
        topology: "Topology",
        options: dict[str, Any],
        out: Path,
    ) -> None:
        from holdfast.advise.candidate import whole_operators

        self.setting, self.subject, self.choices, self.options, self.out = setting, subject, choices, options, out
        self.tasks = {name: operator.parallelism for name, operator in topology.operators.items()}
        self.topology = whole_operators(topology)
        self.everything = tuple(name for name in setting.graph.order if name in self.topology.operators)
        self.failover_s: float = setting.app.epoch_s if options["failover_s"] is None else options["failover_s"]

    def run(self, cpu: dict[str, float]) -> "tuple[Advice, dict[str, tuple[Campaign, Assessment]]]":
        """Assess, plan and assess again, with more and more replicas where a share of the loss is to be kept."""
        from holdfast.advise.advice import Advice, reasons, weigh
        from holdfast.advise.budget import Budget
        from holdfast.advise.candidate import candidates
        from holdfast.advise.loss import losses_of, protected_case

        first, assessed, single = self.singles()
        impact = {name: loss.mean for name, loss in single.items()}
        if not sum(impact.values()):
            raise HoldfastError(
                "no failure left a mark on the output: no section of it was more than 3 % off at any offset, so nothing needs a "
                "replica; longer outages (--outage) may show more"
            )
        budget = self._budget(cpu)
        while True:
            plans = candidates(self.topology, impact, budget, cpu)
            folder = f"{TOGETHER}-{budget.name}"
            second, again = self.assessed(self._cases(plans, impact), folder, offsets=first.offsets)
            measured = losses_of(again.cases)
            weighed = tuple(weigh(plan, single, measured, self.everything, failover_s=self.failover_s) for plan in plans)
            over = {name: protected_case(name, failover_s=self.failover_s).name for name in self.everything}
            advice = Advice(
                application=self.setting.app.name,
                budget=budget,
                outage_s=first.outages_s[-1],
                failover_s=self.failover_s,
                single=single,
                weighed=weighed,
                why=reasons(assessed, self.choices),
                cpu=cpu,
                tasks=self.tasks,
                kept=self._kept(weighed, single),
                failing_over={name: measured[case] for name, case in over.items() if case in measured},
            )
            if advice.kept:
                return advice, {SINGLE: (first, assessed), folder: (second, again)}
            if budget.replicas == len(self.everything):
                best = min(each.single.mean for each in weighed) / advice.unprotected.mean
                raise HoldfastError(
                    f"--loss: even with a replica of everything {best:.1%} of the loss under single failures is left, which is the "
                    f"best there is; wanted {self.options['loss']:.1%} (a shorter --failover leaves less)"
                )
            budget = Budget(replicas=(budget.replicas or 0) + 1)

    def _kept(self, weighed: "Sequence[Weighed]", single: "dict[str, Loss]") -> frozenset[str]:
        """The objectives whose plans keep what was asked for: a completeness, a share of the loss; without either, all."""
        from holdfast.advise.candidate import completeness
        from holdfast.advise.loss import Expected

        ic, loss = self.options["ic"], self.options["loss"]
        before = Expected.over(each for _, each in sorted(single.items())).mean
        return frozenset(
            each.candidate.objective
            for each in weighed
            if (ic is None or completeness(self.topology, each.candidate.protected) >= ic - 1e-9)
            and (loss is None or each.single.mean <= loss * before)
        )

    def singles(self) -> "tuple[Campaign, Assessment, dict[str, Loss]]":
        """What each source and operator costs when it fails alone, with the assessment that says so."""
        from holdfast.advise.loss import alone, losses_of
        from holdfast.assess.case import Case

        cases = [Case((choice.name,)) for choice in self.choices if choice.chosen]
        campaign, assessed = self.assessed(cases, SINGLE, offsets=())
        return campaign, assessed, alone(self.choices, losses_of(assessed.cases))

    def _budget(self, cpu: dict[str, float]) -> "Budget":
        """The budget that was given, the least that keeps the completeness asked for, or where to begin to look."""
        from holdfast.advise.budget import Budget
        from holdfast.advise.candidate import least_budget

        if self.options["ic"] is not None:
            return Budget(replicas=least_budget(self.topology, self.options["ic"]))
        if self.options["loss"] is not None:
            return Budget(replicas=1)
        budget = Budget.of(self.options["budget"] or HALF)
        budget.check(cpu)
        return budget

    def _cases(self, plans: "Sequence[Candidate]", impact: dict[str, float]) -> "list[Case]":
        """Every protected operator failing over, the one that each plan would protect next as well, and for every plan all that it
        leaves open failing at once."""
        from holdfast.advise.loss import protected_case, together_case

        ranking = sorted(self.everything, key=lambda name: (-impact[name], name))
        held = {name for plan in plans for name in plan.protected}
        held |= {name for plan in plans for name in [each for each in ranking if each not in plan.protected][:1]}
        cases = [protected_case(name, failover_s=self.failover_s) for name in sorted(held, key=self.everything.index)]
        for plan in plans:
            open_ = tuple(name for name in self.everything if name not in plan.protected)
            cases.append(together_case(open_, self.everything, failover_s=self.failover_s))
        return list(dict.fromkeys(cases))

    def assessed(self, cases: "Sequence[Case]", folder: str, *, offsets: tuple[int, ...]) -> "tuple[Campaign, Assessment]":
        """Try these cases in a folder of their own, or read what was tried there."""
        from holdfast.assess.assessment import assess
        from holdfast.assess.results import Results

        outage_s = self.options["outage_s"] if self.options["outage_s"] is not None else max(fitting_outages(self.setting))
        wanted = {
            "repetitions": self.options["repetitions"],
            "outages": (outage_s / 4, outage_s) if folder == SINGLE else (outage_s,),  # what length does matters only alone
            "rate": "peak",
            "targets": () if folder == SINGLE else (folder,),
            "offsets": offsets,
            "golden_runs": None,
            "fault": "loss",
            "section": None,
            "threshold": 0.03,
            "percentile": 0.9,
            "jitter": 8,
            "seed": self.options["seed"],
            "affected": None,
        }
        campaign = campaign_of(self.setting, cases, self.subject, wanted)
        say(f"{folder}: {len(cases)} ways to fail, {campaign.size:,} trials")
        carry_out(
            self.setting.sectioned(campaign.section), campaign, self.out / folder, choices=self.choices, check=folder == SINGLE
        )
        results = Results(self.out / folder, campaign)
        facts, golden = results.read("facts") or {}, results.read("golden") or {}
        return campaign, assess(campaign, facts, golden, results.outcomes)[0]
