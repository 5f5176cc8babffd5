"""The real replica factory, without Spark: rows come from the workload, and readers and writers are simulated."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from holdfast.app import Sink, Source
from holdfast.app.writers import BoundWriter, WriteToken, bind_writer
from holdfast.documents.job import Task
from holdfast.errors import HoldfastError
from holdfast.log import Store
from holdfast.log.checkpoints import Checkpoints
from holdfast.log.log_owner import claim_log
from holdfast.log.shared_streams import SharedInput, resolve_log_locations
from holdfast.log.timeline import Timeline
from holdfast.log.trimming import LogTrimmer
from holdfast.protocol.messages import AssignedReplica
from holdfast.runtime.machine_time import MachineTime
from holdfast.runtime.replica import Replica
from holdfast.runtime.replica_factory import ReplicaFactory
from holdfast.runtime.sinks.write_claims import RENEW_EVERY_S, RENEWAL_LIMIT_S, WriteClaims
from holdfast.runtime.sources.staged_batches import StagedBatches
from holdfast.runtime.sources.trace_source import FetchRows

from .rows import SCHEMA
from .sim_query import SimQuery
from .sim_ranges import SimRangeReader
from .targets import FencedTarget, FencedWriter, Target
from .workload import SimCompute, fetcher

if TYPE_CHECKING:
    from holdfast.engine.epochs import Span

    from .node import Host
    from .world import JobModel, World


class SimFactory(ReplicaFactory):
    """Creates the replicas of one job in one PE host."""

    def __init__(self, world: World, model: JobModel, host: Host) -> None:
        self._world, self._model, self._host = world, model, host
        self.job, self.tasks, self.app = model.job, list(model.layout.tasks), model.load.app
        self.graph, self.schemas = model.load.graph, {}
        assert self.job.log is not None
        self.store = world.open(self.job.log)
        self.store.owner = model.owner
        claim_log(self.store, self.job, self.app.name, self.tasks)
        self._log_locations = resolve_log_locations(self.store, model.logs)
        self.out = world.open(f"{self.job.log}/out", what="output")
        self.checkpoints = Checkpoints(self.store)
        self._node, self._number = host.machine.name, model.number
        self._emit, self._time = world.emitter(host, model.number), host.time
        watched = [task for task in self.tasks if self.job.has_agent(task)]
        self._trimmer = LogTrimmer(self.store, self.tasks, self.checkpoints, watched=watched)
        self._shared_inputs = [
            SharedInput(task, reading, self._store_of(reading))
            for task in self.tasks
            for reading in task.reads
            if reading.job is not None
        ]

    def create(self, assigned: AssignedReplica, is_stopping: Callable[[], bool]) -> tuple[Replica, Timeline] | None:
        created = super().create(assigned, is_stopping)
        if created is not None:
            self._host.replica_created(assigned, created[0])
        return created

    def _compute(self, task: Task) -> SimCompute:  # type: ignore[override]
        return SimCompute(self.graph, task, self._world.turn, self._world.scheduler.take_trap, self.store, self._open_store)

    def _stream_schemas(self) -> dict[str, pa.Schema]:
        return dict.fromkeys(self.graph.nodes, SCHEMA)

    def _source_schema(self, source: Source) -> pa.Schema:
        return pa.schema([field for field in SCHEMA if field.name != "epoch"])

    def _open_trace(self, task: Task) -> tuple[FetchRows, list[Span]]:
        return fetcher(self._model.load, task), list(self._model.load.spans)

    def _start_query(self, source: Source, task: Task, batches: StagedBatches, timeline: Timeline) -> SimQuery:  # type: ignore[override]
        return SimQuery(self._world, self._host, self._model, task, batches)

    def _open_reader(self, source: Source, schema: pa.Schema, task: Task) -> SimRangeReader:
        return SimRangeReader(self._world, self._model, task, source.parallelism)

    def _open_store(self, location: str) -> Store:
        return self._world.open(location)

    def _claims(self, task: Task) -> WriteClaims:
        return WriteClaims(
            self.store, task.name, checkpoints=self.checkpoints, clock=self._time.wall_s, renewing=renewer(self._world, self._host)
        )

    def _writer(self, sink: Sink) -> BoundWriter:
        assert sink.writer is not None
        target, world, scheduler = self._model.target(sink.name), self._world, self._world.scheduler
        fenced = FencedWriter(target) if isinstance(target, FencedTarget) else None

        def work() -> None:
            world.turn()
            if scheduler.random.random() < 0.02:
                scheduler.sleep(scheduler.random.random() * 3)
            if scheduler.take_trap("writer"):
                if fenced is not None:
                    fenced.close()
                raise HoldfastError(f"the writer of sink '{sink.name}' failed (simulated)")

        def call(rows: pa.Table, epoch: int, quality: str, token: WriteToken | None = None) -> None:
            work()
            if isinstance(target, Target):
                work()
                target.write(rows, epoch, quality, token)
                world.turn()
            else:
                assert fenced is not None and token is not None
                fenced.open()
                work()
                fenced.write(rows, token)
                work()  # it may fail after the target has taken the rows

        return replace(bind_writer(sink.writer), function=call)


def renewer(world: World, host: Host) -> Callable[[Callable[[], None]], object]:
    """Return a context that renews a claim in an actor of the same process."""

    @contextmanager
    def renewing(renew: Callable[[], None]) -> Iterator[None]:
        has_ended = False

        def run() -> None:
            for _ in range(int(RENEWAL_LIMIT_S / RENEW_EVERY_S)):
                world.scheduler.sleep(RENEW_EVERY_S)
                if has_ended:
                    return
                renew()

        world.scheduler.spawn("renewal", run, host.process)
        try:
            yield
        finally:
            has_ended = True

    return renewing  # type: ignore[return-value]


def machine_time(world: World, host: Host) -> MachineTime:
    """Return the time of a host's machine."""
    from .threads import SimEvent, SimThread

    scheduler, machine = world.scheduler, host.machine
    return MachineTime(
        wall_s=lambda: scheduler.now_s + machine.offset_s,
        elapsed_s=lambda: scheduler.now_s,
        sleep=scheduler.sleep,
        new_event=lambda: SimEvent(scheduler),
        start=lambda run, name: SimThread(scheduler, host, run, name),
    )


__all__ = ["SimFactory", "machine_time", "renewer", "suppress"]
