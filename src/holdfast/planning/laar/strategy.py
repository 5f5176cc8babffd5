"""The strategy document: which replicas are active in which configuration, and the lookup by measured rates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import isfinite
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field

from holdfast.documents.document import Document, FieldError, Part, above, at_least, between, unexpected
from holdfast.errors import HoldfastError
from holdfast.planning.document_kinds import STRATEGY, read_kind
from holdfast.planning.laar.completeness import cost, internal_completeness, violations
from holdfast.planning.laar.explanation import next_step_text, reasons
from holdfast.planning.laar.failure_models import FailureModel
from holdfast.planning.laar.instance import Active, Instance
from holdfast.planning.laar.pricing import Account
from holdfast.planning.laar.shared_nodes import shared_nodes
from holdfast.planning.laar.solver import Outcome, Solution

BREAKS = "breaks"  # the outcome of a strategy that may not be deployed


class Activation(Part):
    """One configuration, the active replicas of each PE in it (numbered from 0), and the reasons."""

    name: str
    rates: dict[str, float]
    probability: float
    active: dict[str, tuple[int, ...]]
    why: dict[str, str] = Field(default_factory=dict)


class NextStep(Part):
    """What the next unit of budget would buy: a sentence, and the PE that would become full if nodes can carry it.

    `internal_completeness` is what that would add, and `cost` its CPU seconds per billing period.
    """

    why: str
    pe: str | None = None
    configuration: str | None = None
    internal_completeness: float | None = None
    cost: float | None = None


class Money(Part):
    """A billing period at the contract's prices: profit is the fare minus running cost and expected penalty."""

    running_cost: float
    expected_penalty: float
    fare: float
    profit: float


class Cut(Part):
    """How often a rule of FT-Search pruned the tree, and the mean height of the pruned subtrees."""

    count: int
    height: float


class SearchSummary(Part):
    """Statistics of the search, as in Figures 4 to 6 of the paper."""

    seconds: float
    nodes: int
    first_cost: float | None = None
    first_seconds: float | None = None
    prunings: dict[str, Cut] = Field(default_factory=dict)

    @classmethod
    def of(cls, solution: Solution) -> SearchSummary:
        first = solution.first
        return cls(
            seconds=solution.seconds,
            nodes=solution.tree_nodes,
            first_cost=first.cost if first else None,
            first_seconds=first.seconds if first else None,
            prunings={rule: Cut(count=cut.count, height=cut.height) for rule, cut in solution.prunings.items()},
        )


@dataclass(frozen=True, slots=True)
class Match:
    """The activation to use for measured rates. `exceeded` maps sources to the rate by which they exceed the configuration.

    If it is empty, the load is not underestimated (LAAR section 4.6).
    """

    activation: Activation
    exceeded: Mapping[str, float]

    @property
    def dominates(self) -> bool:
        """Whether every rate of the configuration is at least the measured rate."""
        return not self.exceeded


class Strategy(Document):
    """A replica activation strategy s (LAAR Eq. 4) with its properties.

    `cost` is in CPU seconds per billing period, and `bound` is a lower bound on the cost of any strategy. `placement` is the
    node of each replica of each PE. `operators` lists what each PE runs, so that a strategy for another application is
    detected. `internal_completeness` holds under the failure model `failure`. `breaks` has a sentence for each of Eq. 10 to 12
    that the strategy violates, as a baseline may. `warnings` names risks that internal completeness does not account for.
    `outcome` is that of the search (LAAR Figure 4); without a search it is SOL or "breaks". `explained` fills in `why` of each
    configuration, `next` and `money`.
    """

    application: str
    solver: str
    outcome: str
    sla: float
    internal_completeness: float
    cost: float
    bound: float = 0.0
    billing_period_s: float
    failure: str = "pessimistic"
    breaks: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    search: SearchSummary | None = None
    replicas: Annotated[int, Field(json_schema_extra={"minimum": 1})]
    placement: dict[str, tuple[str, ...]]
    operators: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    configurations: tuple[Activation, ...]
    next: NextStep | None = None
    money: Money | None = None

    @classmethod
    def of(
        cls,
        instance: Instance,
        active: Active,
        *,
        solver: str = "given",
        outcome: str | None = None,
        bound: float = 0.0,
        failure: FailureModel | None = None,
        search: SearchSummary | None = None,
    ) -> Strategy:
        """Return the document of a strategy array."""
        breaks = tuple(violations(instance, active, failure=failure))
        return cls(
            application=instance.application,
            solver=solver,
            outcome=outcome or (BREAKS if breaks else Outcome.SOL.value),
            sla=instance.sla,
            internal_completeness=min(1.0, internal_completeness(instance, active, failure=failure)),
            cost=cost(instance, active),
            bound=bound,
            billing_period_s=instance.billing_period_s,
            failure=failure.name if failure else "pessimistic",
            breaks=breaks,
            warnings=tuple(shared_nodes(instance, failure=failure)),
            search=search,
            replicas=instance.shape[2],
            placement={pe: tuple(instance.nodes[h] for h in instance.node_of[i]) for i, pe in enumerate(instance.pes)},
            operators=dict(zip(instance.pes, instance.operators, strict=True)),
            configurations=tuple(
                Activation(
                    name=configuration.name,
                    rates=dict(configuration.rates),
                    probability=configuration.probability,
                    active={pe: tuple(int(j) for j in np.flatnonzero(active[c, i])) for i, pe in enumerate(instance.pes)},
                )
                for c, configuration in enumerate(instance.configurations)
            ),
        )

    def explained(self, instance: Instance, *, failure: FailureModel | None = None, account: Account | None = None) -> Strategy:
        """Return the strategy with the reason for each replica, the next step and, given an account, the money."""
        active = self.array(instance)
        why: dict[str, dict[str, str]] = {activation.name: {} for activation in self.configurations}
        for reason in reasons(instance, active, failure=failure):
            why[reason.configuration][reason.pe] = reason.why
        step, text = next_step_text(instance, active, failure=failure)
        following = NextStep(why=text)
        if step is not None:
            following = NextStep(
                why=text, pe=step.pe, configuration=step.configuration, internal_completeness=step.ic, cost=step.cost
            )
        money = None
        if account is not None:
            money = Money(running_cost=account.running, expected_penalty=account.penalty, fare=account.fare, profit=account.profit)
        activations = tuple(activation.model_copy(update={"why": why[activation.name]}) for activation in self.configurations)
        return self.model_copy(update={"configurations": activations, "next": following, "money": money})

    def explanation_lines(self) -> list[str]:
        """Return the reasons and the next step, one line each; no lines unless the strategy was explained."""
        lines = [f"{pe} in '{one.name}': {why}" for one in self.configurations for pe, why in one.why.items()]
        return [*lines, f"next: {self.next.why}"] if self.next is not None else lines

    def errors(self) -> Iterable[FieldError]:
        """Yield every error that would mislead an activation controller."""
        if not self.configurations:
            yield FieldError(("configurations",), "is empty; a strategy has at least one configuration")
            return
        if self.replicas < 1:
            yield unexpected(("replicas",), "a whole number of at least 1", self.replicas)
        for name, count in Counter(activation.name for activation in self.configurations).items():
            if count > 1:
                yield FieldError(("configurations",), f"names configuration '{name}' twice; names must differ")
        yield from between(0, 1, ("sla",), self.sla)
        yield from between(0, 1, ("internal_completeness",), self.internal_completeness)
        yield from at_least(0, ("cost",), self.cost)
        yield from at_least(0, ("bound",), self.bound)
        yield from above(0, ("billing_period_s",), self.billing_period_s)
        sources = self.configurations[0].rates.keys()
        if not sources:
            yield FieldError(("configurations", 0, "rates"), "is empty; a strategy is looked up by the rate of at least one source")
        for index, activation in enumerate(self.configurations):
            place = ("configurations", index)
            yield from between(0, 1, (*place, "probability"), activation.probability)
            if activation.rates.keys() != sources:
                text = f"wanted rates of the sources {', '.join(sorted(sources))}, got {', '.join(sorted(activation.rates))}"
                yield FieldError((*place, "rates"), text)
            for source, rate in activation.rates.items():
                yield from at_least(0, (*place, "rates", source), rate)
            for pe in sorted(self.placement.keys() ^ activation.active.keys()):
                yield FieldError((*place, "active"), f"and placement differ in PE '{pe}'; both must name every PE")
            for pe, replicas in activation.active.items():
                unknown = [j for j in replicas if not 0 <= j < self.replicas] if self.replicas >= 1 else []
                if unknown or len(set(replicas)) < len(replicas):
                    text = f"wanted different replicas from 0 to {self.replicas - 1}, got {list(replicas)}"
                    yield FieldError((*place, "active", pe), text)
                if not replicas:
                    yield FieldError((*place, "active", pe), "has no active replica; every PE needs one (LAAR Eq. 12)")
        for pe in sorted(self.operators.keys() - self.placement.keys()):
            yield FieldError(("operators", pe), "is not a PE of the placement")
        for pe, nodes in self.placement.items():
            if len(nodes) != self.replicas >= 1:
                yield FieldError(("placement", pe), f"wanted {self.replicas} nodes (one per replica), got {list(nodes)}")

    def lookup(self, rates: Mapping[str, float]) -> Match:
        """Return the nearest configuration among those that dominate the measured rates (LAAR section 4.6).

        If none dominates, return the one that falls short least; `exceeded` then tells the controller that nodes may be overloaded.
        Ties are broken by name.
        """
        sources = self.configurations[0].rates.keys()
        if rates.keys() != sources:
            raise HoldfastError(
                f"strategy of '{self.application}' is looked up by the rates of {', '.join(sorted(sources))}; "
                f"got rates of {', '.join(sorted(rates)) or 'nothing'}"
            )

        infinite = sorted(source for source, rate in rates.items() if not isfinite(rate))
        if infinite:
            raise HoldfastError(f"a strategy is looked up by finite rates; got {rates[infinite[0]]} for source '{infinite[0]}'")
        # Fractions, because squares of very high rates would overflow or become equal by rounding.
        measured = {source: Fraction(rate) for source, rate in rates.items()}

        def distance(activation: Activation) -> tuple[Fraction, Fraction, str]:
            excess = [measured[s] - Fraction(activation.rates[s]) for s in sources]
            short = sum((rate**2 for rate in excess if rate > 0), Fraction(0))
            return short, sum((rate**2 for rate in excess), Fraction(0)), activation.name

        nearest = min(self.configurations, key=distance)
        exceeded = {s: rates[s] - nearest.rates[s] for s in sorted(sources) if rates[s] > nearest.rates[s]}
        return Match(nearest, exceeded)

    def array(self, instance: Instance) -> Active:
        """Return the strategy as an array in the instance's order."""
        by_name = {activation.name: activation for activation in self.configurations}
        active = np.zeros(instance.shape, dtype=np.bool_)
        for c, configuration in enumerate(instance.configurations):
            if configuration.name not in by_name:
                raise HoldfastError(f"strategy of '{self.application}' lacks configuration '{configuration.name}'")
            for i, pe in enumerate(instance.pes):
                active[c, i, list(by_name[configuration.name].active[pe])] = True
        return active


def read_strategy(path: str | Path) -> Strategy:
    """Read the strategy at path. Raises DocumentError with every error if it is not one."""
    return read_kind(path, Strategy, kinds=[STRATEGY])
