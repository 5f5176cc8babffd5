"""How a PE host, or a prediction agent, has been doing: judged by what it says and when, without a process to look at."""

from __future__ import annotations

from holdfast.protocol.messages import HostStatus

HOST_RETRY_S, HOST_RETRY_MAX_S = 0.5, 30.0
PROVEN_S = 60.0
"""A PE host that was ready for so long has shown that it can run here: its next death is the first again."""
STALL_S = 10.0
FIRST_WORD_S = 600.0
"""A PE host may take so long until its first word: loading its code on a busy machine, or from a slow disk, is no silence."""
AWAKE_S = 1.0
"""Looks at the host that are further apart mean that we were held up ourselves: the rest of the pause is nobody's silence."""


class HostHealth:
    """How the PE host has been doing: when it may be started again, and since when it has been silent."""

    def __init__(self) -> None:
        self.start_at = 0.0
        self.wait_s = 0.0
        self.unready_deaths = 0
        self._running = False
        self._ready_since: float | None = None
        self._beat_s: float | None = None
        self._heard_at = 0.0
        self._looked_at = 0.0

    def saw(self, status: HostStatus | None, now_s: float, *, alive: bool = True) -> None:
        """Note what the host says, and how long we ourselves took to look again. What one has left that was gone when we came tells
        nothing of the next."""
        if not (alive or self._running):
            return
        pause_s, self._looked_at = now_s - self._looked_at, now_s
        if status is None or status.beat_s == self._beat_s:
            self._heard_at += max(0.0, pause_s - AWAKE_S)
            return
        self._beat_s, self._heard_at = status.beat_s, now_s
        self._running = True
        if status.ready and self._ready_since is None:
            self._ready_since = now_s

    @property
    def has_died(self) -> bool:
        """Whether a host has died since we came."""
        return self.wait_s > 0

    def silent_s(self, now_s: float) -> float:
        """Seconds since the host last beat, or was started, less those in which we did not look ourselves."""
        return min(now_s, self._looked_at + AWAKE_S) - self._heard_at if self._running else 0.0

    def is_hung(self, now_s: float, *, after_s: float) -> bool:
        """Whether it has been silent for longer than it may."""
        return self.silent_s(now_s) > (after_s if self._beat_s is not None else max(after_s, FIRST_WORD_S))

    def stalled_s(self, now_s: float) -> float:
        """Seconds of silence, where they are more than a busy machine explains; else 0."""
        silent_s = self.silent_s(now_s)
        return silent_s if silent_s > STALL_S and self._beat_s is not None else 0.0

    def started(self, now_s: float) -> None:
        self._running, self._ready_since, self._beat_s = True, None, None
        self._heard_at = self._looked_at = now_s

    def died(self, now_s: float) -> bool:
        """Note that no host lives: whether that is news, and when the next may start."""
        if not self._running:
            return False
        proven = self._ready_since is not None and now_s - self._ready_since >= PROVEN_S
        self.unready_deaths = self.unready_deaths + 1 if self._ready_since is None else 0
        self.wait_s = HOST_RETRY_S if proven or not self.wait_s else min(2 * self.wait_s, HOST_RETRY_MAX_S)
        self.start_at = now_s + self.wait_s
        self._running, self._ready_since = False, None
        return True
