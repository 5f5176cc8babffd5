"""Find hung replicas: those that have work and make no progress."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from holdfast.control.observers.job_observers import FailReplica, ReplicaView
from holdfast.documents.job import Policy, Task
from holdfast.log import EpochLog
from holdfast.log.stream_progress import StreamProgress
from holdfast.log.timeline import Timeline
from holdfast.protocol.messages import WAITS_OUTSIDE

LEAST_S = 5.0
"""How long a replica must be without progress before the log is read to see whether it has work."""
LOG_WAIT_S = 150.0
"""How long a replica that waits for the log is not hung. One that works ends by itself before this."""
MAX_STEP_S = 1.0
"""The most time that counts between two checks. If they are further apart, the orchestrator itself was delayed."""
SPARE_EPOCHS = 3
"""How many epochs' time a replica gets in addition to the policy's limit, because long epochs take long to process."""


@dataclass(frozen=True)
class _Position:
    """The position of an incarnation, and whether it waits for the log."""

    incarnation: int
    live: int
    clean: int
    waits: bool


@dataclass
class _Stall:
    """A replica without progress at a position for `for_s`. It is hung after `until_s`, which is set once it is known to have
    work."""

    position: _Position
    for_s: float = 0.0
    until_s: float | None = None


@dataclass
class HungReplicas:
    """Finds the hung replicas of one job.

    A replica catches up in one Spark job, during which it reports no progress. So it gets the duration of its backlog in addition
    to the policy's limit. If it is hung again before it gets further, its limit doubles each time, so that work which merely takes
    longer than expected can finish.

    `others` are the logs of the jobs that it reads, by name.
    """

    policy: Policy
    tasks: Sequence[Task]
    log: EpochLog
    timeline: Timeline
    others: Mapping[str, EpochLog] = field(default_factory=dict)
    _stalls: dict[str, _Stall] = field(default_factory=dict)
    _earlier: dict[str, tuple[int, int]] = field(default_factory=dict)
    _checked_s: float | None = None

    def __post_init__(self) -> None:
        self._progress = StreamProgress(self.log, self.timeline, self.others)
        self._task_of = {task.name: task for task in self.tasks}

    def check(self, replicas: Sequence[ReplicaView], now_s: float) -> list[FailReplica]:
        """Return the decisions to fail the hung replicas."""
        step_s = 0.0 if self._checked_s is None else min(max(0.0, now_s - self._checked_s), MAX_STEP_S)
        self._checked_s = now_s
        if self.policy.hung_after_s is None or self.policy.restart == "never":
            return []
        running = {r.key: r for r in replicas if r.task in self._task_of and _position_of(r) is not None}
        self._stalls = {key: stall for key, stall in self._stalls.items() if key in running}
        return [self._failed(replica) for replica in running.values() if self._is_hung(replica, step_s, now_s)]

    def _is_hung(self, replica: ReplicaView, step_s: float, now_s: float) -> bool:
        position = _position_of(replica)
        assert position is not None
        stall = self._stalls.get(replica.key)
        if stall is None or stall.position != position:
            self._stalls[replica.key] = _Stall(position)
            return False
        stall.for_s += step_s
        if stall.for_s < (LEAST_S if stall.until_s is None else stall.until_s):
            return False
        task = self._task_of[replica.task]
        is_over = task.reads or replica.status is None or replica.status.lag_s != 0  # by the clock of a source's own node
        if not is_over or not self._progress.has_work(task, live=position.live, clean=position.clean, now_s=now_s):
            self._stalls[replica.key] = _Stall(position)
            return False
        if stall.until_s is None:
            stall.until_s = stall.for_s + self._allowed_s(replica.key, task, position, now_s)
            return False
        return not position.waits or stall.for_s > LOG_WAIT_S

    def _failed(self, replica: ReplicaView) -> FailReplica:
        stall = self._stalls.pop(replica.key)
        furthest, times = self._earlier.get(replica.key, (stall.position.live, 0))
        further = stall.position.live > furthest
        self._earlier[replica.key] = max(furthest, stall.position.live), 1 if further else times + 1
        cause = f"it has had work for {stall.for_s:.0f} s and got no further than epoch {stall.position.live}: it counts as hung"
        return FailReplica(replica.key, replica.incarnation, cause=cause)

    def _allowed_s(self, key: str, task: Task, position: _Position, now_s: float) -> float:
        assert self.policy.hung_after_s is not None
        last_epochs = self._progress.last_input_epochs(task)
        behind = max(0, min(last_epochs, default=self.timeline.last_closed_epoch(now_s)) - position.clean)
        furthest, times = self._earlier.get(key, (position.live, 0))
        longer = 2.0 ** min(times, 20) if position.live <= furthest else 1.0
        return self.policy.hung_after_s * longer + (SPARE_EPOCHS + behind) * self.timeline.epoch_s / self.timeline.speed


def _position_of(replica: ReplicaView) -> _Position | None:
    """Return the position of a replica that should make progress: it is active, it runs, and no system outside is unreachable."""
    status = replica.status
    if not replica.active or replica.state != "running" or status is None or status.live is None or status.clean is None:
        return None
    if status.error is not None and status.error.startswith(WAITS_OUTSIDE):
        return None
    return _Position(replica.incarnation, status.live, status.clean, status.error is not None)
