"""Replayable data, as in a Kafka topic: rows arrive in partitions, stay there, and any range of them can be read again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from holdfast.documents.job import Task
from holdfast.log.range_claims import Positions, Range

from .rows import Row

if TYPE_CHECKING:
    from .world import JobModel, World

PARTITIONS = 2
COLUMNS = pa.schema({"key": pa.int64(), "value": pa.int64()})


class SimRangeReader:
    """Reads the partitions of one source task. Its first incarnation begins before the first row."""

    bad_messages = lost_rows = 0

    def __init__(self, world: World, model: JobModel, task: Task, tasks: int) -> None:
        self._world, self._model, self._task = world, model, task
        self._partitions = [number for number in range(PARTITIONS) if number % tasks == task.task]
        self._limit = (None, 2)[model.load.number // 4 % 2]

    def first(self) -> Positions:
        self._world.turn()
        return {str(number): 0 for number in self._partitions}

    def newest(self, start: Positions, *, before_s: float | None) -> Positions:
        self._world.turn()
        ends = {}
        for name, first in start.items():
            end = len(self._arrived(int(name), before_s))
            ends[name] = max(int(first), end if self._limit is None else min(end, int(first) + self._limit))
        return ends

    def read(self, rows: Range) -> pa.Table:
        content: list[Row] = []
        for name, start in rows.start.items():
            self._world.turn()
            content += self._arrived(int(name), None)[int(start) : int(rows.end[name])]
        columns = [pa.array([row[number] for row in content], pa.int64()) for number in (1, 2)]
        return pa.Table.from_arrays(columns, schema=COLUMNS)

    def backlog(self, at: Positions) -> int | None:
        return None

    def close(self) -> None:
        pass

    def _arrived(self, partition: int, before_s: float | None) -> list[Row]:
        return self._model.arrived_rows(self._task.pe, before_s)[partition::PARTITIONS]
