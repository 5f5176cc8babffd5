"""The states of queries in the log: the files of a query's checkpoint folder, so that another node can continue it.

A save uploads the files that are new since the last save, packed into few objects. A position names the object of each file.
Every replica has a folder of objects of its own, because replicas give the same name to different files.
"""

from pathlib import Path
from uuid import uuid4

import pyarrow as pa

from holdfast.engine.query.query_folder import committed_batch, files_of_batch, pack, unpack
from holdfast.engine.query.query_run import QueryRun
from holdfast.errors import HoldfastError
from holdfast.log import Store
from holdfast.log.checkpoints import Checkpoints
from holdfast.log.object_names import quoted
from holdfast.log.position import Position

FILES = "files of the query"

ABANDONED_EPOCHS = 1_000
"""The objects of a replica that has saved nothing for this many epochs are removed, unless the newest checkpoint needs them."""


class QueryCheckpoints:
    """The saved states of one task's query. `checkpoints` are those of the job, which name the objects."""

    def __init__(self, store: Store, task: str, checkpoints: Checkpoints) -> None:
        self._store, self._task, self._checkpoints = store, task, checkpoints
        self._prefix, self._replica = f"queries/{quoted(task)}/", uuid4().hex[:12]
        self._object_of: dict[str, str] = {}

    def save(self, query: QueryRun, epoch: int) -> dict[str, pa.Table]:
        """Store the state of a query after an epoch, and return it as kept rows."""
        before = self._object_of
        there = set(self._store.names(self._prefix))
        names = files_of_batch(query.checkpoint, query.batch)
        kept = {name: before[name] for name in names if before.get(name) in there}
        uploaded: dict[str, str] = {}
        for number, (some, content) in enumerate(pack(query.checkpoint, [name for name in names if name not in kept])):
            pack_name = f"{self._prefix}{self._replica}/{epoch:020d}.{number}-{uuid4().hex[:6]}"  # new in each attempt
            self._store.create(pack_name, content)
            uploaded |= dict.fromkeys(some, pack_name)
        self._object_of = {**kept, **uploaded}
        self._remove_unused(there, used={*before.values(), *self._object_of.values()}, epoch=epoch)
        table = {"name": list(self._object_of), "object": list(self._object_of.values()), "epoch": [epoch] * len(self._object_of)}
        return {FILES: pa.table(table, schema=pa.schema([("name", pa.string()), ("object", pa.string()), ("epoch", pa.int64())]))}

    def epoch_of(self, position: Position) -> int | None:
        """Return the epoch of the state that a position names, or None if it names none."""
        files = position.kept_rows.get(FILES)
        return None if files is None else int(_table(files)["epoch"][0].as_py())

    def restore(self, position: Position, folder: Path) -> None:
        """Write the state that a position names into a query's folder; nothing if it names none."""
        files = position.kept_rows.get(FILES)
        if files is None:
            return
        table, checkpoint = _table(files), folder / "checkpoint"
        self._object_of = dict(zip(table["name"].to_pylist(), table["object"].to_pylist(), strict=True))
        for name in sorted(set(self._object_of.values())):
            content = self._store.read(name)
            if content is None:
                raise HoldfastError(
                    f"object '{name}' of the log at '{self._store.root}' is missing, so that the query of task '{self._task}' "
                    "cannot continue; restore it from a backup, or start the job with a new log"
                )
            unpack(content, checkpoint, {file for file, where in self._object_of.items() if where == name})
        if committed_batch(checkpoint) < 0:
            raise self._store.damage(name, "it has no committed batch")

    def _remove_unused(self, names: set[str], *, used: set[str], epoch: int) -> None:
        """Remove objects that neither the last two saves of this replica nor the newest checkpoint need."""
        latest = self._checkpoints.latest(self._task)
        if latest is not None and FILES in latest.kept_rows:
            used |= set(_table(latest.kept_rows[FILES])["object"].to_pylist())
        last_save: dict[str, int] = {}
        for name in names:
            replica, number = name.rsplit("/", 2)[1:]
            last_save[replica] = max(last_save.get(replica, 0), int(number.split(".")[0]))
        abandoned = {replica for replica, saved in last_save.items() if saved < epoch - ABANDONED_EPOCHS}
        own = {*abandoned, self._replica}
        self._store.remove(sorted(name for name in names - used if name.rsplit("/", 2)[1] in own))


def _table(rows: object) -> pa.Table:
    assert isinstance(rows, pa.Table)
    return rows
