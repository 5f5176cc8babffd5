"""What a PE replica calls to process epochs: records of its input and a position go in, output and kept rows come out.

Rows are Arrow tables in this process, or files in the log that executors have written (`StoredRows`).
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import pyarrow as pa

from holdfast.engine.epochs import Span, join_spans
from holdfast.engine.kept_rows import rows_of
from holdfast.engine.stored_frame import StoredInput
from holdfast.errors import HoldfastError, KeptRowsRemovedError
from holdfast.log import Store
from holdfast.log.position import KeptRows, Position, stored_files
from holdfast.log.stored_rows import StoredRows, load_rows
from holdfast.runtime.input_reader import InputReader, Records


@dataclass(frozen=True)
class Computed:
    """The result for several epochs: the output of each stream, one part per epoch, and the kept rows after the last epoch."""

    output: dict[str, list[pa.Table | StoredRows]]
    kept_rows: dict[str, KeptRows]
    rows_read: int


class SpanCompute(ABC):
    """Processes the records of up to `most_epochs` epochs from a position. Each epoch has its own span."""

    most_epochs = 1_000
    """The contract's `catch_up_rows` limits the rows of a Spark job; this is the limit where rows are few."""

    @abstractmethod
    def run(self, epochs: Sequence[Records], spans: Sequence[Span], position: Position) -> Computed:
        """Return the output and the kept rows.

        Raises TrimmedError if input rows were trimmed since their records were read, and OperatorError if an operator failed.
        """

    def stored(self, position: Position) -> Position | None:
        """Return a clean position in a form from which another node can continue; None if that is not possible now."""
        return position

    def close(self) -> None:  # noqa: B027  # most computations leave nothing running
        """End what still runs."""


class TableCompute(Protocol):
    """Processes rows that are in this process."""

    def run(self, new: dict[str, pa.Table], position: Position, span: Span) -> tuple[dict[str, pa.Table], dict[str, KeptRows]]:
        """Process new rows of a span of epochs from a position. Return the output rows per stream, and the kept rows."""
        ...


class StoredCompute(Protocol):
    """Processes rows that are in files of the log, without reading them into this process."""

    def run_stored(
        self, new: Mapping[str, StoredInput], position: Position, spans: Sequence[Span]
    ) -> tuple[dict[str, list[StoredRows]], dict[str, KeptRows]]:
        """Process new rows of several spans from a position. Return the output, one part per span, and the kept rows."""
        ...


class ExecutorCompute(SpanCompute):
    """Lets executors read and write the rows. This process sees only the names of the files and what they contain."""

    def __init__(self, inputs: InputReader, compute: StoredCompute, store: Store) -> None:
        self._inputs, self._compute, self._store = inputs, compute, store

    def run(self, epochs: Sequence[Records], spans: Sequence[Span], position: Position) -> Computed:
        """Return the output and the kept rows as stored rows."""
        try:
            output, kept_rows = self._compute.run_stored(self._inputs.stored(epochs), position, spans)
        except HoldfastError:  # Spark does not report in a uniform way that a file is missing
            _require_kept_rows(self._store, position)
            self._inputs.require_not_trimmed(epochs)
            raise
        return Computed({**output}, kept_rows, sum(record.rows for records in epochs for record in records))


class ChosenCompute(SpanCompute):
    """Leaves epochs to executors if they read `executor_rows` rows or more on average, kept and new, and others to the driver.

    For few rows the driver is faster: the rows and the plans of its Spark jobs are in memory.
    """

    def __init__(self, driver: SpanCompute, executors: SpanCompute, *, executor_rows: int) -> None:
        self._driver, self._executors, self._executor_rows = driver, executors, executor_rows

    def run(self, epochs: Sequence[Records], spans: Sequence[Span], position: Position) -> Computed:
        """Return the output and the kept rows."""
        new_rows = sum(record.rows for records in epochs for record in records)
        rows = new_rows / len(epochs) + sum(kept_rows.num_rows for kept_rows in position.kept_rows.values())
        return (self._executors if rows >= self._executor_rows else self._driver).run(epochs, spans, position)


class DriverCompute(SpanCompute):
    """Reads the rows of the epochs into this process, and processes them there."""

    def __init__(self, inputs: InputReader, compute: TableCompute, store: Store) -> None:
        self._inputs, self._compute, self._store = inputs, compute, store

    def run(self, epochs: Sequence[Records], spans: Sequence[Span], position: Position) -> Computed:
        """Return the output and the kept rows as tables."""
        new = self._inputs.rows(epochs)
        output, kept_rows = self._compute.run(new, self._load(position), join_spans(spans))
        parts: dict[str, list[pa.Table | StoredRows]] = {
            stream: [rows] if len(spans) == 1 else [rows_of(rows, span) for span in spans] for stream, rows in output.items()
        }
        return Computed(parts, kept_rows, sum(table.num_rows for table in new.values()))

    def _load(self, position: Position) -> Position:
        """Return the position with its kept rows in this process."""
        if not any(isinstance(rows, StoredRows) for rows in position.kept_rows.values()):
            return position
        try:
            kept_rows = {
                label: load_rows(self._store, rows) if isinstance(rows, StoredRows) else rows
                for label, rows in position.kept_rows.items()
                if rows.num_rows
            }
        except HoldfastError:
            _require_kept_rows(self._store, position)
            raise
        return replace(position, kept_rows=kept_rows)


def _require_kept_rows(store: Store, position: Position) -> None:
    """Raise KeptRowsRemovedError if files of the kept rows are missing."""
    for file in stored_files(position):
        if not store.exists(file):
            raise KeptRowsRemovedError(f"kept rows of epoch {position.epoch} were removed: file '{file}' is missing")
