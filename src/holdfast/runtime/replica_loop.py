"""The loop of one replica: a thread that steps the replica and that can be stopped, stalled, slowed down and killed."""

import errno
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from holdfast.engine.operator_call import first_line
from holdfast.errors import ExternalError, HoldfastError, LogError, UnavailableError
from holdfast.log.timeline import Timeline
from holdfast.protocol.messages import WAITS_OUTSIDE, AssignedReplica, ReplicaStatus, State
from holdfast.runtime.machine_time import MACHINE_TIME, MachineTime
from holdfast.runtime.replica import Replica

Result = TypeVar("Result")
POLL_S = 0.02
"""How long a replica without work waits before the next step."""
IDLE_S = 5.0
"""How long an idle replica waits at most before it checks its assignment. A new assignment wakes it earlier."""

LOG_WAIT_LIMIT_S = 120.0
"""How long a replica waits for a log that is full or unreachable before it fails and is restarted on another node."""
LOG_RETRY_S = 0.5


class Killed(BaseException):
    """Raised in a replica's thread by a crash fault, at any point. It is no Exception, so ordinary handlers do not catch it."""


class ReplicaLoop:
    """The thread of one replica.

    `create` builds the replica inside the thread when it becomes active. It may take long and may fail. Its
    second argument tells it whether the loop is stopping; it then returns None. `cancel` cancels the replica's Spark jobs.
    `on_switch` is called when a replica that was switched on or off works or has stopped working.
    """

    def __init__(
        self,
        assigned: AssignedReplica,
        create: Callable[[AssignedReplica, Callable[[], bool]], tuple[Replica, Timeline] | None],
        *,
        cancel: Callable[[], None],
        on_switch: Callable[[bool], None] = lambda active: None,
        time: MachineTime = MACHINE_TIME,
    ) -> None:
        self.assigned, self._time = assigned, time
        self.state: State = "starting"
        self.error: str | None = None
        self._create, self._cancel, self._on_switch = create, cancel, on_switch
        self._replica: Replica | None = None
        self._timeline: Timeline | None = None
        self._stopping, self._woken = time.new_event(), time.new_event()
        self._killed = self._was_idle = self._switched_off = False
        self._stalled_until_s = self._slow_until_s = self._slow_by_s = 0.0
        self._busy = True
        self._log_failing_since_s: float | None = None
        self._rows_per_s, self._rate_measured = 0.0, (time.elapsed_s(), 0)
        self._latency_s: float | None = None
        self._thread = time.start(self._run, assigned.key)

    def assign(self, assigned: AssignedReplica) -> None:
        """Change the replica's rank, or make it active or idle."""
        rank_changed = assigned.rank != self.assigned.rank
        self._switched_off |= self.assigned.active and not assigned.active
        self.assigned = assigned
        self._woken.set()
        self.cancel_if_switched_off()
        if rank_changed and self._replica is not None:
            self._replica.set_rank(assigned.rank)

    def cancel_if_switched_off(self) -> None:
        """Cancel the Spark job that an idle replica still runs. Call it repeatedly: the replica may be about to start a job."""
        if self._switched_off and not self.assigned.active and self.state == "running":
            self._cancel()

    def stop(self, *, wait_s: float = 10.0) -> None:
        """End the loop after its current step."""
        self._stopping.set()
        self._woken.set()
        self._cancel()
        self._thread.join(wait_s)

    def kill(self) -> None:
        """End the loop in the middle of its current step, or right after it if the step catches the exception."""
        self._killed = True
        self._woken.set()
        self._thread.interrupt(Killed)
        self._cancel()

    def stall(self, for_s: float) -> None:
        """Take no step for `for_s` seconds."""
        self._stalled_until_s = self._time.elapsed_s() + for_s

    def slow(self, by_s: float, *, for_s: float) -> None:
        """Delay every epoch by `by_s` seconds for `for_s` seconds."""
        self._slow_by_s, self._slow_until_s = by_s, self._time.elapsed_s() + for_s

    def status(self) -> ReplicaStatus:
        """Return the state, the positions and the rates of the replica."""
        replica, timeline = self._replica, self._timeline
        live = clean = lag_s = None
        if replica is not None:
            live, clean = replica.live_position.epoch, replica.clean_position.epoch
            if timeline is not None:
                lag_s = max(0, timeline.last_closed_epoch(self._time.wall_s()) - live) * timeline.epoch_s / timeline.speed
                self._measure_rate(replica)
        return ReplicaStatus(
            key=self.assigned.key,
            incarnation=self.assigned.incarnation,
            state=self.state,
            error=self.error,
            live=live,
            clean=clean,
            quality=replica.quality.value if replica else None,
            lag_s=lag_s,
            rows_s=self._rows_per_s if replica else None,
            latency_s=self._latency_s,
            rows_behind=replica.rows_behind if replica else {},
            caught_up=replica is not None and not self._busy and live == clean,
        )

    def _measure_rate(self, replica: Replica) -> None:
        measured_s, rows = self._rate_measured
        now_s = self._time.elapsed_s()
        if now_s - measured_s >= 1:
            self._rows_per_s = (replica.rows_read - rows) / (now_s - measured_s)
            self._rate_measured = now_s, replica.rows_read

    def _run(self) -> None:
        try:
            while not self._stopping.is_set() and self.state != "finished":
                if self.assigned.active:
                    self._switched_off = False
                    self._run_active()
                else:
                    was_working = self._replica is not None
                    self._replica, self.state, self._was_idle = None, "idle", True
                    if was_working:
                        self._on_switch(False)
                    self._woken.wait(IDLE_S)
                    self._woken.clear()
                    self._raise_if_killed()
        except Killed:
            self.state, self.error = "failed", "killed by a fault"
        except HoldfastError as error:
            self.state, self.error = "failed", str(error)
        except (Exception, SystemExit) as error:
            logging.getLogger("holdfast").exception("replica %s failed", self.assigned.key)
            self.state, self.error = "failed", f"{type(error).__name__}: {first_line(error)}"

    def _raise_if_killed(self) -> None:
        """Raise Killed again if a step has caught it: pyspark catches every exception while it translates a Java error."""
        if self._killed:
            raise Killed

    def _run_active(self) -> None:
        """Create the replica and step it until it becomes idle, finishes or is stopped."""
        self.state = "starting"
        created = self._until_log_works(lambda: self._create(self.assigned, self._stopping.is_set))
        if created is None:
            return
        replica, self._timeline = created
        replica.set_rank(self.assigned.rank)
        was_idle = self._was_idle
        if was_idle:
            self._until_log_works(replica.on_activation)
        self._replica, self.state, self._was_idle = replica, "running", False
        if was_idle:
            self._on_switch(True)
        try:
            self._step_repeatedly(replica, self._timeline)
        finally:
            replica.close()

    def _until_log_works(self, call: Callable[[], Result]) -> Result | None:
        """Return what a call returns; repeat it while the log fails. Return None if the loop becomes idle or stops."""
        while self.assigned.active and not self._stopping.is_set():
            with self._retry_while_log_fails():
                return call()
        return None

    def _step_once(self, replica: Replica) -> bool:
        did_work = False
        try:
            with self._retry_while_log_fails():
                did_work = replica.step()
                self._raise_if_killed()
        except Exception:
            if not self._switched_off:  # switching off cancels the Spark job, which fails the step
                raise
        return did_work

    @contextmanager
    def _retry_while_log_fails(self) -> Iterator[None]:
        """Suppress an error of the log or the input, or of a full disk, and pause: the caller tries again. Every step is
        repeatable.

        The replica's status shows the error. It is raised if it persists for LOG_WAIT_LIMIT_S, unless a system outside the job is
        unreachable: a restart would change nothing, and too many would make the replica count as broken.
        """
        try:
            yield
        except (UnavailableError, OSError) as error:
            if not isinstance(error, UnavailableError) and error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            now_s = self._time.elapsed_s()
            self._log_failing_since_s = self._log_failing_since_s or now_s
            if now_s - self._log_failing_since_s > LOG_WAIT_LIMIT_S and not isinstance(error, ExternalError):
                raise
            is_log, is_outside = isinstance(error, LogError), isinstance(error, ExternalError)
            self.error = f"{'waits for the log' if is_log else WAITS_OUTSIDE if is_outside else 'waits for room'}: {error}"
            self._stopping.wait(LOG_RETRY_S)
        else:
            self._log_failing_since_s = self.error = None

    def _step_repeatedly(self, replica: Replica, timeline: Timeline) -> None:
        while self.assigned.active and not self._switched_off and not self._stopping.is_set():
            if self._time.elapsed_s() < self._stalled_until_s:
                self._stopping.wait(POLL_S)
                continue
            before = replica.live_position.epoch
            self._busy = self._step_once(replica)
            if replica.live_position.epoch > before:
                self._latency_s = self._time.wall_s() - timeline.closes_s(replica.live_position.epoch)
                if self._time.elapsed_s() < self._slow_until_s:
                    self._stopping.wait(self._slow_by_s)
            if replica.finished:
                self.state = "finished"
                return
            if not self._busy:
                self._stopping.wait(POLL_S)
