"""What replicas may cost: so many of them, or a share of the CPU time that replicating everything takes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from holdfast.errors import HoldfastError

ROUNDING = 1e-9


@dataclass(frozen=True)
class Prices:
    """What protecting each source and PE takes: a replica of each of its tasks, and the CPU seconds per second of all of them."""

    tasks: Mapping[str, int]
    cpu: Mapping[str, float]

    def share(self, names: Iterable[str]) -> float:
        """The CPU of these as a share of that of full replication."""
        whole = sum(self.cpu.values())
        return sum(self.cpu[name] for name in names) / whole if whole else 0.0


@dataclass(frozen=True)
class Budget:
    """One of two: `replicas`, how many there may be, each of one task; `share`, of the CPU of a replica of everything."""

    replicas: int | None = None
    share: float | None = None

    @classmethod
    def of(cls, text: str) -> Budget:
        """The budget that a user gives. Raises HoldfastError for what is none.

        >>> Budget.of("3"), Budget.of("50%")
        (Budget(replicas=3, share=None), Budget(replicas=None, share=0.5))
        """
        found = re.fullmatch(r"\s*(?:(\d{1,6})|(\d{1,3}(?:\.\d{1,6})?)\s*%)\s*", text)
        if found is None or (found[2] and float(found[2]) > 100):
            raise HoldfastError(
                f"--budget: wanted a number of replicas, such as 3, or a share of the CPU of full replication up to 100%, such as "
                f"50%, got '{text}'"
            )
        budget = cls(replicas=int(found[1])) if found[1] else cls(share=float(found[2]) / 100)
        if not (budget.replicas or budget.share):
            raise HoldfastError(f"--budget: got {budget}; with a budget of nothing there is nothing to advise")
        return budget

    def __str__(self) -> str:
        return f"{self.replicas}" if self.share is None else f"{100 * self.share:g}%"

    @property
    def name(self) -> str:
        """A name for files."""
        return f"{self.replicas}" if self.share is None else f"{100 * self.share:g}-percent"

    def price(self, prices: Prices) -> Mapping[str, float]:
        """What protecting each takes of this budget."""
        return prices.tasks if self.share is None else prices.cpu

    def limit(self, prices: Prices) -> float:
        """How much of that there is."""
        return (self.replicas or 0) if self.share is None else self.share * sum(prices.cpu.values()) * (1 + ROUNDING)

    def affords(self, protected: Iterable[str], prices: Prices) -> bool:
        """Whether these may be protected."""
        price = self.price(prices)
        return sum(price[name] for name in protected) <= self.limit(prices)

    def check(self, prices: Prices) -> None:
        """Raise HoldfastError for a budget that is more than there is to protect, or less than any of it takes."""
        least, most = min(prices.tasks.values()), sum(prices.tasks.values())
        if self.share is None and not least <= (self.replicas or 0) <= most:
            together = "" if least == 1 else f", and no operator or source has fewer than {least}, which are protected together"
            raise HoldfastError(
                f"--budget: wanted {least} to {most} replicas (the application has {most} tasks{together}), got {self.replicas}"
            )
        if self.share is not None and not any(self.affords([name], prices) for name in prices.cpu):
            cheapest = min(prices.cpu, key=lambda name: (prices.cpu[name], name))
            raise HoldfastError(
                f"--budget: {self} of the CPU of full replication pays for no replica; the cheapest, of {cheapest}, takes "
                f"{prices.share([cheapest]):.1%}"
            )

    def check_worth(self, worth: Mapping[str, float], prices: Prices) -> None:
        """Raise HoldfastError for a budget that pays for none of what is worth anything, unless nothing is."""
        wanted = [name for name in worth if worth[name] > 0]
        if not wanted or any(self.affords([name], prices) for name in wanted):
            return
        cheapest = min(wanted, key=lambda name: (self.price(prices)[name], name))
        takes = f"{prices.tasks[cheapest]}" if self.share is None else f"{prices.share([cheapest]):.1%}"
        raise HoldfastError(
            f"--budget: {self} pays for no replica of anything whose failure shows in the output; the cheapest of these, "
            f"{cheapest}, takes {takes}"
        )


def ranked(names: Iterable[str], cost: Mapping[str, float]) -> tuple[str, ...]:
    """The costliest first, ties by name.

    >>> ranked("abc", {"a": 1.0, "b": 1.0, "c": 2.0})
    ('c', 'a', 'b')
    """
    return tuple(sorted(names, key=lambda name: (-cost[name], name)))


def worthiest(worth: Mapping[str, float], budget: Budget, prices: Prices) -> tuple[str, ...]:
    """Of all sets that a budget affords, the one whose worth is the greatest; of equals the cheaper, then the first by name.

    What a number of replicas leaves goes to who is next: what is worth nothing when it fails alone may be when more does.

    >>> even = dict.fromkeys("abc", 1)
    >>> worthiest({"a": 5.0, "b": 4.0, "c": 4.0}, Budget(share=0.5), Prices(even, {"a": 3.0, "b": 2.0, "c": 1.0}))
    ('b', 'c')
    """
    price, limit = budget.price(prices), budget.limit(prices)
    best: list[tuple[float, float, tuple[str, ...]]] = [(0.0, 0.0, ())]
    for name in sorted(worth):  # sets that cost more and are worth no more than another are left out as they come up
        more = [(cost + price[name], value + worth[name], (*names, name)) for cost, value, names in best]
        affordable = [each for each in (*best, *more) if each[0] <= limit]
        best = []
        for each in sorted(affordable, key=lambda each: (each[0], -each[1], each[2])):
            if not best or each[1] > best[-1][1]:
                best.append(each)
    held = best[-1][2]
    for name in ranked(worth.keys() - set(held), worth) if budget.share is None else ():
        held = (*held, name) if budget.affords((*held, name), prices) else held
    return ranked(held, worth)
