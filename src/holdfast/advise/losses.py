"""The output that failures cost, in seconds of usual output, without and with a plan. See `holdfast.assess.damage`."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from holdfast.advise.protection_units import Units
from holdfast.assess.assessment import CaseView
from holdfast.assess.case import Case
from holdfast.assess.damage import Interval
from holdfast.assess.targets import Choice, Target

ROUNDING = 1e-9


@dataclass(frozen=True)
class Loss:
    """The output that one case costs at each offset, in seconds. `case` is the name of the trials. `by_seed` is the largest
    difference of quality between arrival orders at one offset; None if there was only one order, or no trial."""

    case: str
    by_offset: tuple[float, ...]
    by_seed: float | None = None

    @property
    def mean(self) -> float:
        return fmean(self.by_offset)

    @property
    def interval(self) -> Interval:
        """The mean with its confidence interval."""
        return Interval.of(self.by_offset)

    @property
    def spread(self) -> tuple[float, float]:
        """The smallest and the largest loss over the offsets."""
        return min(self.by_offset), max(self.by_offset)


@dataclass(frozen=True)
class Expected:
    """The mean loss over equally likely failures, and the smallest and largest mean over offsets."""

    mean: float
    least: float
    greatest: float
    parts: tuple[Loss, ...]

    @classmethod
    def over(cls, losses: Iterable[Loss]) -> "Expected":
        """Return the expected loss: the mean over failures at each offset, then the mean, smallest and largest over offsets.

        >>> expected = Expected.over([Loss("a", (1.0, 3.0)), Loss("b", (0.0, 0.0))])
        >>> expected.mean, expected.least, expected.greatest
        (1.0, 0.5, 1.5)
        """
        parts = tuple(losses)
        by_offset = [fmean(loss.by_offset[at] for loss in parts) for at in range(len(parts[0].by_offset))]
        return cls(fmean(by_offset), min(by_offset), max(by_offset), parts)


def is_larger_loss(loss: float, other: float) -> bool:
    """Return whether one loss is larger than another by more than rounding.

    >>> is_larger_loss(0.1 + 0.2, 0.3), is_larger_loss(0.31, 0.3)
    (False, True)
    """
    return loss > other * (1 + ROUNDING)


def losses_of(views: Iterable[CaseView]) -> dict[str, Loss]:
    """Return the loss of every case of an assessment, by case name."""
    return {
        view.case: Loss(
            view.case,
            view.damage.output_s,
            max((max(qualities) - min(qualities) for qualities in view.repeated if len(qualities) > 1), default=None),
        )
        for view in views
    }


def single_losses(choices: Sequence[Choice], losses: Mapping[str, Loss]) -> dict[str, Loss]:
    """Return the loss of each source and PE when it fails alone: of its own case, or of the unit that it behaves like."""
    cases = {choice.name: choice.name if choice.chosen else choice.like or choice.name for choice in choices}
    return {name: loss_of_case(case, losses) for name, case in cases.items()}


def loss_of_case(case: str, losses: Mapping[str, Loss]) -> Loss:
    """Return the loss of a case; zero if it was not tried, because its tuples do not reach the scored output."""
    offsets = len(next(iter(losses.values())).by_offset)
    return losses.get(case) or Loss(case, (0.0,) * offsets)


def protected_case(target: Target, *, failover_s: float) -> Case:
    """Return the case of a failing source or PE that has an active replica."""
    return Case(target, failover_s)


def together_case(units: Units, protected: Iterable[str], *, failover_s: float) -> Case:
    """Return the case in which all unprotected units fail at once. If all units are protected, all fail over at once."""
    protected = set(protected)
    unprotected = tuple(operator for name, target in units.items() if name not in protected for operator in target)
    everything = tuple(operator for target in units.values() for operator in target)
    return Case(unprotected, at_once=True) if unprotected else Case(everything, failover_s, at_once=True)


def single_failures(
    single: Mapping[str, Loss], measured: Mapping[str, Loss], protected: Iterable[str], *, units: Units, failover_s: float
) -> Expected:
    """Return the expected loss when one source or PE fails, each with the same probability, and some are protected."""
    protected = set(protected)
    return Expected.over(
        loss_of_case(protected_case(units[name], failover_s=failover_s).name, measured) if name in protected else loss
        for name, loss in sorted(single.items())
    )
