"""What failures cost, in the quality impact of an assessment (DEBS'11, Eq. 8), and what a plan makes of it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from holdfast.advise.protection_units import Units
from holdfast.assess.assessment import CaseView
from holdfast.assess.case import Case
from holdfast.assess.targets import Choice, Target

ROUNDING = 1e-9


@dataclass(frozen=True)
class Loss:
    """The quality impact of one case over the offsets at which it was tried. `case` names the trials that it comes from; `by_seed`
    is how far quality differed between arrival orders at one offset, at most; None where there was one order, or no trial."""

    case: str
    by_offset: tuple[float, ...]
    by_seed: float | None = None

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


def exceeds(loss: float, other: float) -> bool:
    """Whether one loss is more than another; sums of the same in another order are not.

    >>> exceeds(0.1 + 0.2, 0.3), exceeds(0.31, 0.3)
    (False, True)
    """
    return loss > other * (1 + ROUNDING)


def losses_of(views: Iterable[CaseView]) -> dict[str, Loss]:
    """The loss of every case of an assessment, by the case's name."""
    return {
        view.case: Loss(
            view.case,
            tuple(offset.impact for offset in view.offsets),
            max((max(qualities) - min(qualities) for qualities in view.repeated if len(qualities) > 1), default=None),
        )
        for view in views
    }


def alone(choices: Sequence[Choice], losses: Mapping[str, Loss]) -> dict[str, Loss]:
    """What each source and PE costs when it fails alone: its own case, or that of the one whose behaviour it shares."""
    tried = {choice.name: choice.name if choice.chosen else choice.like or choice.name for choice in choices}
    return {name: found(case, losses) for name, case in tried.items()}


def found(case: str, losses: Mapping[str, Loss]) -> Loss:
    """The loss of a case; nothing where it was not tried, because nothing of it reaches the scored output on the trace."""
    offsets = len(next(iter(losses.values())).by_offset)
    return losses.get(case) or Loss(case, (0.0,) * offsets)


def protected_case(target: Target, *, failover_s: float) -> Case:
    """A source or PE with an active replica that fails."""
    return Case(target, failover_s)


def together_case(units: Units, protected: Iterable[str], *, failover_s: float) -> Case:
    """Everything without a replica fails at once, for the same time whatever that is; where all have one, all fail over at once."""
    held = set(protected)
    open_ = tuple(operator for name, target in units.items() if name not in held for operator in target)
    everything = tuple(operator for target in units.values() for operator in target)
    return Case(open_, at_once=True) if open_ else Case(everything, failover_s, at_once=True)


def single_failures(
    single: Mapping[str, Loss], measured: Mapping[str, Loss], protected: Iterable[str], *, units: Units, failover_s: float
) -> Expected:
    """What to expect when one of all sources and PEs fails, each as likely as the other, with some of them protected."""
    held = set(protected)
    return Expected.over(
        found(protected_case(units[name], failover_s=failover_s).name, measured) if name in held else loss
        for name, loss in sorted(single.items())
    )
