"""Checkpoints: the kept rows of a task at an epoch, on storage that outlives the node."""

import json
from collections.abc import Iterable
from urllib.parse import quote

import pyarrow as pa

from holdfast.errors import HoldfastError
from holdfast.log import Store
from holdfast.log.position import Position

FORMAT = b"1"


class Checkpoints:
    """The newest states of all tasks of a job.

    A checkpoint is one object, there whole or not at all. Only the last two of a task stay: one may be read while the next is
    written. Replicas of a task share them, because they agree on every epoch.
    """

    KEPT = 2

    def __init__(self, store: Store) -> None:
        self._store = store

    def save(self, task: str, head: Position) -> None:
        """Store a state, unless that epoch's is there already, and forget those before the last one, and who asked for it."""
        self._store.create(_name(task, head.epoch), _encoded(head))
        self._store.remove([_name(task, epoch) for epoch in self._epochs(task)[: -self.KEPT]])
        if self.is_requested(task):
            self._store.remove([_asked(task)])

    def request(self, task: str) -> None:
        """Ask whoever runs a task for a checkpoint of where it is now."""
        self._store.create(_asked(task), b"")

    def is_requested(self, task: str) -> bool:
        return self._store.read(_asked(task)) is not None

    def latest(self, task: str) -> Position | None:
        """The newest state that a task can start from, or None where it has to start from nothing."""
        for epoch in reversed(self._epochs(task)):
            content = self._store.read(_name(task, epoch))
            if content is not None:  # a replica may have forgotten it meanwhile; then there is a newer one
                return _decoded(content, f"checkpoint {epoch} of {task}")
        return None

    def latest_epoch(self, task: str) -> int | None:
        """The epoch of the newest checkpoint."""
        epochs = self._epochs(task)
        return epochs[-1] if epochs else None

    def epoch_reached_by_all(self, tasks: Iterable[str]) -> int | None:
        """The last epoch that every one of the tasks has a checkpoint at or past; None while one of them has none."""
        epochs = [self.latest_epoch(task) for task in tasks]
        return None if not epochs or None in epochs else min(epoch for epoch in epochs if epoch is not None)

    def _epochs(self, task: str) -> list[int]:
        prefix = f"checkpoints/{quote(task, safe='')}/"
        return sorted(int(name.rsplit("/", 1)[1]) for name in self._store.names(prefix) if name.rsplit("/", 1)[1].isdigit())


def _name(task: str, epoch: int) -> str:
    return f"checkpoints/{quote(task, safe='')}/{epoch:020d}"


def _asked(task: str) -> str:
    return f"asked/{quote(task, safe='')}"


def _encoded(head: Position) -> bytes:
    """Tables as Arrow streams inside one Arrow table: nothing in it is executed when it is read."""
    about = json.dumps({"epoch": head.epoch, "after": head.after, "tainted": head.tainted}).encode()
    streams = [_stream(table) for table in head.kept.values()]
    whole = pa.table({"label": pa.array(list(head.kept), pa.string()), "rows": pa.array(streams, pa.large_binary())})
    return _stream(whole.replace_schema_metadata({b"format": FORMAT, b"about": about}))


def _decoded(content: bytes, what: str) -> Position:
    try:
        whole = pa.ipc.open_stream(content).read_all()
        metadata = whole.schema.metadata or {}
        if metadata.get(b"format") != FORMAT:
            raise HoldfastError(f"{what} has a format that this version does not read (it reads {FORMAT.decode()})")
        about = json.loads(metadata[b"about"])
        kept = {
            label: pa.ipc.open_stream(rows).read_all()
            for label, rows in zip(whole["label"].to_pylist(), whole["rows"].to_pylist(), strict=True)
        }
    except (pa.ArrowException, KeyError, ValueError) as error:
        raise HoldfastError(f"{what} cannot be read: {error}; remove it to start from the one before") from error
    return Position(about["epoch"], kept, about["after"], about["tainted"])


def _stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())
