"""The metrics of many servers over time: daily rhythm, drift, spikes, level shifts, and counters that rarely move."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.signal import lfilter

from holdfast.trace.popularity import Floats, Ints

NOISE_S, SPIKE_S, ERRORS_S = 60.0, 40.0, 30.0
SPIKE_EVERY_S, SHIFT_EVERY_S, SHIFT_S = 6 * 3600.0, 36 * 3600.0, 4 * 86_400.0
ERRORS_EVERY_S, RESTART_EVERY_S = 8 * 3600.0, 3 * 86_400.0
WRITE_EVERY_S = 600.0


@dataclass(frozen=True)
class _Roles:
    """The constants of each server: a third are idle, a third follow the day's rhythm, a third are always busy."""

    load: Floats
    swing: Floats
    noise: Floats
    peak_hour: Floats
    requests: Floats


def _assign(rng: np.random.Generator, servers: int) -> _Roles:
    role = rng.integers(3, size=servers)

    def pick(idle: Floats, serving: Floats, busy: Floats) -> Floats:
        return np.asarray(np.choose(role, [idle, serving, busy]), dtype=np.float64)

    return _Roles(
        load=pick(rng.uniform(0.1, 2.0, servers), rng.uniform(15, 45, servers), rng.uniform(60, 92, servers)),
        swing=pick(np.zeros(servers), rng.uniform(0.3, 0.6, servers), rng.uniform(0.0, 0.05, servers)),
        noise=pick(np.full(servers, 0.02), np.full(servers, 0.10), np.full(servers, 0.04)),
        peak_hour=rng.normal(15.0, 1.5, servers),
        requests=pick(rng.uniform(0.01, 0.5, servers), rng.uniform(10, 200, servers), rng.uniform(1, 20, servers)),
    )


class Fleet:
    """The state of all servers. `observe` must be called for consecutive rounds of reports."""

    def __init__(self, rng: np.random.Generator, *, servers: int, interval_s: float) -> None:
        self._roles, self._servers, self._interval_s = _assign(rng, servers), servers, interval_s
        self._noise, self._spike, self._error_rate = (np.zeros(servers) for _ in range(3))
        self._shift = np.zeros(servers)
        self._memory = rng.uniform(25, 60, servers)
        self._leak = rng.exponential(0.4, servers) / 3600
        self._age_s = rng.uniform(0, 86_400, servers)
        self._disk = rng.uniform(10, 70, servers)

    def observe(self, rng: np.random.Generator, time_us: Ints) -> dict[str, npt.NDArray[np.generic]]:
        """Return the metrics of every server at the given times, one row per round and one column per server."""
        roles, shape = self._roles, time_us.shape
        hour = (time_us / 3.6e9) % 24
        rhythm = 1 + roles.swing * np.cos((hour - roles.peak_hour) / 24 * 2 * np.pi)
        self._noise, noise = _decaying(self._noise, rng.normal(0.0, 1.0, shape), self._keep(NOISE_S))
        noise = noise * np.sqrt(1 - self._keep(NOISE_S) ** 2)
        self._spike, spike = _decaying(self._spike, self._rare_shocks(rng, shape, SPIKE_EVERY_S, 35.0), self._keep(SPIKE_S))
        self._error_rate, error_rate = _decaying(
            self._error_rate, self._rare_shocks(rng, shape, ERRORS_EVERY_S, 0.2), self._keep(ERRORS_S)
        )
        shocks = rng.normal(0.0, 0.35, shape) * (rng.random(shape) < self._chance(SHIFT_EVERY_S))
        self._shift, shift = _decaying(self._shift, shocks, self._keep(SHIFT_S))
        work = np.exp(shift) * rhythm * np.exp(roles.noise * noise)
        requests = rng.poisson(roles.requests * self._interval_s * work).astype(np.int64)
        return {
            "cpu": np.round(np.clip(roles.load * work + spike, 0.0, 100.0), 3),
            "memory": np.round(self._memory_percent(rng, shape), 2),
            "disk": self._disk_percent(rng, shape),
            "network": np.round(requests / self._interval_s * 4_000 * np.exp(rng.normal(0.0, 0.5, shape)) + 60.0, 1),
            "requests": requests,
            "errors": rng.binomial(requests, np.clip(error_rate, 0.0, 0.9)),
        }

    def _memory_percent(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        """Return the percentage of memory in use, which leaks until the server restarts."""
        rounds = np.arange(1, shape[0] + 1)[:, np.newaxis]
        restart = rng.random(shape) < self._chance(RESTART_EVERY_S)
        last = np.maximum.accumulate(np.where(restart, rounds, 0), axis=0)
        age_s = np.where(last > 0, rounds - last, rounds + self._age_s / self._interval_s) * self._interval_s
        self._age_s = age_s[-1]
        percent = self._memory + self._leak * age_s + rng.normal(0.0, 0.05, shape)
        return np.asarray(np.clip(percent, 0.0, 100.0), dtype=np.float64)

    def _disk_percent(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        """Return the percentage of disk in use. It changes with rare writes, and the disk is emptied when nearly full."""
        writes = (rng.random(shape) < self._chance(WRITE_EVERY_S)) * np.round(rng.exponential(0.05, shape) + 0.01, 2)
        level = self._disk + np.cumsum(writes, axis=0)
        after_emptying = 20 + np.mod(level - 20, 70)
        percent = np.round(np.where(level > 90, after_emptying, level), 2)
        self._disk = percent[-1]
        return np.asarray(percent, dtype=np.float64)

    def _rare_shocks(self, rng: np.random.Generator, shape: tuple[int, ...], every_s: float, mean: float) -> Floats:
        return np.asarray((rng.random(shape) < self._chance(every_s)) * rng.exponential(mean, shape), dtype=np.float64)

    def _chance(self, every_s: float) -> float:
        return min(1.0, self._interval_s / every_s)

    def _keep(self, memory_s: float) -> float:
        return float(np.exp(-self._interval_s / memory_s))


def _decaying(state: Floats, shocks: Floats, keep: float) -> tuple[Floats, Floats]:
    """Return the new state and the path of a level that adds each shock and decays by `keep` from round to round."""
    path, _ = lfilter([1.0], [1.0, -keep], shocks, axis=0, zi=keep * state[np.newaxis, :])
    return path[-1], path
