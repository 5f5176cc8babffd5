"""The end of a job of which a task was given up: when all that does not need it has finished, and the rest has done what it can."""

from collections.abc import Sequence, Set
from dataclasses import dataclass

from holdfast.control.observers.job_observers import End, ReplicaView
from holdfast.documents.job import Job, Task
from holdfast.log.stream_progress import StreamProgress


@dataclass
class AbandonedTasks:
    """Watches one job. Where the contract lets consumers go on without a dead task, they do so to the last epoch."""

    job: Job
    tasks: Sequence[Task]
    heads: StreamProgress

    def look(self, replicas: Sequence[ReplicaView], now_s: float) -> list[End]:
        """That the job is over, once it is."""
        given_up = abandoned_tasks_of(self.tasks, replicas)
        if not given_up or self.heads.timeline.last is None:
            return []
        waiting = _readers_of({stream for task in given_up for stream in task.makes}, self.tasks)
        for task in self.tasks:
            mine = [replica for replica in replicas if replica.task == task.name]
            if task in given_up:
                done = self._is_stood_in_for(task)
            else:
                done = any(replica.state == "finished" for replica in mine)
                done = done or (task.name in waiting and self._has_done_all(task, mine, now_s))
            if not done:
                return []
        return [End(f"{_told(given_up, replicas)}; all that does not need it has finished")]

    def _is_stood_in_for(self, task: Task) -> bool:
        """Whether nothing will come of a task that was given up, also not in its stead."""
        waits = self.job.contract_of(task.pe).tentative_after_s is None or not task.makes
        return waits or self.heads.last_epoch_of_task(task) == self.heads.timeline.last

    def _has_done_all(self, task: Task, replicas: Sequence[ReplicaView], now_s: float) -> bool:
        """Whether a task that waits for one that was given up has done everything that it can."""
        heads = [
            (replica.status.live, replica.status.clean)
            for replica in replicas
            if replica.state == "running" and replica.active and replica.status is not None
        ]
        known = [(live, clean) for live, clean in heads if live is not None and clean is not None]
        idle = (not self.heads.has_work(task, live=live, clean=clean, now_s=now_s) for live, clean in known)
        return bool(known) and all(idle)


def fail_if_nothing_can_begin(tasks: Sequence[Task], replicas: Sequence[ReplicaView]) -> list[End]:
    """That a job is over of which no epoch has begun, where nobody is left to begin one."""
    sources = [task for task in tasks if task.kind == "source"]
    given_up = abandoned_tasks_of(sources, replicas)
    return [End(f"{_told(given_up, replicas)}; nothing could begin")] if sources and given_up == sources else []


def abandoned_tasks_of(tasks: Sequence[Task], replicas: Sequence[ReplicaView]) -> list[Task]:
    """The tasks of which no replica will be started again."""
    left = {replica.task for replica in replicas if replica.state != "abandoned"}
    known = {replica.task for replica in replicas}
    return [task for task in tasks if task.name in known - left]


def _told(given_up: Sequence[Task], replicas: Sequence[ReplicaView]) -> str:
    names = [task.name for task in given_up]
    last = next((replica.error for replica in replicas if replica.task in names and replica.error), "no reason given")
    return f"{', '.join(names)} given up, last: {last}"


def _readers_of(streams: Set[str], tasks: Sequence[Task]) -> set[str]:
    """The tasks that read one of these streams, or what is made of it; each task comes after those it reads."""
    reached, found = set(streams), set()
    for task in tasks:
        if any(reading.job is None and reading.stream in reached for reading in task.reads):
            found.add(task.name)
            reached |= set(task.makes)
    return found
