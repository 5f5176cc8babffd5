"""The advice: the recommended plan, its price, the expected losses with it, and the next unit to protect."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any

from holdfast.advise.budget import Budget, Prices, ranked
from holdfast.advise.candidates import OBJECTIVE_NAMES, Candidate
from holdfast.advise.losses import Expected, Loss, is_larger_loss, loss_of_case, single_failures, together_case
from holdfast.advise.protection_units import Units
from holdfast.advise.reasons import counted, percent, reason_of
from holdfast.assess.advice import advise as advised
from holdfast.assess.assessment import Assessment
from holdfast.assess.damage import CERTAIN, certainty
from holdfast.assess.targets import Choice


@dataclass(frozen=True)
class MeasuredPlan:
    """A candidate plan with the losses measured with it in place: of single failures, and of all unprotected units failing at once.
    `completeness` is the internal completeness in the second case."""

    candidate: Candidate
    single: Expected
    together: Loss
    completeness: float


@dataclass(frozen=True)
class Next:
    """The unit to protect next: its replicas, its share of full replication's CPU, the share of the loss that would remain, and the
    loss of its failure with a replica."""

    operator: str
    replicas: int
    cpu: float
    remaining: float
    after: Loss

    @property
    def description(self) -> str:
        """The unit and its number of replicas as text."""
        return f"{self.operator}, {counted(self.replicas)}"


@dataclass(frozen=True)
class Advice:
    """The measured plans, the chosen one among them, and the figures behind the choice.

    `single` has the loss of each unit's failure without a replica, `failing_over` with a replica (where measured). `because` has
    the measurements of each unit as text. `reaching_goal` has the objectives whose plans reach the requested goal: `goal_ic`, an
    internal completeness, or `goal_loss`, the share of the loss that may remain.
    """

    application: str
    budget: Budget
    outage_s: float
    failover_s: float
    single: Mapping[str, Loss]
    plans: tuple[MeasuredPlan, ...]
    because: Mapping[str, str]
    prices: Prices
    units: Units
    reaching_goal: frozenset[str]
    failing_over: Mapping[str, Loss]
    goal_ic: float | None = None
    goal_loss: float | None = None

    @property
    def chosen(self) -> MeasuredPlan:
        """The recommended plan.

        Among the plans that reach the goal, it is one with the smallest loss when all unprotected units fail at once. Ties go to
        the smallest loss under single failures, then to the cheapest plan. An empty plan is only chosen if all are empty.
        """
        adequate = [each for each in self.plans if each.candidate.objective in self.reaching_goal]
        able = [each for each in adequate if each.candidate.protected] or adequate
        least = min(each.together.mean for each in able)
        best = [each for each in able if not is_larger_loss(each.together.mean, least)]
        return min(best, key=lambda each: (round(each.single.mean, 9), self.prices.share(each.candidate.protected)))

    @property
    def unprotected(self) -> Expected:
        """The expected loss of single failures without any replica."""
        return Expected.over(loss for _, loss in sorted(self.single.items()))

    @property
    def remaining(self) -> float:
        """The share of the expected loss under single failures that remains with the plan."""
        return _share(self.chosen.single.mean, self.unprotected.mean)

    @property
    def widest(self) -> tuple[float, Loss] | None:
        """The largest difference of quality between arrival orders in the trials behind the plan, and its loss; None if there was
        only one order."""
        losses = (*self.unprotected.parts, *self.chosen.single.parts, self.chosen.together)
        differences = [(loss.by_seed, loss) for loss in losses if loss.by_seed is not None]
        return max(differences, key=lambda each: each[0], default=None)

    @property
    def chosen_for(self) -> str:
        """The objective of the chosen plan and why it was chosen, as text."""
        able = "protects anything" if self.goal is None else "reaches the goal"
        return (
            f"It is the plan by {OBJECTIVE_NAMES[self.chosen.candidate.objective]}. Of the {len(self.plans)} plans that were "
            f"tried, none that {able} loses less when everything without a replica fails at once. Among equals, none loses less "
            "when one unit fails."
        )

    @property
    def confidence(self) -> str:
        """How certain the choice is, as text: which protected and unprotected units cannot be told apart by their losses."""
        protected = self.chosen.candidate.protected
        others = [name for name in self.ranking if name not in protected and name not in self.prices.unreplicable]
        pairs = [(one, other) for one in protected for other in others if self.single[one].mean >= self.single[other].mean > 0]
        likely = {pair: certainty(*(self.single[name].by_offset for name in pair)) for pair in pairs}
        if any(isnan(probability) for probability in likely.values()):
            return "With one offset it is unknown how certain the ranking is."
        close = [f"{one} and {other} ({percent(p)})" for (one, other), p in likely.items() if p < CERTAIN]
        if close:
            return (
                "Another trace may lead to another choice, because the intervals of these losses overlap (in parentheses how "
                f"likely the first loses more): {', '.join(close)}."
            )
        return "Each protected unit loses more than each unprotected one at a confidence of at least 95%." if pairs else ""

    def loss_with_plan(self, operator: str) -> Loss:
        """Return the loss of a unit's failure under the plan: with its replica, if it has one."""
        return self.failing_over[operator] if operator in self.chosen.candidate.protected else self.single[operator]

    @property
    def ranking(self) -> tuple[str, ...]:
        """All units in descending order of loss."""
        return ranked(self.single, {name: loss.mean for name, loss in self.single.items()})

    def why(self, name: str) -> str:
        """Return whether the plan protects a unit, and why."""
        return reason_of(self, name)

    @property
    def goal(self) -> str | None:
        """The goal that was requested instead of a budget, as text."""
        if self.goal_ic is not None:
            return f"an internal completeness of {self.goal_ic:g}"
        return None if self.goal_loss is None else f"a loss of at most {percent(self.goal_loss)}"

    def next_unit(self) -> Next | None:
        """Return the unprotected unit with the largest loss; None if all are protected."""
        protected = set(self.chosen.candidate.protected)
        name = next((name for name in self.ranking if name not in protected | self.prices.unreplicable), None)
        if name is None:
            return None
        after = self.failing_over[name]
        mean = self.chosen.single.mean - (self.single[name].mean - after.mean) / len(self.single)
        remaining = max(0.0, _share(mean, self.unprotected.mean))
        return Next(name, self.prices.tasks[name], self.prices.share([name]), remaining, after)

    @property
    def completeness(self) -> str:
        """The internal completeness of the plan when everything else fails, as text."""
        goal = "" if self.goal_ic is None else f" (requested: {self.goal_ic:g})"
        return f"an internal completeness of {self.chosen.completeness:.3g}{goal}"

    @property
    def replicas(self) -> int:
        """The number of task replicas in the plan."""
        return sum(self.prices.tasks[name] for name in self.chosen.candidate.protected)

    def document(self) -> dict[str, Any]:
        """Return the advice as plain values, for JSON."""
        chosen, following, widest = self.chosen, self.next_unit(), self.widest
        protected = chosen.candidate.protected
        return {
            "application": self.application,
            "budget": str(self.budget),
            "outage_s": self.outage_s,
            "failover_s": self.failover_s,
            "protect": [{"operator": name, "why": self.why(name), "alone": _loss(self.single[name])} for name in protected],
            "objective": chosen.candidate.objective,
            "chosen_for": self.chosen_for,
            "confidence": self.confidence,
            "cost": {
                "replicas": self.replicas,
                "cpu_s_per_s": sum(self.prices.cpu[name] for name in protected),
                "share_of_full": self.prices.share(protected),
            },
            "internal_completeness": {"value": chosen.completeness, "goal": self.goal_ic},
            "single_failures": {
                "without": _expected(self.unprotected),
                "with": _expected(chosen.single),
                "remaining": self.remaining,
            },
            "spread_over_seeds": widest and {"quality": widest[0], "case": widest[1].case},
            "correlated_failures": _loss(chosen.together),
            "next": following
            and {
                "operator": following.operator,
                "replicas": following.replicas,
                "share_of_full": following.cpu,
                "remaining": following.remaining,
                **_loss(following.after),
            },
            "plans": [
                {
                    "objective": each.candidate.objective,
                    "reaches_goal": each.candidate.objective in self.reaching_goal,
                    "protected": list(each.candidate.protected),
                    "single": _expected(each.single),
                    "together": _loss(each.together),
                    "internal_completeness": each.completeness,
                }
                for each in self.plans
            ],
            "operators": [{"operator": name, **_loss(self.single[name]), "why": self.why(name)} for name in self.ranking],
        }


def measured_plan(
    candidate: Candidate,
    single: Mapping[str, Loss],
    measured: Mapping[str, Loss],
    *,
    units: Units,
    failover_s: float,
    completeness: float,
) -> MeasuredPlan:
    """Return a candidate plan with the losses that were measured for it."""
    together = loss_of_case(together_case(units, candidate.protected, failover_s=failover_s).name, measured)
    expected = single_failures(single, measured, candidate.protected, units=units, failover_s=failover_s)
    return MeasuredPlan(candidate, expected, together, completeness)


def reasons(assessment: Assessment, choices: Sequence[Choice]) -> dict[str, str]:
    """Return the measurements of each unit as text, in terms of the four metrics."""
    texts = {view.case: f"its loss is {(one := advised(assessment, view)).importance}; {one.because}" for view in assessment.cases}
    because = {}
    for choice in choices:
        text = texts.get(
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
