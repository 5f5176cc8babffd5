"""Road segments: the speed on each, and how incidents slow it."""

import math

import numpy as np

from holdfast.trace import Floats, Ints

JAM_CHANCE = 0.25
JAM_S = 480.0  # mean; a tenth of the jams last several times as long
ONSET_S = 5.0


class Roads:
    """The speed of every segment in km/h, which an incident may lower for a while."""

    def __init__(self, rng: np.random.Generator, *, segments: int, users: int) -> None:
        self._free = rng.normal(106.0, 7.0, segments).clip(50.0, 130.0)
        self._style = np.exp(rng.normal(0.0, 0.04, users))
        self._since, self._until = np.full(segments, -math.inf), np.full(segments, -math.inf)
        self._slow = np.ones(segments)

    def add_incident(self, rng: np.random.Generator, segment: int, *, at_s: float) -> None:
        """Add an incident on a segment. It may cause a jam, or prolong one."""
        jams, shape, slow = rng.random() < JAM_CHANCE, rng.normal(-0.5, 1.0), rng.uniform(0.2, 0.45)
        if not jams:
            return
        if self._until[segment] < at_s:
            self._since[segment], self._slow[segment] = at_s, slow
        self._until[segment] = max(self._until[segment], at_s + JAM_S * math.exp(shape))

    def speed(self, rng: np.random.Generator, user: Ints, segment: Ints, *, at_s: float) -> Floats:
        """Return the speed of each user on their segment. A jam begins and ends within seconds."""
        depth = np.where(
            at_s < self._until, -np.expm1(-(at_s - self._since) / ONSET_S), np.exp(-(at_s - self._until) / (3 * ONSET_S))
        )
        factor = 1 - (1 - self._slow) * np.clip(np.nan_to_num(depth), 0.0, 1.0)
        speed = (self._free * factor)[segment] * self._style[user] * np.exp(rng.normal(0.0, 0.03, len(user)))
        return np.asarray(np.round(speed, 1), dtype=np.float64)
