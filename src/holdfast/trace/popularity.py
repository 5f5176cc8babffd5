"""Zipf weights by rank, and fast random draws by weight."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def zipf_weights(count: int, exponent: float, *, shift: float = 0.0) -> Floats:
    """Return `count` shares by rank that sum to 1, with share ~ (rank + shift)^-exponent.

    A shift flattens the head of the distribution and not its tail (Zipf-Mandelbrot).

    >>> zipf_weights(3, 1.0).round(3).tolist()
    [0.545, 0.273, 0.182]
    """
    weights = (np.arange(1, count + 1, dtype=np.float64) + shift) ** -exponent
    return np.asarray(weights / weights.sum(), dtype=np.float64)


@dataclass(frozen=True)
class Popularity:
    """A distribution over 0 .. n-1."""

    weights: Floats
    _bounds: Floats = field(init=False, repr=False)

    def __post_init__(self) -> None:
        bounds = np.cumsum(self.weights)
        object.__setattr__(self, "_bounds", bounds / bounds[-1])

    def draw(self, rng: np.random.Generator, size: int) -> Ints:
        """Return `size` independent draws.

        >>> Popularity(np.array([0.0, 1.0, 0.0])).draw(np.random.default_rng(1), 4).tolist()
        [1, 1, 1, 1]
        """
        return np.searchsorted(self._bounds, rng.random(size), side="right").astype(np.int64)
