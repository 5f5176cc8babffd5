"""Runs a Structured Streaming query for a PE replica: one running query per position."""

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import SparkSession

from holdfast.engine.connector.feeds import EpochFiles
from holdfast.engine.epochs import Span
from holdfast.engine.query.query_run import QueryRun, in_stream
from holdfast.errors import HoldfastError, OperatorError
from holdfast.log import Store
from holdfast.log.object_names import quoted
from holdfast.log.position import Position
from holdfast.runtime.input_reader import InputReader, Records
from holdfast.runtime.query_checkpoints import QueryCheckpoints
from holdfast.runtime.span_compute import Computed, SpanCompute
from holdfast.runtime.tentative_output import are_exact

FORK = "fork"
"""The mark of a live position among its kept rows: its state is in the fork of the clean position's query."""

WARM_UP_BATCHES = 3


@dataclass
class Head:
    """A query, the last epoch it has processed, and the rows of the epochs that its replica has not committed yet."""

    query: QueryRun
    epoch: int
    rows: dict[int, pa.Table] = field(default_factory=dict)


class QueryCompute(SpanCompute):
    """Processes epochs with a query of the clean position and, while input is inexact, a fork of it for the live position.

    The fork begins with the state of the clean position and is dropped once that has caught up. Without `has_forks`, which is the
    case without correction, there is one query. `create` returns a query in a new folder. `first_epoch` is the job's first epoch.
    """

    most_epochs = 10
    """Each epoch is a batch of its own, so more epochs in one call would only delay the first of them."""

    def __init__(
        self,
        create: Callable[[Path], QueryRun],
        folder: Path,
        *,
        inputs: InputReader,
        checkpoints: QueryCheckpoints,
        stream: str,
        has_forks: bool,
        first_epoch: int,
    ) -> None:
        self._create, self._folder, self._inputs, self._checkpoints = create, folder, inputs, checkpoints
        self._stream, self._has_forks, self._first_epoch = stream, has_forks, first_epoch
        self._numbers = count()
        self._clean: Head | None = None
        self._live: Head | None = None

    def run(self, epochs: Sequence[Records], spans: Sequence[Span], position: Position) -> Computed:
        """Return the rows of each epoch. Kept rows mark only which of the queries has the state."""
        head = self._head_of(position, are_complete=all(are_exact(records) for records in epochs))
        head.rows = {epoch: rows for epoch, rows in head.rows.items() if epoch > position.epoch}
        new = [(span.first, records) for span, records in zip(spans, epochs, strict=True) if span.first not in head.rows]
        try:
            batches = head.query.process([self._inputs.files(records) for _, records in new])
            for (epoch, _), rows in zip(new, batches, strict=True):
                head.rows[epoch] = in_stream(rows, epoch, first_epoch=self._first_epoch)
                head.epoch = epoch
        except OperatorError:
            self._inputs.require_not_trimmed(epochs)
            raise
        if head is self._clean and self._live is not None and head.epoch >= self._live.epoch:
            self._drop_live()
        kept_rows = position.kept_rows if head is self._clean else {FORK: pa.table({})}
        output = {self._stream: [head.rows[span.first] for span in spans]}
        return Computed(output, kept_rows, sum(record.rows for records in epochs for record in records))

    def stored(self, position: Position) -> Position | None:
        """Return the clean position with the names of the objects that hold its state. They are in the log after this.

        None if the query is already past the position, because a later epoch failed before the replica committed these.
        """
        if self._clean is None or self._clean.epoch != position.epoch:
            return None
        return replace(position, kept_rows=self._checkpoints.save(self._clean.query, position.epoch))

    def warm(self) -> None:
        """Run a few empty batches in a query that is then removed, so that the JVM has loaded its code before the first epoch."""
        query = self._create(self._new_folder())
        empty = dict.fromkeys(self._inputs.streams, EpochFiles((), 0))
        list(query.process([empty] * WARM_UP_BATCHES))
        query.remove()
        self.close()

    def close(self) -> None:
        """Stop the queries and remove their folders."""
        self._drop_live()
        if self._clean is not None:
            self._clean.query.remove()
            self._clean = None
        shutil.rmtree(self._folder, ignore_errors=True)

    def _head_of(self, position: Position, *, are_complete: bool) -> Head:
        """Return the query that has the state of a position. Inexact input forks the clean position's query."""
        if FORK in position.kept_rows:
            assert self._live is not None
            return self._live
        clean = self._clean_head(position)
        if are_complete or not self._has_forks:
            return clean
        self._drop_live()
        self._live = Head(clean.query.fork(self._new_folder()), clean.epoch)
        return self._live

    def _clean_head(self, position: Position) -> Head:
        """Return the clean query, restored if the position comes from a newer checkpoint."""
        saved_epoch = self._checkpoints.epoch_of(position)
        if self._clean is None or (saved_epoch is not None and saved_epoch > self._clean.epoch):
            if self._clean is not None:
                self._clean.query.remove()
            folder = self._new_folder()
            self._checkpoints.restore(position, folder)
            self._clean = Head(self._create(folder), position.epoch)
        if not self._clean.rows:
            self._clean.epoch = max(self._clean.epoch, position.epoch)  # without correction, missed epochs are skipped
        return self._clean

    def _drop_live(self) -> None:
        if self._live is not None:
            self._live.query.remove()
            self._live = None

    def _new_folder(self) -> Path:
        return self._folder / str(next(self._numbers))


def query_folder(spark: SparkSession, store: Store, scratch: Path, *, name: str) -> Path:
    """Return a new folder for the queries of a replica, and remove those that dead processes have left.

    Executors on other machines write into it too, so on a cluster it is in the folder of the log.
    """
    master = str(spark.sparkContext.master)
    if master.startswith("local"):
        root = scratch / "queries"
    elif "://" not in store.root:
        root = Path(store.root) / "running-queries"
    else:
        raise HoldfastError(
            f"a query on the Spark cluster '{master}' needs a folder that its executors can reach, but the log is "
            f"at '{store.root}'; use a log in a shared folder, or nodes with a local master"
        )
    name = quoted(name)
    for old in root.glob(f"{name}.*"):
        if not old.name.startswith(f"{name}.{os.getpid()}."):
            shutil.rmtree(old, ignore_errors=True)
    return root / f"{name}.{os.getpid()}.{uuid4().hex[:8]}"
