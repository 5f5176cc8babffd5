"""The strategy document: which replicas are active in which input configuration, and how a controller looks that up."""

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
from holdfast.planning.laar.explanation import next_in_words, reasons
from holdfast.planning.laar.failure_models import FailureModel
from holdfast.planning.laar.instance import Active, Instance
from holdfast.planning.laar.pricing import Account
from holdfast.planning.laar.shared_nodes import shared_nodes
from holdfast.planning.laar.solver import Outcome, Solution

BREAKS = "breaks"  # the outcome of a strategy that may not be deployed


class Activation(Part):
    """One input configuration and the replicas (numbered from 0) of each PE that are active in it, and why."""

    name: str
    rates: dict[str, float]
    probability: float
    active: dict[str, tuple[int, ...]]
    why: dict[str, str] = Field(default_factory=dict)


class NextStep(Part):
    """What the next unit of budget would buy, in words; and the PE that would become full where nodes carry that.

    `internal_completeness` is what it would add, `cost` its CPU seconds per billing period.
    """

    why: str
    pe: str | None = None
    configuration: str | None = None
    internal_completeness: float | None = None
    cost: float | None = None


class Money(Part):
    """A billing period under the contract's prices: running cost and expected penalty are taken from the fare."""

    running_cost: float
    expected_penalty: float
    fare: float
    profit: float


class Cut(Part):
    """How often a rule of FT-Search cut its tree, and the mean height of what it cut off."""

    count: int
    height: float


class SearchStory(Part):
    """How the solver came to the strategy: what Figures 4 to 6 of the paper are made of."""

    seconds: float
    nodes: int
    first_cost: float | None = None
    first_seconds: float | None = None
    prunings: dict[str, Cut] = Field(default_factory=dict)

    @classmethod
    def of(cls, solution: Solution) -> SearchStory:
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
    """The activation to use for measured rates. `exceeded` names the sources that no configuration foresaw, and by how much.

    As long as it is empty the load is not underestimated (LAAR section 4.6).
    """

    activation: Activation
    exceeded: Mapping[str, float]

    @property
    def dominates(self) -> bool:
        """Whether every rate of the configuration is at least the measured one."""
        return not self.exceeded


class Strategy(Document):
    """A replica activation strategy s (LAAR Eq. 4) with what it promises.

    `cost` is CPU seconds per billing period, `bound` what any strategy must cost at least. `placement` gives the node of
    each replica of each PE, `operators` what the PE runs, so that who applies the strategy can tell one that was made
    for something else. Internal completeness is that under the failure model `failure`; `breaks` says in words which of
    Eq. 10 to 12 the strategy breaks, as a baseline may, and `warnings` what its internal completeness does not show.
    `outcome` is that of the search (LAAR Figure 4); a strategy that nobody searched for is a solution, or it breaks something.
    Words (`why` of each configuration, `next`) and `money` are there once it is `explained`.
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
    search: SearchStory | None = None
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
        search: SearchStory | None = None,
    ) -> Strategy:
        """The document of a strategy held in an array."""
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
        """The strategy with why each replica is active, what the next unit of budget would buy and, given an account, the money."""
        active = self.array(instance)
        why: dict[str, dict[str, str]] = {activation.name: {} for activation in self.configurations}
        for reason in reasons(instance, active, failure=failure):
            why[reason.configuration][reason.pe] = reason.why
        step, text = next_in_words(instance, active, failure=failure)
        following = NextStep(why=text)
        if step is not None:
            following = NextStep(
                why=text, pe=step.pe, configuration=step.configuration, internal_completeness=step.ic, cost=step.cost
            )
        money = None
        if account is not None:
            money = Money(running_cost=account.running, expected_penalty=account.penalty, fare=account.fare, profit=account.profit)
        told = tuple(activation.model_copy(update={"why": why[activation.name]}) for activation in self.configurations)
        return self.model_copy(update={"configurations": told, "next": following, "money": money})

    def words(self) -> list[str]:
        """Why each replica is active and what comes next, a line each; none unless it was explained."""
        lines = [f"{pe} in '{one.name}': {why}" for one in self.configurations for pe, why in one.why.items()]
        return [*lines, f"next: {self.next.why}"] if self.next is not None else lines

    def errors(self) -> Iterable[FieldError]:
        """Everything that would mislead a controller."""
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
                wrong = [j for j in replicas if not 0 <= j < self.replicas] if self.replicas >= 1 else []
                if wrong or len(set(replicas)) < len(replicas):
                    text = f"wanted different replicas from 0 to {self.replicas - 1}, got {list(replicas)}"
                    yield FieldError((*place, "active", pe), text)
                if not replicas:
                    yield FieldError((*place, "active", pe), "has no active replica; every PE needs one (LAAR Eq. 12)")
        for pe in sorted(self.operators.keys() - self.placement.keys()):
            yield FieldError(("operators", pe), "is no PE of the placement")
        for pe, nodes in self.placement.items():
            if len(nodes) != self.replicas >= 1:
                yield FieldError(("placement", pe), f"wanted {self.replicas} nodes (one per replica), got {list(nodes)}")

    def lookup(self, rates: Mapping[str, float]) -> Match:
        """The configuration nearest to the measured rates among those that dominate them (LAAR section 4.6).

        Where none dominates, the one that falls short by least, told by the match's `exceeded`: the controller must go
        on with something, and must know that its nodes may be overloaded. Ties by name.
        """
        known = self.configurations[0].rates.keys()
        if rates.keys() != known:
            raise HoldfastError(
                f"strategy of '{self.application}' is looked up by the rates of {', '.join(sorted(known))}; "
                f"got rates of {', '.join(sorted(rates)) or 'nothing'}"
            )

        odd = sorted(source for source, rate in rates.items() if not isfinite(rate))
        if odd:
            raise HoldfastError(f"a strategy is looked up by finite rates; got {rates[odd[0]]} for source '{odd[0]}'")
        # Fractions, since squares of rates far above all configurations would be too large, or all the same when rounded.
        measured = {source: Fraction(rate) for source, rate in rates.items()}

        def away(activation: Activation) -> tuple[Fraction, Fraction, str]:
            apart = [measured[s] - Fraction(activation.rates[s]) for s in known]
            short = sum((more**2 for more in apart if more > 0), Fraction(0))
            return short, sum((more**2 for more in apart), Fraction(0)), activation.name

        nearest = min(self.configurations, key=away)
        exceeded = {s: rates[s] - nearest.rates[s] for s in sorted(known) if rates[s] > nearest.rates[s]}
        return Match(nearest, exceeded)

    def array(self, instance: Instance) -> Active:
        """The strategy as an array over the instance's own order."""
        by_name = {activation.name: activation for activation in self.configurations}
        active = np.zeros(instance.shape, dtype=np.bool_)
        for c, configuration in enumerate(instance.configurations):
            if configuration.name not in by_name:
                raise HoldfastError(f"strategy of '{self.application}' lacks configuration '{configuration.name}'")
            for i, pe in enumerate(instance.pes):
                active[c, i, list(by_name[configuration.name].active[pe])] = True
        return active


def read_strategy(path: str | Path) -> Strategy:
    """The strategy at path; DocumentError with every error if it is not one."""
    return read_kind(path, Strategy, wanted=[STRATEGY])
