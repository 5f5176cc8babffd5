"""What to protect, what that costs, what is to be expected then, and what more would buy."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.advise.budget import Budget
from holdfast.advise.candidate import Candidate
from holdfast.advise.loss import Expected, Loss, single_failures, together_case
from holdfast.assess.advice import advise as advised
from holdfast.assess.assessment import Assessment
from holdfast.assess.target import Choice, Target

SAME = 0.05
"""Losses that differ by less than this share are one: arrival order and the rate at which a group loses tuples move them more."""


@dataclass(frozen=True)
class Weighed:
    """A candidate with what was measured with it in place: single failures, and everything unprotected failing at once."""

    candidate: Candidate
    single: Expected
    together: Loss

    @property
    def order(self) -> tuple[float, float, int]:
        """Least loss under single failures first, then under correlated ones; then what was measured before what was derived."""
        rank = ("measured", "criticality", "of", "ic").index(self.candidate.objective)
        return round(self.single.mean, 9), round(self.together.mean, 9), rank


@dataclass(frozen=True)
class Next:
    """The next replica to buy: whose, the share of the loss that would then be left, the share of full replication's CPU that it
    takes, and what the failure would still cost."""

    operator: str
    left: float
    cpu: float
    after: Loss


@dataclass(frozen=True)
class Advice:
    """The chosen plan among those weighed, and the figures behind it.

    `cpu` is the CPU seconds per second of each operator and source; `kept` names the objectives whose plans keep what was asked
    for; `failing_over` is what the failure of one with a replica costs, for those of which it was measured.
    """

    application: str
    budget: Budget
    outage_s: float
    failover_s: float
    single: Mapping[str, Loss]
    weighed: tuple[Weighed, ...]
    why: Mapping[str, str]
    cpu: Mapping[str, float]
    tasks: Mapping[str, int]
    kept: frozenset[str]
    failing_over: Mapping[str, Loss]

    @property
    def chosen(self) -> Weighed:
        """Of the plans that keep what was asked for and lose no more than any other when all else fails, the one that loses least
        under single failures."""
        able = [each for each in self.weighed if each.candidate.objective in self.kept]
        least = min(each.together.mean for each in able)
        return min((each for each in able if each.together.mean <= least * (1 + SAME)), key=lambda each: each.order)

    @property
    def unprotected(self) -> Expected:
        """What to expect of single failures without any replica."""
        return Expected.over(loss for _, loss in sorted(self.single.items()))

    @property
    def left(self) -> float:
        """The share of the expected loss under single failures that the plan leaves."""
        return _share(self.chosen.single.mean, self.unprotected.mean)

    @property
    def widest(self) -> Loss:
        """Of the trials behind the plan those in which quality differed most between arrival orders."""
        return max((*self.unprotected.parts, *self.chosen.single.parts, self.chosen.together), key=lambda loss: loss.by_seed)

    def stated(self, operator: str) -> Loss:
        """What the failure of an operator or source costs under the plan: with its replica, or alone."""
        return self.failing_over[operator] if operator in self.chosen.candidate.protected else self.single[operator]

    @property
    def ranking(self) -> tuple[str, ...]:
        """All operators and sources, the costliest failure first."""
        return tuple(sorted(self.single, key=lambda name: (-self.single[name].mean, name)))

    def next_unit(self) -> Next | None:
        """Who should have the next replica, the costliest that has none; None where all have one."""
        held = set(self.chosen.candidate.protected)
        name = next((name for name in self.ranking if name not in held), None)
        if name is None:
            return None
        after = self.failing_over[name]
        mean = self.chosen.single.mean - (self.single[name].mean - after.mean) / len(self.single)
        cpu = _share(self.cpu.get(name, 0.0), sum(self.cpu.values()))
        return Next(name, max(0.0, _share(mean, self.unprotected.mean)), cpu, after)

    def document(self) -> dict[str, Any]:
        """Everything as plain values."""
        chosen, following = self.chosen, self.next_unit()
        held = chosen.candidate.protected
        return {
            "application": self.application,
            "budget": str(self.budget),
            "outage_s": self.outage_s,
            "failover_s": self.failover_s,
            "protect": [{"operator": name, "why": self.why[name], "alone": _loss(self.single[name])} for name in held],
            "objective": chosen.candidate.objective,
            "cost": {
                "replicas": sum(self.tasks[name] for name in held),
                "cpu_s_per_s": sum(self.cpu.get(name, 0.0) for name in held),
                "share_of_full": _share(sum(self.cpu.get(n, 0.0) for n in held), sum(self.cpu.values())),
            },
            "single_failures": {"without": _expected(self.unprotected), "with": _expected(chosen.single), "left": self.left},
            "spread_over_seeds": {"quality": self.widest.by_seed, "case": self.widest.case},
            "correlated_failures": _loss(chosen.together),
            "next": following
            and {"operator": following.operator, "left": following.left, "share_of_full": following.cpu, **_loss(following.after)},
            "plans": [
                {
                    "objective": each.candidate.objective,
                    "keeps_what_was_asked": each.candidate.objective in self.kept,
                    "protected": list(each.candidate.protected),
                    "single": _expected(each.single),
                    "together": _loss(each.together),
                }
                for each in self.weighed
            ],
            "operators": [{"operator": name, **_loss(self.single[name]), "why": self.why[name]} for name in self.ranking],
        }


def weigh(
    candidate: Candidate, single: Mapping[str, Loss], measured: Mapping[str, Loss], everything: Target, *, failover_s: float
) -> Weighed:
    """A candidate with the losses that were measured for it."""
    open_ = tuple(name for name in everything if name not in candidate.protected)
    together = measured[together_case(open_, everything, failover_s=failover_s).name]
    return Weighed(candidate, single_failures(single, measured, candidate.protected, failover_s=failover_s), together)


def reasons(assessment: Assessment, choices: Sequence[Choice]) -> dict[str, str]:
    """Why each operator matters or not, in the words of the four metrics."""
    said = {view.case: str(advised(assessment, view)) for view in assessment.cases}
    why = {}
    for choice in choices:
        case = choice.name if choice.chosen else choice.like or choice.name
        text = said.get(case, "Nothing to protect: nothing reaches it on this trace.")
        why[choice.name] = text if choice.chosen else f"Behaves like {case}, which feeds it alone."
    return why


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _loss(loss: Loss) -> dict[str, Any]:
    least, greatest = loss.spread
    return {"mean": loss.mean, "least": least, "greatest": greatest, "case": loss.case}


def _expected(expected: Expected) -> dict[str, Any]:
    return {
        "mean": expected.mean,
        "least": expected.least,
        "greatest": expected.greatest,
        "cases": [p.case for p in expected.parts],
    }
