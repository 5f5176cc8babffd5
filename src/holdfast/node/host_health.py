"""The health of a PE host or a prediction agent: whether it is hung, and when it may start again after a death.

`pe_host_watch.py` looks for deaths and notes them here; `AgentProcesses` does so for agents.
"""

from __future__ import annotations

from holdfast.protocol.messages import HostStatus

HOST_RETRY_S, HOST_RETRY_MAX_S = 0.5, 30.0
PROVEN_S = 60.0
"""A process that was ready for this long can run here: the wait after its next death starts at HOST_RETRY_S again."""
STALL_S = 10.0
FIRST_BEAT_S = 600.0
"""How long a started process may take until its first beat: it may load its code on a busy machine, or from a slow disk."""
AWAKE_S = 1.0
"""If two observations are further apart than this, the observer itself was delayed. The rest of the gap is not silence."""


class HostHealth:
    """When a process may be started again, and since when it has been silent. Callers pass the time in, on a monotonic clock."""

    def __init__(self) -> None:
        self.start_at_s = 0.0
        """When the next process may be started."""
        self.wait_s = 0.0
        """How long the last death delays the next start."""
        self.unready_deaths = 0
        """How many processes in a row died before they were ready."""
        self._running = False
        self._ready_at_s: float | None = None
        self._last_beat_s: float | None = None
        self._beat_seen_at_s = 0.0
        self._observed_at_s = 0.0

    def observe(self, status: HostStatus | None, now_s: float, *, alive: bool = True) -> None:
        """Note the present status. The status of a process that was already dead at the first observation is ignored."""
        if not (alive or self._running):
            return
        gap_s, self._observed_at_s = now_s - self._observed_at_s, now_s
        if status is None or status.beat_s == self._last_beat_s:
            self._beat_seen_at_s += max(0.0, gap_s - AWAKE_S)
            return
        self._last_beat_s, self._beat_seen_at_s = status.beat_s, now_s
        self._running = True
        if status.ready and self._ready_at_s is None:
            self._ready_at_s = now_s

    @property
    def has_died(self) -> bool:
        """Whether a process has died since the first observation."""
        return self.wait_s > 0

    def silent_s(self, now_s: float) -> float:
        """Return the seconds since the last beat or start, without those in which the observer itself was delayed."""
        return min(now_s, self._observed_at_s + AWAKE_S) - self._beat_seen_at_s if self._running else 0.0

    def is_hung(self, now_s: float, *, after_s: float) -> bool:
        """Return whether it has been silent for longer than allowed."""
        return self.silent_s(now_s) > (after_s if self._last_beat_s is not None else max(after_s, FIRST_BEAT_S))

    def stalled_s(self, now_s: float) -> float:
        """Return the seconds of silence if they are more than a busy machine explains, else 0."""
        silent_s = self.silent_s(now_s)
        return silent_s if silent_s > STALL_S and self._last_beat_s is not None else 0.0

    def note_start(self, now_s: float) -> None:
        """Note that a process was started."""
        self._running, self._ready_at_s, self._last_beat_s = True, None, None
        self._beat_seen_at_s = self._observed_at_s = now_s

    def note_death(self, now_s: float) -> bool:
        """Note that no process lives, and set when the next may start. Returns whether it has died since the last call."""
        if not self._running:
            return False
        proven = self._ready_at_s is not None and now_s - self._ready_at_s >= PROVEN_S
        self.unready_deaths = self.unready_deaths + 1 if self._ready_at_s is None else 0
        self.wait_s = HOST_RETRY_S if proven or not self.wait_s else min(2 * self.wait_s, HOST_RETRY_MAX_S)
        self.start_at_s = now_s + self.wait_s
        self._running, self._ready_at_s = False, None
        return True
