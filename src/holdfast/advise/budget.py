"""The budget of a plan: a number of replicas, or a share of the CPU time of full replication."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from holdfast.errors import HoldfastError

ROUNDING = 1e-9


@dataclass(frozen=True)
class Prices:
    """The price of protecting each source and PE: its number of tasks, and the CPU seconds per second of their replicas.

    `unreplicable` are the sources with a reader, which can have only one replica.
    """

    tasks: Mapping[str, int]
    cpu: Mapping[str, float]
    unreplicable: frozenset[str] = frozenset()

    def share(self, names: Iterable[str]) -> float:
        """Return the CPU of these units as a share of full replication."""
        whole = sum(self.cpu.values())
        return sum(self.cpu[name] for name in names) / whole if whole else 0.0


@dataclass(frozen=True)
class Budget:
    """Either `replicas`, a number of task replicas, or `share`, a share of the CPU of full replication."""

    replicas: int | None = None
    share: float | None = None

    @classmethod
    def of(cls, text: str) -> Budget:
        """Parse a budget; HoldfastError if the text is not one.

        >>> Budget.of("3"), Budget.of("50%")
        (Budget(replicas=3, share=None), Budget(replicas=None, share=0.5))
        """
        match = re.fullmatch(r"\s*(?:(\d{1,6})|(\d{1,3}(?:\.\d{1,6})?)\s*%)\s*", text)
        if match is None or (match[2] and float(match[2]) > 100):
            raise HoldfastError(
                f"--budget: expected a number of replicas, such as 3, or a share of the CPU of full replication up to 100%, such "
                f"as 50%, got '{text}'"
            )
        budget = cls(replicas=int(match[1])) if match[1] else cls(share=float(match[2]) / 100)
        if not (budget.replicas or budget.share):
            raise HoldfastError(f"--budget: got {budget}; a budget must be above 0")
        return budget

    def __str__(self) -> str:
        return f"{self.replicas}" if self.share is None else f"{100 * self.share:g}%"

    @property
    def name(self) -> str:
        """The budget as part of a file name."""
        return f"{self.replicas}" if self.share is None else f"{100 * self.share:g}-percent"

    def price(self, prices: Prices) -> Mapping[str, float]:
        """Return the price of protecting each unit, in the unit of this budget."""
        return prices.tasks if self.share is None else prices.cpu

    def limit(self, prices: Prices) -> float:
        """Return the largest total price that the budget allows."""
        return (self.replicas or 0) if self.share is None else self.share * sum(prices.cpu.values()) * (1 + ROUNDING)

    def affords(self, protected: Iterable[str], prices: Prices) -> bool:
        """Return whether all of these units can have a replica, and the budget pays for them."""
        price, names = self.price(prices), set(protected)
        return not names & prices.unreplicable and sum(price[name] for name in names) <= self.limit(prices)

    def check(self, prices: Prices) -> None:
        """Raise HoldfastError for a budget that exceeds full replication or buys no replica."""
        least, most = min(prices.tasks.values()), sum(prices.tasks.values())
        if self.share is None and not least <= (self.replicas or 0) <= most:
            together = "" if least == 1 else f", and no operator or source has fewer than {least}, which are protected together"
            raise HoldfastError(
                f"--budget: expected {least} to {most} replicas (the application has {most} tasks{together}), got {self.replicas}"
            )
        if self.share is not None and not any(self.affords([name], prices) for name in prices.cpu):
            cheapest = min(prices.cpu, key=lambda name: (prices.cpu[name], name))
            raise HoldfastError(
                f"--budget: {self} of the CPU of full replication buys no replica; the cheapest, of {cheapest}, takes "
                f"{prices.share([cheapest]):.1%}"
            )

    def check_worth(self, worth: Mapping[str, float], prices: Prices) -> None:
        """Raise HoldfastError if the budget buys no replica of a unit with positive value, unless there is none."""
        valuable = [name for name in worth if worth[name] > 0]
        if not valuable or any(self.affords([name], prices) for name in valuable):
            return
        cheapest = min(valuable, key=lambda name: (self.price(prices)[name], name))
        takes = f"{prices.tasks[cheapest]}" if self.share is None else f"{prices.share([cheapest]):.1%}"
        raise HoldfastError(
            f"--budget: {self} buys no replica of anything whose failure changes the output; the cheapest of these, "
            f"{cheapest}, takes {takes}"
        )


def ranked(names: Iterable[str], cost: Mapping[str, float]) -> tuple[str, ...]:
    """Return the names by descending cost, ties by name.

    >>> ranked("abc", {"a": 1.0, "b": 1.0, "c": 2.0})
    ('c', 'a', 'b')
    """
    return tuple(sorted(names, key=lambda name: (-cost[name], name)))


def most_valuable_set(worth: Mapping[str, float], budget: Budget, prices: Prices) -> tuple[str, ...]:
    """Return the affordable set of units with the largest total value. Ties go to the cheaper set, then to the first by name.

    With a budget of replicas, remaining replicas go to the next units in the ranking: a unit without value on its own can have
    value when several units fail.

    >>> even = dict.fromkeys("abc", 1)
    >>> most_valuable_set({"a": 5.0, "b": 4.0, "c": 4.0}, Budget(share=0.5), Prices(even, {"a": 3.0, "b": 2.0, "c": 1.0}))
    ('b', 'c')
    """
    price, limit = budget.price(prices), budget.limit(prices)
    best: list[tuple[float, float, tuple[str, ...]]] = [(0.0, 0.0, ())]
    for name in sorted(worth.keys() - prices.unreplicable):  # keep only sets that no cheaper set matches in value
        more = [(cost + price[name], value + worth[name], (*names, name)) for cost, value, names in best]
        affordable = [each for each in (*best, *more) if each[0] <= limit]
        best = []
        for each in sorted(affordable, key=lambda each: (each[0], -each[1], each[2])):
            if not best or each[1] > best[-1][1]:
                best.append(each)
    protected = best[-1][2]
    for name in ranked(worth.keys() - set(protected), worth) if budget.share is None else ():
        if budget.affords((*protected, name), prices):
            protected = (*protected, name)
    return ranked(protected, worth)
