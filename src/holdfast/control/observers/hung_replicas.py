"""Progress as the second sign of lifecycle: a replica that has something to do and does not get on with it is hung."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from holdfast.control.observers.job_observers import Failed, ReplicaView
from holdfast.documents.job import Policy, Task
from holdfast.log import EpochLog
from holdfast.log.stream_progress import StreamProgress
from holdfast.log.timeline import Timeline

LEAST_S = 5.0
"""Nobody asks what a replica has to do before it has stood still for so long."""
AWAKE_S = 1.0
"""The most that one look counts: where looks are further apart, whoever looks was held up itself."""
SPARE_EPOCHS = 3
"""So many epochs' time is allowed for beside the policy's: where epochs are long, so is what they take."""


@dataclass(frozen=True)
class _Mark:
    """How far an incarnation has come."""

    incarnation: int
    live: int
    clean: int


@dataclass
class _Still:
    """A replica that has stood still at a mark for so long; hung when it has for `until_s`, which is known once it has work."""

    mark: _Mark
    for_s: float = 0.0
    until_s: float | None = None


@dataclass
class HungReplicas:
    """Finds the hung replicas of one job.

    What a replica has to catch up with is one job, during which it says nothing: it is given as long as that took to come, beside
    the policy's time. Where it is hung again before it got further, it is given twice as long each time, so that what merely takes
    longer than anyone thought comes to its end.
    """

    policy: Policy
    tasks: Sequence[Task]
    log: EpochLog
    timeline: Timeline
    _still: dict[str, _Still] = field(default_factory=dict)
    _again: dict[str, tuple[int, int]] = field(default_factory=dict)
    _looked_s: float | None = None

    def __post_init__(self) -> None:
        self._heads = StreamProgress(self.log, self.timeline)
        self._named = {task.name: task for task in self.tasks}

    def look(self, replicas: Sequence[ReplicaView], now_s: float) -> list[Failed]:
        """The replicas that count as failed from now on."""
        passed_s = 0.0 if self._looked_s is None else min(max(0.0, now_s - self._looked_s), AWAKE_S)
        self._looked_s = now_s
        if self.policy.hung_after_s is None or self.policy.restart == "never":
            return []
        running = {replica.key: replica for replica in replicas if replica.task in self._named and _at(replica) is not None}
        self._still = {key: still for key, still in self._still.items() if key in running}
        return [self._failed(replica) for replica in running.values() if self._is_hung(replica, passed_s, now_s)]

    def _is_hung(self, replica: ReplicaView, passed_s: float, now_s: float) -> bool:
        mark = _at(replica)
        assert mark is not None
        still = self._still.get(replica.key)
        if still is None or still.mark != mark:
            self._still[replica.key] = _Still(mark)
            return False
        still.for_s += passed_s
        if still.for_s < (LEAST_S if still.until_s is None else still.until_s):
            return False
        task = self._named[replica.task]
        if not self._heads.has_work(task, live=mark.live, clean=mark.clean, now_s=now_s):
            self._still[replica.key] = _Still(mark)
            return False
        if still.until_s is None:
            still.until_s = still.for_s + self._allowed_s(replica.key, task, mark, now_s)
            return False
        return True

    def _failed(self, replica: ReplicaView) -> Failed:
        still = self._still.pop(replica.key)
        furthest, times = self._again.get(replica.key, (still.mark.live, 0))
        further = still.mark.live > furthest
        self._again[replica.key] = max(furthest, still.mark.live), 1 if further else times + 1
        why = f"it has had work for {still.for_s:.0f} s and got no further than epoch {still.mark.live}: it is taken for hung"
        return Failed(replica.key, replica.incarnation, why=why)

    def _allowed_s(self, key: str, task: Task, mark: _Mark, now_s: float) -> float:
        assert self.policy.hung_after_s is not None
        heads = [self._heads.last_epoch(reading.stream, number) for reading in task.reads for number in reading.tasks]
        behind = max(0, min(heads, default=self.timeline.last_closed_epoch(now_s)) - mark.clean)
        furthest, times = self._again.get(key, (mark.live, 0))
        longer = 2.0 ** min(times, 20) if mark.live <= furthest else 1.0
        return self.policy.hung_after_s * longer + (SPARE_EPOCHS + behind) * self.timeline.epoch_s / self.timeline.speed


def _at(replica: ReplicaView) -> _Mark | None:
    """How far a replica is that should get on: it is active, it runs, and it does not wait for the log."""
    status = replica.status
    if not replica.active or replica.state != "running" or status is None or status.error is not None:
        return None
    return None if status.live is None or status.clean is None else _Mark(replica.incarnation, status.live, status.clean)
