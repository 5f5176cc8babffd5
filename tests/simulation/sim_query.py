"""A Spark query behind a reader source: it plans a batch, stages it, and then notes that it is done.

Like Spark, it writes the plan of a batch before it runs it. After a restart it runs the last planned batch again if that is not
noted as done. Rows arrive at the reader at their trace's time and are kept there, as in a message queue.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from holdfast.documents.job import Task
from holdfast.errors import LogError
from holdfast.runtime.sources.staged_batches import StagedBatches

from .rows import Row

if TYPE_CHECKING:
    from .node import Host
    from .world import JobModel, World

TRIGGER_S = 1.0


@dataclass
class QueryCheckpoint:
    """Spark's checkpoint of a query, which outlives it: how many rows each planned batch ends with, and which are done."""

    plans: list[int] = field(default_factory=list)
    done: int = 0


class SimQuery:
    """One run of a query, as an actor of the PE host."""

    def __init__(self, world: World, host: Host, model: JobModel, task: Task, batches: StagedBatches) -> None:
        self._world, self._model, self._task, self._batches = world, model, task, batches
        self._failure: BaseException | None = None
        self._stopped = False
        self._put: Callable[[int, pa.Table], None] = batches.put
        world.turn()
        previous = model.queries.get(task.name)
        if previous is not None and previous._process is host.process:
            previous.stop()  # as `start_query` does
        self._process = host.process
        model.queries[task.name] = self
        world.scheduler.spawn(f"query {task.name}", self._run, host.process)

    def exception(self) -> BaseException | None:
        return self._failure

    def stop(self) -> None:
        self._stopped = True

    def _run(self) -> None:
        scheduler, checkpoint = self._world.scheduler, self._model.query_checkpoint(self._task.name)
        while not self._stopped:
            try:
                if checkpoint.done == len(checkpoint.plans):
                    arrived = self._model.arrived_rows(self._task.pe)
                    if len(arrived) == (checkpoint.plans[-1] if checkpoint.plans else 0):
                        scheduler.sleep(TRIGGER_S)
                        continue
                    self._world.turn()
                    checkpoint.plans.append(len(arrived))
                self._world.turn()
                number = len(checkpoint.plans) - 1
                start = checkpoint.plans[number - 1] if number else 0
                rows = self._model.arrived_rows(self._task.pe)[start : checkpoint.plans[number]]
                self._put(number, _table(rows))
                self._world.turn()
                if self._stopped:
                    return
                checkpoint.done = max(checkpoint.done, number + 1)
            except LogError as error:
                self._failure = error
                return
            scheduler.sleep(TRIGGER_S)


def _table(rows: list[Row]) -> pa.Table:
    return pa.table({"key": [row[1] for row in rows], "value": [row[2] for row in rows]}, schema=STAGED)


STAGED = pa.schema({"key": pa.int64(), "value": pa.int64()})
