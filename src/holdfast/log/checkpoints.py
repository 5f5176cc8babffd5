"""Checkpoints: the clean positions of tasks, on storage that outlives the node."""

import json
from urllib.parse import unquote

import pyarrow as pa

from holdfast.errors import HoldfastError
from holdfast.log import Store
from holdfast.log.object_names import quoted
from holdfast.log.position import KeptRows, Position, stored_files
from holdfast.log.stored_rows import StoredRows

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
        self._without_files: set[str] = set()

    def save(self, task: str, position: Position) -> None:
        """Store a position, unless there is a checkpoint of its epoch. Remove old checkpoints and a pending request."""
        self._store.create(_name(task, position.epoch), _encode(position))
        epochs = self._epochs(task)
        self._store.remove([_name(task, epoch) for epoch in epochs[: -self.KEPT_PER_TASK]])
        self._remove_unused_files(task, position, epochs[-self.KEPT_PER_TASK :])
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

    def latest_epochs(self) -> dict[str, int]:
        """Return the epoch of the newest checkpoint of every task that has one, by a single listing."""
        epochs: dict[str, int] = {}
        for name in self._store.names("checkpoints/"):
            _, task, epoch = name.split("/")
            if epoch.isdigit():
                epochs[unquote(task)] = max(int(epoch), epochs.get(unquote(task), -1))
        return epochs

    def _remove_unused_files(self, task: str, position: Position, epochs: list[int]) -> None:
        """Remove files of kept rows from before the oldest checkpoint, unless a checkpoint names them.

        Replicas remove their own files; these were left by replicas that died. A task without such files is checked once.
        """
        if not stored_files(position) and task in self._without_files:
            return
        files = list(self._store.names(f"{kept_rows_folder(task)}/"))
        contents = [self._store.read(_name(task, epoch)) for epoch in epochs] if files else []
        used = {file for content in contents if content is not None for file in stored_files(self._decode(content, task))}
        self._store.remove([file for file in files if int(file.split("/")[-2]) < epochs[0] and file not in used])
        if not files:
            self._without_files.add(task)

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


def kept_rows_folder(task: str, epoch: int | None = None) -> str:
    """Return the folder of the files with a task's kept rows, of all epochs or of one."""
    return f"kept/{quoted(task)}" + ("" if epoch is None else f"/{epoch:020d}")


def _request_name(task: str) -> str:
    return f"asked/{quoted(task)}"


def _encode(position: Position) -> bytes:
    """Encode the kept tables as Arrow streams inside one Arrow table, a format that runs no code when it is read.

    Of kept rows in files it has only the names of the files.
    """
    stored = {label: vars(rows) for label, rows in position.kept_rows.items() if isinstance(rows, StoredRows)}
    about = {"epoch": position.epoch, "after": position.after, "tainted": position.tainted, "stored": stored}
    streams = {label: _arrow_stream(rows) for label, rows in position.kept_rows.items() if not isinstance(rows, StoredRows)}
    labels, rows = pa.array(list(streams), pa.string()), pa.array(list(streams.values()), pa.large_binary())
    whole = pa.table({"label": labels, "rows": rows})
    return _arrow_stream(whole.replace_schema_metadata({b"format": FORMAT, b"about": json.dumps(about).encode()}))


def _decode(content: bytes, name: str) -> Position:
    if not content.endswith(ARROW_END):
        raise ValueError("it is truncated")
    whole = pa.ipc.open_stream(content).read_all()
    metadata = whole.schema.metadata or {}
    if metadata.get(b"format") != FORMAT:
        raise HoldfastError(f"object '{name}' has a format that this version does not read (it reads {FORMAT.decode()})")
    about = json.loads(metadata[b"about"])
    kept_rows: dict[str, KeptRows] = {
        label: pa.ipc.open_stream(rows).read_all()
        for label, rows in zip(whole["label"].to_pylist(), whole["rows"].to_pylist(), strict=True)
    }
    for label, stored in about.get("stored", {}).items():
        kept_rows[label] = StoredRows(**stored | {"files": tuple(stored["files"])})
    return Position(about["epoch"], kept_rows, about["after"], about["tainted"])


def _arrow_stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())
