"""Glitches of the input rate, with which the paper disturbs its traces (LAAR section 5.2)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Glitches:
    """Periods of `lasts_s` in which a source is faster than its configuration, by a share of up to `height`.

    One begins every `every_s` on average.
    """

    every_s: float = 100.0
    lasts_s: float = 3.0
    height: float = 1.0

    def factors(self, shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[np.float64]:
        """Return the factor for the rate of each second and source."""
        factors = np.ones(shape)
        for second, source in np.argwhere(rng.random(shape) < 1 / self.every_s):
            factors[second : second + round(self.lasts_s), source] = 1 + rng.uniform(0, self.height)
        return factors
