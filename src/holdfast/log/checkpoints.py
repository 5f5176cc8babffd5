"""Checkpoints: the clean positions of tasks, on storage that outlives the node."""

import json
from collections.abc import Iterable

import pyarrow as pa

from holdfast.errors import HoldfastError
from holdfast.log import Store
from holdfast.log.object_names import quoted
from holdfast.log.position import Position

FORMAT = b"1"

ARROW_END = b"\xff\xff\xff\xff\0\0\0\0"
"""The last bytes of an Arrow stream. Arrow reads a stream without them as a shorter one."""


class Checkpoints:
    """The newest positions of all tasks of a job.

    A checkpoint is one object, which is written atomically. The last two of each task are kept, because one may be read while the
    next is written. The replicas of a task share its checkpoints, because they agree on every epoch.
    """

    KEPT_PER_TASK = 2

    def __init__(self, store: Store) -> None:
        self._store = store

    def save(self, task: str, position: Position) -> None:
        """Store a position, unless there is a checkpoint of its epoch. Remove old checkpoints and a pending request."""
        self._store.create(_name(task, position.epoch), _encode(position))
        self._store.remove([_name(task, epoch) for epoch in self._epochs(task)[: -self.KEPT_PER_TASK]])
        if self.is_requested(task):
            self._store.remove([_request_name(task)])

    def request(self, task: str) -> None:
        """Ask the replica that runs a task to save a checkpoint now."""
        self._store.create(_request_name(task), b"")

    def is_requested(self, task: str) -> bool:
        """Return whether a checkpoint of a task is requested."""
        return self._store.read(_request_name(task)) is not None

    def latest(self, task: str) -> Position | None:
        """Return the newest checkpoint of a task, or None if it has none."""
        for epoch in reversed(self._epochs(task)):
            content = self._store.read(_name(task, epoch))
            if content is not None:  # another replica may have removed it meanwhile; then there is a newer one
                return self._decode(content, _name(task, epoch))
        return None

    def latest_epoch(self, task: str) -> int | None:
        """Return the epoch of the newest checkpoint of a task, or None if it has none."""
        return max(self._epochs(task), default=None)

    def epoch_reached_by_all(self, tasks: Iterable[str]) -> int | None:
        """Return the last epoch that all tasks have a checkpoint at or past; None if one of them has none."""
        epochs = [self.latest_epoch(task) for task in tasks]
        return None if None in epochs else min((epoch for epoch in epochs if epoch is not None), default=None)

    def _decode(self, content: bytes, name: str) -> Position:
        """Return the position in a checkpoint. Raises HoldfastError if it is damaged.

        An older checkpoint would not help, because the log is trimmed up to this one.
        """
        try:
            return _decode(content, name)
        except (pa.ArrowException, OSError, KeyError, ValueError) as error:
            raise self._store.damage(name, error) from error

    def _epochs(self, task: str) -> list[int]:
        prefix = f"checkpoints/{quoted(task)}/"
        return sorted(int(epoch) for name in self._store.names(prefix) if (epoch := name.rpartition("/")[2]).isdigit())


def _name(task: str, epoch: int) -> str:
    return f"checkpoints/{quoted(task)}/{epoch:020d}"


def _request_name(task: str) -> str:
    return f"asked/{quoted(task)}"


def _encode(position: Position) -> bytes:
    """Encode the kept tables as Arrow streams inside one Arrow table, a format that runs no code when it is read."""
    about = json.dumps({"epoch": position.epoch, "after": position.after, "tainted": position.tainted}).encode()
    streams = [_arrow_stream(table) for table in position.kept_rows.values()]
    whole = pa.table({"label": pa.array(list(position.kept_rows), pa.string()), "rows": pa.array(streams, pa.large_binary())})
    return _arrow_stream(whole.replace_schema_metadata({b"format": FORMAT, b"about": about}))


def _decode(content: bytes, name: str) -> Position:
    if not content.endswith(ARROW_END):
        raise ValueError("it is truncated")
    whole = pa.ipc.open_stream(content).read_all()
    metadata = whole.schema.metadata or {}
    if metadata.get(b"format") != FORMAT:
        raise HoldfastError(f"object '{name}' has a format that this version does not read (it reads {FORMAT.decode()})")
    about = json.loads(metadata[b"about"])
    kept_rows = {
        label: pa.ipc.open_stream(rows).read_all()
        for label, rows in zip(whole["label"].to_pylist(), whole["rows"].to_pylist(), strict=True)
    }
    return Position(about["epoch"], kept_rows, about["after"], about["tainted"])


def _arrow_stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())
