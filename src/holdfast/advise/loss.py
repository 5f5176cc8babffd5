"""What failures cost, in the quality impact of an assessment (DEBS'11, Eq. 8), and what a plan makes of it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from holdfast.assess.assessment import CaseView
from holdfast.assess.case import Case
from holdfast.assess.target import Choice, Target


@dataclass(frozen=True)
class Loss:
    """The quality impact of one case over the offsets at which it was tried. `case` names the trials that it comes from; `by_seed`
    is how far quality differed between arrival orders at one offset, at most."""

    case: str
    by_offset: tuple[float, ...]
    by_seed: float = 0.0

    @property
    def mean(self) -> float:
        return fmean(self.by_offset)

    @property
    def spread(self) -> tuple[float, float]:
        """The least and the greatest over the offsets."""
        return min(self.by_offset), max(self.by_offset)


@dataclass(frozen=True)
class Expected:
    """The mean loss over failures that are equally likely, with the least and the greatest that the offsets allow."""

    mean: float
    least: float
    greatest: float
    parts: tuple[Loss, ...]

    @classmethod
    def over(cls, losses: Iterable[Loss]) -> "Expected":
        """Of each offset the mean over the failures; of those the mean, the least and the greatest.

        >>> expected = Expected.over([Loss("a", (1.0, 3.0)), Loss("b", (0.0, 0.0))])
        >>> expected.mean, expected.least, expected.greatest
        (1.0, 0.5, 1.5)
        """
        parts = tuple(losses)
        by_offset = [fmean(loss.by_offset[at] for loss in parts) for at in range(len(parts[0].by_offset))]
        return cls(fmean(by_offset), min(by_offset), max(by_offset), parts)


def losses_of(views: Iterable[CaseView]) -> dict[str, Loss]:
    """The loss of every case of an assessment, by the case's name."""
    return {
        view.case: Loss(
            view.case,
            tuple(offset.impact for offset in view.offsets),
            max((max(qualities) - min(qualities) for qualities in view.repeated if qualities), default=0.0),
        )
        for view in views
    }


def alone(choices: Sequence[Choice], losses: Mapping[str, Loss]) -> dict[str, Loss]:
    """What each source and operator costs when it fails alone: its own case, or that of the one whose behaviour it shares.

    What has no tuples to lose on the trace costs nothing.
    """
    offsets = len(next(iter(losses.values())).by_offset)
    tried = {choice.name: choice.name if choice.chosen else choice.like or choice.name for choice in choices}
    return {name: losses.get(case) or Loss(case, (0.0,) * offsets) for name, case in tried.items()}


def protected_case(name: str, *, failover_s: float) -> Case:
    """An operator or source with an active replica that fails."""
    return Case((name,), failover_s)


def together_case(unprotected: Target, everything: Target, *, failover_s: float) -> Case:
    """Everything without a replica fails at once; where all have one, all fail over at once."""
    return Case(unprotected) if unprotected else Case(everything, failover_s)


def single_failures(
    single: Mapping[str, Loss], measured: Mapping[str, Loss], protected: Iterable[str], *, failover_s: float
) -> Expected:
    """What to expect when one of all operators fails, each as likely as the other, with some of them protected."""
    held = set(protected)
    return Expected.over(
        measured[protected_case(name, failover_s=failover_s).name] if name in held else loss
        for name, loss in sorted(single.items())
    )
