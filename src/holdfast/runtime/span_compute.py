"""What a PE replica calls to process epochs: records of its input and a position go in, output and kept rows come out.

Rows are Arrow tables in this process, or files in the log that executors have written (`StoredRows`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from holdfast.engine.epochs import Span, join_spans
from holdfast.engine.kept_rows import rows_of
from holdfast.log.position import KeptRows, Position
from holdfast.log.stored_rows import StoredRows
from holdfast.runtime.input_reader import InputReader, Records


@dataclass(frozen=True)
class Computed:
    """The result for several epochs: the output of each stream, one part per epoch, and the kept rows after the last epoch."""

    output: dict[str, list[pa.Table | StoredRows]]
    kept_rows: dict[str, KeptRows]
    rows_read: int


class SpanCompute(Protocol):
    """Processes the records of several epochs from a position. Each epoch has its own span."""

    def run(self, epochs: Sequence[Records], spans: Sequence[Span], position: Position) -> Computed:
        """Return the output and the kept rows.

        Raises TrimmedError if input rows were trimmed since their records were read, and OperatorError if an operator failed.
        """
        ...


class TableCompute(Protocol):
    """Processes rows that are in this process."""

    def run(self, new: dict[str, pa.Table], position: Position, span: Span) -> tuple[dict[str, pa.Table], dict[str, KeptRows]]:
        """Process new rows of a span of epochs from a position. Return the output rows per stream, and the kept rows."""
        ...


class DriverCompute:
    """Reads the rows of the epochs into this process, and processes them there."""

    def __init__(self, inputs: InputReader, compute: TableCompute) -> None:
        self._inputs, self._compute = inputs, compute

    def run(self, epochs: Sequence[Records], spans: Sequence[Span], position: Position) -> Computed:
        """Return the output and the kept rows as tables."""
        new = self._inputs.rows(epochs)
        output, kept_rows = self._compute.run(new, position, join_spans(spans))
        parts: dict[str, list[pa.Table | StoredRows]] = {
            stream: [rows] if len(spans) == 1 else [rows_of(rows, span) for span in spans] for stream, rows in output.items()
        }
        return Computed(parts, kept_rows, sum(table.num_rows for table in new.values()))
