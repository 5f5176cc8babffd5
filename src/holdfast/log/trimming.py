"""Forgetting what nobody will read again: records and files behind every consumer's checkpoint."""

import json
from collections.abc import Container, Iterable

from holdfast.documents.job import Task
from holdfast.log import EpochLog, Store
from holdfast.log.checkpoints import Checkpoints

EPOCHS_KEPT_FOR_AGENTS = 12
"""Epochs behind everyone that are kept of what prediction agents watch: they look a few times a second, and learn from epochs
without a gap. As many as a number may be a mean over."""
TRIMMED_FOR = "left"
"""The name in a log of the tasks for which alone something was trimmed: the others of their job cannot go on from it."""


class LogTrimmer:
    """Trims the streams of one job. Behind the slowest of a stream's consumers, and behind its producer, which would otherwise
    make again, after a restart, what has been forgotten. A consumer in another job counts by the mark that it leaves. `left` are
    the tasks that live on, shared by other jobs, when the job itself has ended; None: all. Of what the tasks in `watched` read and
    make, some epochs are kept for their prediction agents."""

    def __init__(self, store: Store, tasks: Iterable[Task], checkpoints: Checkpoints, *, watched: Iterable[Task] = ()) -> None:
        self._store, self._log, self._checkpoints = store, EpochLog(store), checkpoints
        self._concerned: dict[tuple[str, int], list[str]] = {}
        listed = list(tasks)
        for task in listed:
            for stream in task.makes:
                self._concerned.setdefault((stream, task.task), []).append(task.name)
        for task in listed:
            for reading in task.reads:
                for number in reading.tasks:
                    if reading.job is None:
                        self._concerned[reading.stream, number].append(task.name)
        self._spared = {stream for task in watched for stream in (*task.makes, *(r.stream for r in task.reads if r.job is None))}
        self._done: dict[tuple[str, int], int] = {}
        self.left: frozenset[str] | None = None

    def trim_unread(self, stream: str, task: int) -> None:
        """The same for a stream that nobody of its own job reads any more: then its maker sees to it."""
        if len(self._living(stream, task)) == 1:
            self.trim(stream, task)

    def trim(self, stream: str, task: int) -> None:
        """Forget what can be forgotten of one task's stream."""
        until = self._checkpoints.epoch_reached_by_all(self._living(stream, task))
        marks = [int(self._store.read(name) or b"-1") for name in self._store.names(_marks(stream, task))]
        if until is None:
            return
        until = min([until, *marks]) - (EPOCHS_KEPT_FOR_AGENTS if stream in self._spared else 0)
        after = self._done.get((stream, task))
        if after is None:
            oldest = self._log.oldest_epoch(stream, task)
            if oldest is None:
                return
            after = oldest - 1
        if until > after:
            if self.left is not None:
                self._store.create(TRIMMED_FOR, json.dumps(sorted(self.left)).encode())
            self._store.remove(self._log.trim(stream, task, after=after, until=until))
            self._done[stream, task] = until

    def _living(self, stream: str, task: int) -> list[str]:
        """The tasks that make or read a stream, of those that are left."""
        return [name for name in self._concerned[stream, task] if self.left is None or name in self.left]


def save_reader_position(store: Store, reader: str, *, stream: str, task: int, epoch: int) -> None:
    """Say in another job's log up to which epoch a stream has been read for good by a reader of this name."""
    store.replace(f"{_marks(stream, task)}{reader}", str(epoch).encode())


def remove_ended_readers(store: Store, living: Container[str]) -> None:
    """Take away the marks of jobs that are gone: nobody waits for what they have not read."""
    gone = [name for name in store.names("readers/") if name.rsplit("/", 1)[1].partition(":")[0] not in living]
    if gone:
        store.remove(gone)


def _marks(stream: str, task: int) -> str:
    return f"readers/{stream}/{task}/"
