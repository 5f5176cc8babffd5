"""The loop of one replica: a thread that does what its worker can do, and can be stopped, stalled, slowed and killed."""

import ctypes
import errno
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from holdfast.engine.operator_call import first_line
from holdfast.errors import HoldfastError, LogError
from holdfast.log import Quality
from holdfast.log.position import Position
from holdfast.log.timeline import Timeline
from holdfast.protocol.messages import AssignedReplica, ReplicaStatus, State

POLL_S = 0.02
"""How long a replica that has nothing to do waits before it looks again."""
IDLE_S = 5.0
"""An idle one is woken; it looks by itself only in case."""

LOG_AWAY_S = 120.0
"""How long a replica waits for a log that is full or away before it fails, and is tried on another node."""
LOG_LOOK_S = 0.5


class Killed(BaseException):
    """Raised inside a replica's thread by a crash fault, wherever it happens to be: no clean-up of its own may catch it."""


class Worker(Protocol):
    """What a loop runs: a source, a PE's task or a sink."""

    clean: Position
    live: Position
    rows_read: int

    @property
    def finished(self) -> bool: ...
    @property
    def quality(self) -> Quality: ...
    def step(self) -> bool: ...
    def close(self) -> None: ...


class ReplicaLoop:
    """One replica's thread and what is known of it.

    `make` builds the worker inside the thread, when the replica is active; it may take long, and may fail. `ranked` is told the
    replica's rank whenever that changes, `woken` of a worker whose replica was idle until then.
    """

    def __init__(
        self,
        assigned: AssignedReplica,
        make: Callable[[AssignedReplica, Callable[[], bool]], tuple[Worker, Timeline] | None],
        *,
        ranked: Callable[[Worker, int], None],
        woken: Callable[[Worker], None],
        cancel: Callable[[], None],
    ) -> None:
        self.assigned = assigned
        self.state: State = "starting"
        self.error: str | None = None
        self._make, self._ranked, self._tell_woken, self._cancel = make, ranked, woken, cancel
        self._worker: Worker | None = None
        self._timeline: Timeline | None = None
        self._stopping, self._woken = threading.Event(), threading.Event()
        self._killed = self._was_idle = False
        self._stalled_until = self._slow_until = self._slow_s = 0.0
        self._busy = True
        self._log_away_since: float | None = None
        self._rate, self._seen = 0.0, (time.monotonic(), 0)
        self._latency_s: float | None = None
        self._thread = threading.Thread(target=self._run, name=assigned.key, daemon=True)
        self._thread.start()

    def assign(self, assigned: AssignedReplica) -> None:
        """Take a new rank, or become active or idle."""
        changed = assigned.rank != self.assigned.rank
        self.assigned = assigned
        self._woken.set()
        if changed and self._worker is not None:
            self._ranked(self._worker, assigned.rank)

    def stop(self, *, wait_s: float = 10.0) -> None:
        """End the loop after the step that it is in."""
        self._stopping.set()
        self._woken.set()
        self._cancel()
        self._thread.join(wait_s)

    def kill(self) -> None:
        """End it at once, in the middle of whatever it does, and where that swallows what is thrown into it, right after."""
        self._killed = True
        self._woken.set()
        ident = self._thread.ident
        if ident is not None and self._thread.is_alive():
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(ident), ctypes.py_object(Killed))
        self._cancel()

    def stall(self, for_s: float) -> None:
        self._stalled_until = time.monotonic() + for_s

    def slow(self, by_s: float, *, for_s: float) -> None:
        self._slow_s, self._slow_until = by_s, time.monotonic() + for_s

    def status(self) -> ReplicaStatus:
        worker, timeline, now = self._worker, self._timeline, time.time()
        lag = None
        if worker is not None and timeline is not None:
            lag = max(0, timeline.last_closed_epoch(now) - worker.live.epoch) * timeline.epoch_s / timeline.speed
            then, rows = self._seen
            if time.monotonic() - then >= 1:
                self._rate = (worker.rows_read - rows) / (time.monotonic() - then)
                self._seen = time.monotonic(), worker.rows_read
        return ReplicaStatus(
            key=self.assigned.key,
            incarnation=self.assigned.incarnation,
            state=self.state,
            error=self.error,
            live=worker.live.epoch if worker else None,
            clean=worker.clean.epoch if worker else None,
            quality=worker.quality.value if worker else None,
            lag_s=lag,
            rows_s=self._rate if worker else None,
            latency_s=self._latency_s,
            caught_up=worker is not None and not self._busy and worker.live.epoch == worker.clean.epoch,
        )

    def _run(self) -> None:
        try:
            while not self._stopping.is_set() and self.state != "finished":
                if self.assigned.active:
                    self._work()
                else:
                    self._worker, self.state, self._was_idle = None, "idle", True
                    self._woken.wait(IDLE_S)
                    self._woken.clear()
                    self._die_if_killed()
        except Killed:
            self.state, self.error = "failed", "killed by a fault"
        except HoldfastError as error:
            self.state, self.error = "failed", str(error)
        except (Exception, SystemExit) as error:
            logging.getLogger("holdfast").exception("replica %s failed", self.assigned.key)
            self.state, self.error = "failed", f"{type(error).__name__}: {first_line(error)}"

    def _die_if_killed(self) -> None:
        """Raise Killed where a step went on in spite of it: while an error of Spark is translated, every exception is caught."""
        if self._killed:
            raise Killed

    def _work(self) -> None:
        """From becoming active to becoming idle, finishing or being stopped."""
        self.state = "starting"
        made, done = None, False
        while not done and self.assigned.active and not self._stopping.is_set():
            with self._waiting_for_the_log():
                made = self._make(self.assigned, self._stopping.is_set)
                done = True
        if made is None:
            return
        worker, self._timeline = made
        self._ranked(worker, self.assigned.rank)
        if self._was_idle:
            self._tell_woken(worker)
        self._worker, self.state, self._was_idle = worker, "running", False
        try:
            self._follow(worker, self._timeline)
        finally:
            worker.close()

    def _step(self, worker: Worker) -> bool:
        """One step of the worker."""
        did = False
        with self._waiting_for_the_log():
            did = worker.step()
            self._die_if_killed()
        return did

    @contextmanager
    def _waiting_for_the_log(self) -> Iterator[None]:
        """While the log cannot be used, or the disk is full, the replica's state says why, and whatever is done here is to be tried
        again: what was cut short does no harm when it is done once more."""
        try:
            yield
        except (LogError, OSError) as error:
            if not isinstance(error, LogError) and error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            now = time.monotonic()
            self._log_away_since = self._log_away_since or now
            if now - self._log_away_since > LOG_AWAY_S:
                raise
            self.error = f"waits for the log: {error}" if isinstance(error, LogError) else f"waits for room: {error}"
            self._stopping.wait(LOG_LOOK_S)
        else:
            self._log_away_since = self.error = None

    def _follow(self, worker: Worker, timeline: Timeline) -> None:
        while self.assigned.active and not self._stopping.is_set():
            if time.monotonic() < self._stalled_until:
                self._stopping.wait(POLL_S)
                continue
            before = worker.live.epoch
            self._busy = self._step(worker)
            if worker.live.epoch > before:
                self._latency_s = time.time() - timeline.closes_s(worker.live.epoch)
                if time.monotonic() < self._slow_until:
                    self._stopping.wait(self._slow_s)
            if worker.finished:
                self.state = "finished"
                return
            if not self._busy:
                self._stopping.wait(POLL_S)
