"""What replicas may cost: so many of them, or a share of the CPU time that replicating everything takes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from holdfast.errors import HoldfastError

ROUNDING = 1e-9


@dataclass(frozen=True)
class Budget:
    """One of two: `replicas`, how many operators and sources may have one; `share`, of the CPU of a replica of each of them."""

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

    def affords(self, protected: Iterable[str], cpu: Mapping[str, float]) -> bool:
        """Whether these may have a replica."""
        names = list(protected)
        if self.share is None:
            return len(names) <= (self.replicas or 0)
        return sum(cpu[name] for name in names) <= self.share * sum(cpu.values()) * (1 + ROUNDING)

    def check(self, cpu: Mapping[str, float]) -> None:
        """Raise HoldfastError for a budget that is more than there is to protect, or less than any of it takes."""
        most = len(cpu)
        if self.share is None and not 1 <= (self.replicas or 0) <= most:
            raise HoldfastError(
                f"--budget: wanted 1 to {most} replicas (the application has {most} operators and sources), got {self.replicas}"
            )
        if self.share is not None and not any(self.affords([name], cpu) for name in cpu):
            cheapest = min(cpu, key=lambda name: (cpu[name], name))
            raise HoldfastError(
                f"--budget: {self} of the CPU of full replication pays for no replica; the cheapest, of {cheapest}, takes "
                f"{cpu[cheapest] / sum(cpu.values()):.1%}"
            )


def worthiest(worth: Mapping[str, float], budget: Budget, cpu: Mapping[str, float]) -> tuple[str, ...]:
    """Of all sets that a budget affords, the one whose worth is the greatest; of equals the cheaper, then the first by name.

    >>> worthiest({"a": 5.0, "b": 4.0, "c": 4.0}, Budget(share=0.5), {"a": 3.0, "b": 2.0, "c": 1.0})
    ('b', 'c')
    """
    if budget.share is None:
        return tuple(sorted(sorted(worth, key=lambda name: (-worth[name], name))[: budget.replicas]))
    best: list[tuple[float, float, tuple[str, ...]]] = [(0.0, 0.0, ())]
    for name in sorted(worth):  # sets that cost more and are worth no more than another are left out as they come up
        more = [(cost + cpu[name], value + worth[name], (*names, name)) for cost, value, names in best]
        affordable = [each for each in (*best, *more) if budget.affords(each[2], cpu)]
        best = []
        for each in sorted(affordable, key=lambda each: (each[0], -each[1], each[2])):
            if not best or each[1] > best[-1][1]:
                best.append(each)
    return best[-1][2]
