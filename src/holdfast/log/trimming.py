"""Where the log is trimmed: removes the records and rows of epochs that every consumer has a checkpoint past."""

import json
from collections.abc import Container, Iterable, Mapping

from holdfast.documents.job import Task
from holdfast.log import EpochLog, Store
from holdfast.log.checkpoints import Checkpoints

EPOCHS_KEPT_FOR_AGENTS = 12
"""How many epochs are kept of the streams that a prediction agent reads, although no task needs them. Agents look a few times a
second and learn from epochs without a gap; a mean covers at most this many epochs."""

TRIMMED_FOR = "remaining-tasks"
"""The object that names the remaining tasks of an ended job, once the log is trimmed for them alone."""


class LogTrimmer:
    """Trims the streams of one job up to the oldest checkpoint of each stream's consumers and producer.

    The producer counts because it would otherwise compute trimmed epochs again after a restart. A consumer in another job counts
    by the position that it saves in this log. `remaining_tasks` are the tasks that still run for other jobs after this job has
    ended; None while it has not. `watched` are the tasks with a prediction agent.
    """

    def __init__(self, store: Store, tasks: Iterable[Task], checkpoints: Checkpoints, *, watched: Iterable[Task] = ()) -> None:
        self._store, self._log, self._checkpoints = store, EpochLog(store), checkpoints
        self._users: dict[tuple[str, int], list[str]] = {}
        task_list = list(tasks)
        for task in task_list:
            for stream in task.makes:
                self._users.setdefault((stream, task.task), []).append(task.name)
        for task in task_list:
            for reading in task.reads:
                for number in reading.tasks:
                    if reading.job is None:
                        self._users[reading.stream, number].append(task.name)
        self._watched = {stream for task in watched for stream in (*task.makes, *(r.stream for r in task.reads if r.job is None))}
        self._trimmed_until: dict[tuple[str, int], int] = {}
        self.remaining_tasks: frozenset[str] | None = None

    def trim_around(self, task: Task) -> None:
        """Trim the streams that a task of this job reads, and those that it makes and no task of this job reads.

        The number of requests grows with the number of these streams, and does not depend on how many tasks use each of them.
        """
        streams = [(stream, task.task) for stream in task.makes if len(self._remaining_users(stream, task.task)) == 1]
        streams += [(reading.stream, number) for reading in task.reads if reading.job is None for number in reading.tasks]
        epochs = self._checkpoints.latest_epochs() if streams else {}
        for stream, number in streams:
            self.trim(stream, number, epochs)

    def trim(self, stream: str, task: int, epochs: Mapping[str, int] | None = None) -> None:
        """Remove all epochs of a task's stream that no task, reader or agent needs any more.

        `epochs` are those of the newest checkpoints, if they are known.

        A job that joins saves its position and then reads up to where the stream is trimmed. Trimming does the reverse: it
        announces how far it goes and then reads the positions again. So either the job starts past the announced epochs, or its
        position is found here and its epochs stay.
        """
        epochs = self._checkpoints.latest_epochs() if epochs is None else epochs
        users = self._remaining_users(stream, task)
        if not users or any(user not in epochs for user in users):
            return
        kept = EPOCHS_KEPT_FOR_AGENTS if stream in self._watched else 0
        until = min(epochs[user] for user in users) - kept
        after = self._trimmed_until.get((stream, task))
        if after is not None and until <= after:
            return
        until = min([until, *(epoch - kept for epoch in self._reader_epochs(stream, task))])
        if after is None:
            oldest = self._log.oldest_epoch(stream, task)
            if oldest is None:
                return
            after = oldest - 1
        if until > after:
            self._log.announce_trim(stream, task, until=until)
            until = min([until, *self._reader_epochs(stream, task)])
        if until > after:
            if self.remaining_tasks is not None:
                self._store.create(TRIMMED_FOR, json.dumps(sorted(self.remaining_tasks)).encode())
            self._store.remove(self._log.trim(stream, task, after=after, until=until))
            self._trimmed_until[stream, task] = until

    def _reader_epochs(self, stream: str, task: int) -> list[int]:
        """Return the epochs up to which readers in other jobs have read a stream."""
        return [int(self._store.read(name) or b"-1") for name in self._store.names(_reader_folder(stream, task))]

    def _remaining_users(self, stream: str, task: int) -> list[str]:
        """Return the tasks that produce or read a stream and still run."""
        return [name for name in self._users[stream, task] if self.remaining_tasks is None or name in self.remaining_tasks]


def save_reader_position(store: Store, reader: str, *, stream: str, task: int, epoch: int) -> None:
    """Note in another job's log that a reader needs a stream only after an epoch."""
    store.replace(f"{_reader_folder(stream, task)}{reader}", str(epoch).encode())


def remove_ended_readers(store: Store, living_jobs: Container[str]) -> None:
    """Remove the positions that readers of ended jobs have saved, so that trimming does not wait for them."""
    ended = [name for name in store.names("readers/") if name.rsplit("/", 1)[1].partition(":")[0] not in living_jobs]
    if ended:
        store.remove(ended)


def _reader_folder(stream: str, task: int) -> str:
    return f"readers/{stream}/{task}/"
