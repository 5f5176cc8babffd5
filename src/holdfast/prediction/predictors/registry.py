"""Finds predictors by name: those of holdfast, and those of installed packages."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from holdfast.entry_points import installed_entry_points
from holdfast.errors import HoldfastError
from holdfast.prediction.predictors.autoregressive import Autoregressive
from holdfast.prediction.predictors.exponential_smoothing import ExponentialSmoothing
from holdfast.prediction.predictors.last_outcome import LastOutcome
from holdfast.prediction.predictors.markov import SimpleMarkov
from holdfast.prediction.predictors.nearest_neighbours import NearestNeighbours
from holdfast.prediction.predictors.predictor import Predictor
from holdfast.prediction.predictors.recent_mode import RecentMode
from holdfast.prediction.predictors.sliding_mean import SlidingMean
from holdfast.prediction.predictors.stride import LONG, Stride

Factory = Callable[..., Predictor]
GROUP = "holdfast.predictors"
PAPER: Mapping[str, Factory] = {
    "last-outcome": LastOutcome,
    "stride": Stride,
    "long-stride": partial(Stride, span=LONG),
    "simple-markov": SimpleMarkov,
    "nearest-neighbours": NearestNeighbours,
}
"""The algorithms of ISORC'16, section IV-A."""
FURTHER: Mapping[str, Factory] = {
    "exponential-smoothing": ExponentialSmoothing,
    "autoregressive": Autoregressive,
    "recent-mode": RecentMode,
    "sliding-mean": SlidingMean,
}


def installed_predictors() -> dict[str, Factory]:
    """Return a factory for every predictor by name: holdfast's, then those of packages with an entry point `holdfast.predictors`.

    An entry point is a class, or a function that takes keyword parameters and returns a predictor. It is imported when it is first
    called. It cannot replace a predictor of holdfast.
    """
    own: dict[str, Factory] = {**PAPER, **FURTHER}
    others = {point.name: partial(_load, point) for point in installed_entry_points(GROUP) if point.name not in own}
    return own | dict(sorted(others.items()))


def make_predictor(name: str, /, **parameters: Any) -> Predictor:
    """Return the predictor of that name with these parameters. Raises HoldfastError.

    >>> make_predictor("nearest-neighbours", k=3).least
    5
    """
    factories = installed_predictors()
    if name not in factories:
        raise HoldfastError(f"predictor '{name}' is not installed; installed are: {', '.join(factories)}")
    try:
        predictor = factories[name](**parameters)
    except HoldfastError:
        raise
    except (Exception, SystemExit) as error:  # another package's constructor may raise anything
        raise HoldfastError(f"predictor '{name}' cannot be created: {type(error).__name__}: {error}") from error
    return _check(name, predictor)


def default_predictors() -> tuple[Predictor, ...]:
    """Return all predictors of holdfast, the paper's first."""
    return tuple(make_predictor(name) for name in (*PAPER, *FURTHER))


def _load(point: Any, **parameters: Any) -> Predictor:
    return point.load()(**parameters)  # type: ignore[no-any-return]  # checked by `make_predictor`


def _check(name: str, predictor: Predictor) -> Predictor:
    """Return the predictor if it implements the interface. Raises HoldfastError otherwise."""
    missing = [part for part in ("name", "least") if not hasattr(predictor, part)]
    missing += [part for part in ("train", "forecast") if not callable(getattr(predictor, part, None))]
    if missing:
        raise HoldfastError(f"predictor '{name}' is not a predictor: it lacks {', '.join(missing)}")
    if predictor.name != name:
        raise HoldfastError(f"predictor '{name}' calls itself '{predictor.name}'; the two must be the same")
    if isinstance(predictor.least, bool) or not isinstance(predictor.least, int) or predictor.least < 1:
        raise HoldfastError(f"predictor '{name}': least must be a whole number of at least 1, got {predictor.least!r}")
    if not any(p.name == "steps" for p in inspect.signature(predictor.forecast).parameters.values()):
        raise HoldfastError(f"predictor '{name}': forecast takes no keyword 'steps'")
    return predictor
