"""Replayable data: rows arrive, stay there, and any range of them can be read again.

Half of the sources read a topic: each task has partitions of its own, and reads them from the beginning. The others read a table:
all tasks share one position, divide the rows behind it, and begin with what is new when the first of them looks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from holdfast.connectors.replayable import RangeReader
from holdfast.documents.job import Task
from holdfast.log.range_claims import Positions, Range

from .rows import Row

if TYPE_CHECKING:
    from .world import JobModel, World

PARTITIONS = 2
TABLE = "table"
COLUMNS = pa.schema({"key": pa.int64(), "value": pa.int64()})


class SimRangeReader(RangeReader):
    """Reads one source task's share of the data."""

    bad_messages = lost_rows = 0

    def __init__(self, world: World, model: JobModel, task: Task, tasks: int) -> None:
        self._world, self._model, self._task, self._tasks = world, model, task, tasks
        number = model.load.number // 4
        self.has_own_positions = number % 2 == 0
        self._limit = (None, 2)[number // 2 % 2]

    def first(self) -> Positions:
        self._world.turn()
        if not self.has_own_positions:
            return {TABLE: len(self._arrived(TABLE, None))}
        return {str(number): 0 for number in range(PARTITIONS) if number % self._tasks == self._task.task}

    def newest(self, start: Positions, *, before_s: float | None) -> Positions:
        self._world.turn()
        ends = {}
        for name, first in start.items():
            end = len(self._arrived(name, before_s))
            ends[name] = max(int(first), end if self._limit is None else min(end, int(first) + self._limit))
        return ends

    def read(self, rows: Range) -> pa.Table:
        content: list[Row] = []
        for name, start in rows.start.items():
            self._world.turn()
            part = self._arrived(name, None)[int(start) : int(rows.end[name])]
            content += [row for row in part if row[0] % self._tasks == self._task.task] if name == TABLE else part
        columns = [pa.array([row[number] for row in content], pa.int64()) for number in (1, 2)]
        return pa.Table.from_arrays(columns, schema=COLUMNS)

    def _arrived(self, name: str, before_s: float | None) -> list[Row]:
        rows = self._model.arrived_rows(self._task.pe, before_s)
        return rows if name == TABLE else rows[int(name) :: PARTITIONS]
