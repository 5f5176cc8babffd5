"""Road segments: how fast one drives on them, and how an incident slows them."""

import math

import numpy as np

from holdfast.trace.popularity import Floats, Ints

JAM_CHANCE = 0.25
JAM_S = 480.0  # mean; the longest tenth last several times as long
ONSET_S = 5.0


class Roads:
    """The speed of every segment in km/h, which an incident may slow for a while."""

    def __init__(self, rng: np.random.Generator, *, segments: int, users: int) -> None:
        self._free = rng.normal(106.0, 7.0, segments).clip(50.0, 130.0)
        self._style = np.exp(rng.normal(0.0, 0.04, users))
        self._since, self._until = np.full(segments, -math.inf), np.full(segments, -math.inf)
        self._slow = np.ones(segments)

    def strike(self, rng: np.random.Generator, segment: int, *, at_s: float) -> None:
        """An incident on a segment: with some chance a jam, or a longer one where there is one already."""
        jams, shape, slow = rng.random() < JAM_CHANCE, rng.normal(-0.5, 1.0), rng.uniform(0.2, 0.45)
        if not jams:
            return
        if self._until[segment] < at_s:
            self._since[segment], self._slow[segment] = at_s, slow
        self._until[segment] = max(self._until[segment], at_s + JAM_S * math.exp(shape))

    def speed(self, rng: np.random.Generator, user: Ints, segment: Ints, *, at_s: float) -> Floats:
        """What each user drives on their segment: a jam comes and goes within seconds."""
        depth = np.where(
            at_s < self._until, -np.expm1(-(at_s - self._since) / ONSET_S), np.exp(-(at_s - self._until) / (3 * ONSET_S))
        )
        factor = 1 - (1 - self._slow) * np.clip(np.nan_to_num(depth), 0.0, 1.0)
        pace = (self._free * factor)[segment] * self._style[user] * np.exp(rng.normal(0.0, 0.03, len(user)))
        return np.asarray(np.round(pace, 1), dtype=np.float64)
