"""Fail a job with abandoned tasks once the other tasks have finished or have done all that they can without them."""

from collections.abc import Sequence, Set
from dataclasses import dataclass

from holdfast.control.observers.job_observers import FailJob, ReplicaView
from holdfast.documents.job import Job, Task
from holdfast.log.stream_progress import StreamProgress


@dataclass
class AbandonedTasks:
    """Watches the abandoned tasks of one job. If the contract lets consumers continue without a dead task, they do so to the last
    epoch before the job fails."""

    job: Job
    tasks: Sequence[Task]
    progress: StreamProgress

    def check(self, replicas: Sequence[ReplicaView], now_s: float) -> list[FailJob]:
        """Return the decision to fail the job, once it cannot progress any more."""
        abandoned = abandoned_tasks_of(self.tasks, replicas)
        if not abandoned or self.progress.timeline.last is None:
            return []
        waiting = _readers_of({stream for task in abandoned for stream in task.makes}, self.tasks)
        for task in self.tasks:
            own = [replica for replica in replicas if replica.task == task.name]
            if task in abandoned:
                over = self._gets_no_more_epochs(task)
            else:
                over = any(replica.state == "finished" for replica in own)
                over = over or (task.name in waiting and self._has_done_all(task, own, now_s))
            if not over:
                return []
        return [FailJob(f"{_cause(abandoned, replicas)}; all that does not need it has finished")]

    def _gets_no_more_epochs(self, task: Task) -> bool:
        """Return whether an abandoned task's stream is complete: all absent epochs are committed, or none will be."""
        waits_forever = self.job.contract_of(task.pe).tentative_after_s is None or not task.makes
        return waits_forever or self.progress.last_epoch_of_task(task) == self.progress.timeline.last

    def _has_done_all(self, task: Task, replicas: Sequence[ReplicaView], now_s: float) -> bool:
        """Return whether a task that waits for an abandoned one has processed everything that it can."""
        statuses = [r.status for r in replicas if r.state == "running" and r.active and r.status is not None]
        positions = [(each.live, each.clean) for each in statuses if each.live is not None and each.clean is not None]
        without_work = (not self.progress.has_work(task, live=live, clean=clean, now_s=now_s) for live, clean in positions)
        return bool(positions) and all(without_work)


def fail_if_nothing_can_begin(tasks: Sequence[Task], replicas: Sequence[ReplicaView]) -> list[FailJob]:
    """Return the decision to fail a job without epochs if all its sources are abandoned."""
    sources = [task for task in tasks if task.kind == "source"]
    abandoned = abandoned_tasks_of(sources, replicas)
    return [FailJob(f"{_cause(abandoned, replicas)}; nothing could begin")] if sources and abandoned == sources else []


def abandoned_tasks_of(tasks: Sequence[Task], replicas: Sequence[ReplicaView]) -> list[Task]:
    """Return the tasks all of whose replicas are abandoned."""
    remaining = {replica.task for replica in replicas if replica.state != "abandoned"}
    abandoned = {replica.task for replica in replicas} - remaining
    return [task for task in tasks if task.name in abandoned]


def _cause(abandoned: Sequence[Task], replicas: Sequence[ReplicaView]) -> str:
    names = [task.name for task in abandoned]
    last = next((replica.error for replica in replicas if replica.task in names and replica.error), "no reason given")
    return f"{', '.join(names)} abandoned, last: {last}"


def _readers_of(streams: Set[str], tasks: Sequence[Task]) -> set[str]:
    """Return the tasks that read one of these streams, directly or indirectly. Tasks are listed after those that they read."""
    reached, readers = set(streams), set()
    for task in tasks:
        if any(reading.job is None and reading.stream in reached for reading in task.reads):
            readers.add(task.name)
            reached |= set(task.makes)
    return readers
