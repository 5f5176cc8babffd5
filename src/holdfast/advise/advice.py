"""What to protect, what that costs, what is to be expected then, and what more would buy."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.advise.budget import Budget, Prices, ranked
from holdfast.advise.candidates import NAMES, Candidate
from holdfast.advise.losses import Expected, Loss, exceeds, found, single_failures, together_case
from holdfast.advise.protection_units import Units
from holdfast.advise.reasons import counted, percent, reason_of
from holdfast.assess.advice import advise as advised
from holdfast.assess.assessment import Assessment
from holdfast.assess.targets import Choice


@dataclass(frozen=True)
class WeighedUnit:
    """A candidate with what was measured with it in place: single failures, and everything unprotected failing at once; and the
    internal completeness that it keeps then."""

    candidate: Candidate
    single: Expected
    together: Loss
    completeness: float


@dataclass(frozen=True)
class Next:
    """Who should be protected next: the replicas and the share of full replication's CPU that it takes, the share of the loss that
    would then be left, and what its failure would still cost."""

    operator: str
    replicas: int
    cpu: float
    left: float
    after: Loss

    @property
    def bought(self) -> str:
        """Who is next, with how many replicas, in words."""
        return f"{self.operator}, {counted(self.replicas)}"


@dataclass(frozen=True)
class Advice:
    """The chosen plan among those weighed, and the figures behind it.

    `units` are the sources and PEs that fail and are protected, `because` is what was measured of each, in words; `kept` names the
    objectives whose plans keep what was asked for; `failing_over` is what the failure of one with a replica costs, for those of
    which it was measured; `asked_ic` is the internal completeness that was asked for, `asked_loss` the share of the loss that may
    be left, if one was.
    """

    application: str
    budget: Budget
    outage_s: float
    failover_s: float
    single: Mapping[str, Loss]
    weighed: tuple[WeighedUnit, ...]
    because: Mapping[str, str]
    prices: Prices
    units: Units
    kept: frozenset[str]
    failing_over: Mapping[str, Loss]
    asked_ic: float | None = None
    asked_loss: float | None = None

    @property
    def chosen(self) -> WeighedUnit:
        """Of the plans that keep what was asked for, and lose no more than any other when all that they leave open fails at once,
        the one that loses least under single failures; then the cheapest, then the first. One that protects nothing is none to
        recommend while another does."""
        kept = [each for each in self.weighed if each.candidate.objective in self.kept]
        able = [each for each in kept if each.candidate.protected] or kept
        least = min(each.together.mean for each in able)
        best = [each for each in able if not exceeds(each.together.mean, least)]
        return min(best, key=lambda each: (round(each.single.mean, 9), self.prices.share(each.candidate.protected)))

    @property
    def unprotected(self) -> Expected:
        """What to expect of single failures without any replica."""
        return Expected.over(loss for _, loss in sorted(self.single.items()))

    @property
    def left(self) -> float:
        """The share of the expected loss under single failures that the plan leaves."""
        return _share(self.chosen.single.mean, self.unprotected.mean)

    @property
    def widest(self) -> tuple[float, Loss] | None:
        """How far quality differed between arrival orders in the trials behind the plan, at most, and in which; None where there
        was one order."""
        losses = (*self.unprotected.parts, *self.chosen.single.parts, self.chosen.together)
        told = [(loss.by_seed, loss) for loss in losses if loss.by_seed is not None]
        return max(told, key=lambda each: each[0], default=None)

    @property
    def chosen_for(self) -> str:
        """Which of the plans it is, and what it is chosen for, in words."""
        able = "protects anything" if self.asked is None else "keeps what was asked for"
        return (
            f"It is the plan by {NAMES[self.chosen.candidate.objective]}: of the {len(self.weighed)} that were tried none that "
            f"{able} loses less when everything without a replica fails at once, and none that loses as little then loses less "
            "when one fails."
        )

    def stated(self, operator: str) -> Loss:
        """What the failure of an operator or source costs under the plan: with its replica, or alone."""
        return self.failing_over[operator] if operator in self.chosen.candidate.protected else self.single[operator]

    @property
    def ranking(self) -> tuple[str, ...]:
        """All sources and PEs, the costliest failure first."""
        return ranked(self.single, {name: loss.mean for name, loss in self.single.items()})

    def why(self, name: str) -> str:
        """What the plan does about a source or PE, and because of what."""
        return reason_of(self, name)

    @property
    def asked(self) -> str | None:
        """What was asked for in place of a budget, in words."""
        if self.asked_ic is not None:
            return f"an internal completeness of {self.asked_ic:g}"
        return None if self.asked_loss is None else f"a loss of at most {percent(self.asked_loss)}"

    def next_unit(self) -> Next | None:
        """Who should be protected next, the costliest that is not; None where all are."""
        held = set(self.chosen.candidate.protected)
        name = next((name for name in self.ranking if name not in held), None)
        if name is None:
            return None
        after = self.failing_over[name]
        mean = self.chosen.single.mean - (self.single[name].mean - after.mean) / len(self.single)
        left = max(0.0, _share(mean, self.unprotected.mean))
        return Next(name, self.prices.tasks[name], self.prices.share([name]), left, after)

    @property
    def completeness(self) -> str:
        """The internal completeness that the plan keeps when everything else fails, in words."""
        asked = "" if self.asked_ic is None else f" (asked for: {self.asked_ic:g})"
        return f"an internal completeness of {self.chosen.completeness:.3g}{asked}"

    @property
    def replicas(self) -> int:
        """How many replicas the plan has: one of each task of what it protects."""
        return sum(self.prices.tasks[name] for name in self.chosen.candidate.protected)

    def document(self) -> dict[str, Any]:
        """Everything as plain values."""
        chosen, following, widest = self.chosen, self.next_unit(), self.widest
        held = chosen.candidate.protected
        return {
            "application": self.application,
            "budget": str(self.budget),
            "outage_s": self.outage_s,
            "failover_s": self.failover_s,
            "protect": [{"operator": name, "why": self.why(name), "alone": _loss(self.single[name])} for name in held],
            "objective": chosen.candidate.objective,
            "chosen_for": self.chosen_for,
            "cost": {
                "replicas": self.replicas,
                "cpu_s_per_s": sum(self.prices.cpu[name] for name in held),
                "share_of_full": self.prices.share(held),
            },
            "internal_completeness": {"kept": chosen.completeness, "asked": self.asked_ic},
            "single_failures": {"without": _expected(self.unprotected), "with": _expected(chosen.single), "left": self.left},
            "spread_over_seeds": widest and {"quality": widest[0], "case": widest[1].case},
            "correlated_failures": _loss(chosen.together),
            "next": following
            and {
                "operator": following.operator,
                "replicas": following.replicas,
                "share_of_full": following.cpu,
                "left": following.left,
                **_loss(following.after),
            },
            "plans": [
                {
                    "objective": each.candidate.objective,
                    "keeps_what_was_asked": each.candidate.objective in self.kept,
                    "protected": list(each.candidate.protected),
                    "single": _expected(each.single),
                    "together": _loss(each.together),
                    "internal_completeness": each.completeness,
                }
                for each in self.weighed
            ],
            "operators": [{"operator": name, **_loss(self.single[name]), "why": self.why(name)} for name in self.ranking],
        }


def weigh(
    candidate: Candidate,
    single: Mapping[str, Loss],
    measured: Mapping[str, Loss],
    *,
    units: Units,
    failover_s: float,
    completeness: float,
) -> WeighedUnit:
    """A candidate with the losses that were measured for it, and the internal completeness that it keeps."""
    together = found(together_case(units, candidate.protected, failover_s=failover_s).name, measured)
    expected = single_failures(single, measured, candidate.protected, units=units, failover_s=failover_s)
    return WeighedUnit(candidate, expected, together, completeness)


def reasons(assessment: Assessment, choices: Sequence[Choice]) -> dict[str, str]:
    """What was measured of each source and PE, in the words of the four metrics."""
    said = {view.case: advised(assessment, view).because for view in assessment.cases}
    because = {}
    for choice in choices:
        text = said.get(
            choice.name if choice.chosen else choice.like or "", "nothing of it reaches the scored output on this trace"
        )
        because[choice.name] = text if choice.chosen else f"it behaves like {choice.like}, {choice.alike}; of that: {text}"
    return because


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
