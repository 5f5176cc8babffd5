"""Where a reader finds its epochs: in a log, or in a folder of batches that a replica hands to its query."""

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, Protocol
from urllib.parse import unquote

from holdfast.errors import HoldfastError
from holdfast.log import EpochLog, Record, Store
from holdfast.log.log_owner import NAME as CLAIM
from holdfast.log.object_names import quoted

RecordKind = Literal["newest", "first", "exact"]
RECORD_KINDS: tuple[RecordKind, ...] = ("newest", "first", "exact")


@dataclass(frozen=True)
class EpochFile:
    """A file of rows: the root of its store, its name there, and the epoch and quality of the rows."""

    root: str
    name: str
    epoch: int
    quality: str


@dataclass(frozen=True)
class EpochFiles:
    """The files of an epoch of a stream, and how many rows they have together."""

    files: tuple[EpochFile, ...]
    rows: int


class Feed(Protocol):
    """The epochs of the streams that a query reads together, counted by numbers without a gap."""

    def first_number(self) -> int: ...
    def is_complete(self, number: int) -> bool: ...
    def files(self, stream: str, number: int) -> EpochFiles: ...


class LogFeed:
    """The epochs of streams of a log. An epoch is complete when every task of every stream has committed it.

    `kind` selects the records: the first ones, the exact ones, or the newest ones that there are.
    """

    def __init__(self, root: str, streams: Sequence[str], kind: RecordKind, *, first: int | None = None) -> None:
        self._root, self._streams, self._kind, self._first = root, tuple(streams), kind, first
        self._store = open_log(root)
        self._log = EpochLog(self._store)
        self._tasks = {stream: tasks_of(self._store, stream) for stream in self._streams}

    def first_number(self) -> int:
        """Return the first epoch to read: the given one, otherwise the oldest one that all tasks still have."""
        if self._first is not None:
            return self._first
        pairs = [(stream, task) for stream, tasks in self._tasks.items() for task in tasks]
        oldest = [self._log.oldest_epoch(stream, task) for stream, task in pairs]
        return max((epoch for epoch in oldest if epoch is not None), default=0)

    def is_complete(self, number: int) -> bool:
        return all(self._record(stream, task, number) is not None for stream in self._streams for task in self._tasks[stream])

    def last_number(self, *, after: int) -> int:
        """Return the last complete epoch from `after` on, without a gap."""
        while self.is_complete(after + 1):
            after += 1
        return after

    def files(self, stream: str, number: int) -> EpochFiles:
        records = [record for task in self._tasks[stream] if (record := self._record(stream, task, number)) is not None]
        if len(records) < len(self._tasks[stream]):
            raise HoldfastError(
                f"epoch {number} of stream '{stream}' is not in the log at '{self._root}': it was trimmed, or is not committed yet"
            )
        return files_of(records, self._root)

    def _record(self, stream: str, task: int, epoch: int) -> Record | None:
        look_up = {"first": self._log.first, "exact": self._log.final, "newest": self._log.newest}[self._kind]
        return look_up(stream, task, epoch=epoch)


class BatchFeed:
    """The batches that a replica hands to its query: one file per batch, which appears at once. Batches are counted from 0."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)

    def first_number(self) -> int:
        return 0

    def is_complete(self, number: int) -> bool:
        return _batch_file(self._folder, number).exists()

    def files(self, stream: str, number: int) -> EpochFiles:
        part = json.loads(_batch_file(self._folder, number).read_text())[stream]
        return EpochFiles(tuple(EpochFile(**file) for file in part["files"]), part["rows"])


def hand_over_batch(folder: Path, number: int, inputs: dict[str, EpochFiles]) -> None:
    """Hand a batch to a query: the files of each stream."""
    content = {stream: {"files": [asdict(file) for file in part.files], "rows": part.rows} for stream, part in inputs.items()}
    write_whole(_batch_file(folder, number), json.dumps(content))


def write_whole(path: Path, text: str) -> None:
    """Write a small file of this node, which appears at once."""
    hidden = path.with_name(f".{path.name}.{os.getpid()}")
    hidden.write_text(text)
    hidden.replace(path)


def _batch_file(folder: Path, number: int) -> Path:
    return folder / f"{number}.json"


def files_of(records: Iterable[Record], root: str) -> EpochFiles:
    """Return the files of the records of an epoch."""
    records = list(records)
    files = tuple(EpochFile(root, name, record.epoch, record.quality.value) for record in records for name in record.files)
    return EpochFiles(files, sum(record.rows for record in records))


def open_log(root: str) -> Store:
    """Return the store of an existing log. Raises HoldfastError if a folder does not exist."""
    if "://" not in root and not Path(root).is_dir():
        raise HoldfastError(f"there is no log at '{root}'; give the folder or URL of a job's log (option 'log')")
    return Store(root)


def tasks_of(store: Store, stream: str) -> tuple[int, ...]:
    """Return the numbers of the tasks that produce a stream. Raises HoldfastError if the log does not have it."""
    tasks, names = _tasks_by_claim(store), f"records/{quoted(stream)}/"
    if stream in tasks:
        return tuple(sorted(tasks[stream]))
    numbers = {int(name.removeprefix(names).split("/")[0]) for name in store.names(names)}
    if numbers:
        return tuple(sorted(numbers))
    known = sorted({*tasks, *(unquote(name.split("/")[1]) for name in store.names("records/"))})
    raise HoldfastError(f"the log at '{store.root}' has no stream '{stream}'; its streams are: {', '.join(known) or 'none yet'}")


def _tasks_by_claim(store: Store) -> dict[str, set[int]]:
    """Return the tasks of each stream, as the job that owns the log has noted them; empty if no job owns it."""
    content: dict[str, Any] = json.loads(store.read(CLAIM) or b"{}")
    tasks: dict[str, set[int]] = {}
    for task, streams in (content.get("tasks") or {}).items():
        for stream in streams:
            tasks.setdefault(stream, set()).add(int(task.rpartition("/")[2]))
    return tasks
