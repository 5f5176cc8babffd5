"""Creates the replicas of one job on one node. The application is loaded once and the log opened once for all of them."""

import threading
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from holdfast.app import Operator, Sink, Source
from holdfast.app.load import load_app
from holdfast.app.writers import BoundWriter, FencedError, WriteToken, bind_writer
from holdfast.connectors import open_reader
from holdfast.connectors.replayable import RangeReader
from holdfast.documents.column_mapping import read_columns
from holdfast.documents.document import check_document
from holdfast.documents.job import Job, Reading, Task
from holdfast.engine.analysis import analyse
from holdfast.engine.epochs import Span
from holdfast.engine.query.query_run import QueryRun
from holdfast.engine.schema import arrow_schema, source_schema, to_frame
from holdfast.engine.trace_reader import open_trace
from holdfast.errors import HoldfastError, UnavailableError
from holdfast.log import Store
from holdfast.log.checkpoints import Checkpoints
from holdfast.log.fences import require_not_fenced
from holdfast.log.log_owner import claim_log, require_inputs_of_all_tasks
from holdfast.log.range_claims import RangeClaims
from holdfast.log.readiness import all_ready, awaited_names, mark_ready
from holdfast.log.shared_streams import SharedInput, join_timelines, reader_name, resolve_log_locations
from holdfast.log.timeline import Timeline, read_timeline
from holdfast.log.trimming import LogTrimmer, save_reader_position
from holdfast.protocol.messages import AssignedReplica
from holdfast.runtime.input_reader import InputReader
from holdfast.runtime.machine_time import MACHINE_TIME
from holdfast.runtime.output_writer import Emit, OutputWriter
from holdfast.runtime.pe_compute import PeCompute, taint_duration_epochs
from holdfast.runtime.pe_replica import PeReplica
from holdfast.runtime.query_checkpoints import QueryCheckpoints
from holdfast.runtime.query_compute import QueryCompute, query_folder
from holdfast.runtime.replica import Replica, ReplicaContext
from holdfast.runtime.sinks.claimed_writer import ClaimedWriter
from holdfast.runtime.sinks.sink_replica import SinkReplica
from holdfast.runtime.sinks.write_claims import WriteClaims
from holdfast.runtime.sources.reader_query import Query, query_checkpoint_path, start_query
from holdfast.runtime.sources.reader_source import ReaderSource, reader_timeline
from holdfast.runtime.sources.replayable_source import ReplayableSource
from holdfast.runtime.sources.staged_batches import StagedBatches
from holdfast.runtime.sources.trace_source import (
    FetchRows,
    TraceReadAhead,
    TraceSource,
    trace_row_fetcher,
    trace_spans,
    trace_timeline,
)
from holdfast.runtime.span_compute import ChosenCompute, DriverCompute, ExecutorCompute

POLL_S = 0.05
READINESS_LIMIT_S = 60.0
"""How long a trace waits for its readers and their prediction agents before it starts without them."""


class ReplicaFactory:
    """Creates the replicas of one job. `settings` come with the assignment; `node` is part of the producer's name in records."""

    def __init__(self, spark: SparkSession, number: int, settings: dict[str, Any], *, node: str, emit: Emit, scratch: Path) -> None:
        self.job = check_document(settings["job"], Job, thing=f"job {number}")
        self.tasks = [check_document(task, Task, thing=f"task of job {number}") for task in settings["tasks"]]
        assert self.job.application is not None and self.job.log is not None
        self.app = load_app(self.job.application)
        self.graph = self.app.graph()
        self.schemas = analyse(self.graph, spark, name=self.app.name)
        self.store = Store(self.job.log, sync=self.job.sync, owner=settings.get("owner", ""))
        claim_log(self.store, self.job, self.app.name, self.tasks)
        if settings.get("remaining") is None:
            require_inputs_of_all_tasks(self.store, self.job)
        self._log_locations = resolve_log_locations(self.store, settings.get("logs", {}))
        self.out = Store(self.job.out or f"{self.job.log.rstrip('/')}/out", what="output", sync=self.job.sync)
        self.checkpoints = Checkpoints(self.store)
        self._spark, self._node, self._number = spark, node, number
        self._emit, self._scratch, self._time = emit, scratch, MACHINE_TIME
        watched = [task for task in self.tasks if self.job.has_agent(task)]
        self._trimmer = LogTrimmer(self.store, self.tasks, self.checkpoints, watched=watched)
        self.set_remaining_tasks(settings.get("remaining"))
        self._shared_inputs = [
            SharedInput(task, reading, self._store_of(reading))
            for task in self.tasks
            for reading in task.reads
            if reading.job is not None
        ]
        self._lock = threading.Lock()
        self._trace: tuple[dict[str, DataFrame], list[Span]] | None = None

    def create(self, assigned: AssignedReplica, is_stopping: Callable[[], bool]) -> tuple[Replica, Timeline] | None:
        """Return a replica and the job's timeline once the job's first source has started; None if the loop stops before."""
        task = next((t for t in self.tasks if t.pe == assigned.pe and t.task == assigned.task), None)
        if task is None:
            raise HoldfastError(f"job '{self.job.job}' has no task '{assigned.pe}/{assigned.task}'")
        if task.kind == "source":
            created = self._create_source(task, assigned, is_stopping)
            require_not_fenced(self.store)
            return created
        query = self._query_of(task)
        compute = self._compute(task) if task.kind == "operators" and query is None else None
        if self._timeline() is None:
            if compute is not None:
                compute.warm(self.schemas)
            elif query is not None:
                self._query_compute(task, query, assigned, first_epoch=0).warm()
            mark_ready(self.store, task.name)
        timeline = self._await_timeline(is_stopping)
        if timeline is None:
            return None
        require_not_fenced(self.store)
        if query is not None:
            return self._create_query(task, timeline, assigned, query), timeline
        replica = self._create_sink(task, timeline) if compute is None else self._create_pe(task, timeline, assigned, compute)
        return replica, timeline

    def _create_source(
        self, task: Task, assigned: AssignedReplica, is_stopping: Callable[[], bool]
    ) -> tuple[Replica, Timeline] | None:
        if self.job.feed.trace is not None:
            return self._create_trace_source(task, assigned, is_stopping)
        if self._source(task).input is not None:
            return self._create_replayable_source(task, assigned, is_stopping)
        return self._create_reader_source(task, assigned, is_stopping)

    def set_remaining_tasks(self, tasks: Collection[str] | None) -> None:
        """Note which tasks still run for other jobs after this job has ended; None while it has not."""
        self._trimmer.remaining_tasks = None if tasks is None else frozenset(tasks)

    def _context(self, task: Task, timeline: Timeline) -> ReplicaContext:
        contract = self.job.contract_of(task.pe)
        return ReplicaContext(task, contract, timeline, self.checkpoints, lambda epoch: self._trim(task, epoch))

    def _compute(self, task: Task) -> PeCompute:
        name = f"{self.job.job}: {task.name}"
        return PeCompute(self._spark, self.graph, task.operators, self.schemas, name=name, store=self.store, task=task)

    def _create_pe(self, task: Task, timeline: Timeline, assigned: AssignedReplica, compute: PeCompute) -> PeReplica:
        inputs = self._inputs(task)
        executor_rows = self.job.contract_of(task.pe).executor_rows
        driver, executors = DriverCompute(inputs, compute, self.store), ExecutorCompute(inputs, compute, self.store)
        return PeReplica(
            self._context(task, timeline),
            inputs=inputs,
            output=self._output(task, timeline, assigned),
            compute=ChosenCompute(driver, executors, executor_rows=executor_rows),
            taint_epochs=taint_duration_epochs(self.graph, task.operators),
            ascending=not any(self.graph.reads_query(operator) for operator in task.operators),
        )

    def _query_of(self, task: Task) -> Operator | None:
        """Return the query that a task runs, or None if it runs none."""
        operators = [self.graph.operator(name) for name in task.operators]
        return operators[0] if operators and operators[0].is_query else None

    def _create_query(self, task: Task, timeline: Timeline, assigned: AssignedReplica, query: Operator) -> PeReplica:
        return PeReplica(
            self._context(task, timeline),
            inputs=self._inputs(task),
            output=self._output(task, timeline, assigned),
            compute=self._query_compute(task, query, assigned, first_epoch=timeline.first),
            ascending=False,
        )

    def _query_compute(self, task: Task, query: Operator, assigned: AssignedReplica, *, first_epoch: int) -> QueryCompute:
        return QueryCompute(
            lambda folder: QueryRun(self._spark, query, self.schemas, folder),
            query_folder(self._spark, self.store, self._scratch, name=f"{self._number}-{task.name}.{assigned.replica}"),
            inputs=self._inputs(task),
            checkpoints=QueryCheckpoints(self.store, task.name, self.checkpoints),
            stream=query.name,
            has_forks=self.job.contract_of(task.pe).correction,
            first_epoch=first_epoch,
        )

    def _create_reader_source(
        self, task: Task, assigned: AssignedReplica, is_stopping: Callable[[], bool]
    ) -> tuple[ReaderSource, Timeline] | None:
        source = self._source(task)
        timeline = self._endless_timeline(is_stopping)
        if timeline is None:
            return None
        batches = StagedBatches(self.store, task)
        replica = ReaderSource(
            self._context(task, timeline),
            source=source,
            schema=self._source_schema(source),
            batches=batches,
            start_query=lambda: self._start_query(source, task, batches, timeline),
            source_task=self._source_task(task),
            output=self._output(task, timeline, assigned),
            clock=self._time.wall_s,
        )
        return replica, timeline

    def _create_replayable_source(
        self, task: Task, assigned: AssignedReplica, is_stopping: Callable[[], bool]
    ) -> tuple[ReplayableSource, Timeline] | None:
        timeline = self._endless_timeline(is_stopping)
        if timeline is None:
            return None
        source = self._source(task)
        schema = self._source_schema(source)
        replica = ReplayableSource(
            self._context(task, timeline),
            schema=schema,
            reader=self._open_reader(source, schema, task),
            claims=RangeClaims(self.store, task.name, checkpoints=self.checkpoints),
            source_task=self._source_task(task),
            output=self._output(task, timeline, assigned),
            clock=self._time.wall_s,
        )
        return replica, timeline

    def _open_reader(self, source: Source, schema: pa.Schema, task: Task) -> RangeReader:
        return open_reader(source, schema, task=task.task)

    def _endless_timeline(self, is_stopping: Callable[[], bool]) -> Timeline | None:
        """Return the timeline of a job without a trace; None if the loop stops before another job has started its own."""
        if self._shared_inputs:
            return self._await_timeline(is_stopping)
        return reader_timeline(self.store, epoch_s=self.app.epoch_s, now_s=self._time.wall_s())

    def _source_task(self, task: Task) -> tuple[int, int]:
        """Return the number of a source's task among all source tasks of the job, and how many there are."""
        names = [each.name for each in self.tasks if each.kind == "source"]
        return names.index(task.name), len(names)

    def _source_schema(self, source: Source) -> pa.Schema:
        return arrow_schema(source_schema(source))

    def _start_query(self, source: Source, task: Task, batches: StagedBatches, timeline: Timeline) -> Query:
        checkpoint = query_checkpoint_path(self.job, task)
        return start_query(
            self._spark, source, task, store=self.store, batches=batches, checkpoint=checkpoint, epoch_s=timeline.epoch_s
        )

    def _create_trace_source(
        self, task: Task, assigned: AssignedReplica, is_stopping: Callable[[], bool]
    ) -> tuple[TraceSource, Timeline]:
        fetch, spans = self._open_trace(task)
        read_ahead = TraceReadAhead(fetch, spans)
        if read_timeline(self.store) is None:
            read_ahead.load(spans[0].first)  # before the timeline starts
        self._await_readers(is_stopping)
        timeline = trace_timeline(self.store, spans, epoch_s=self.app.epoch_s, speed=self.job.feed.speed, now_s=self._time.wall_s())
        replica = TraceSource(
            self._context(task, timeline),
            read_ahead=read_ahead,
            output=self._output(task, timeline, assigned),
            clock=self._time.wall_s,
        )
        return replica, timeline

    def _source(self, task: Task) -> Source:
        source = self.graph.nodes[task.pe]
        assert isinstance(source, Source)
        return source

    def _await_readers(self, is_stopping: Callable[[], bool]) -> None:
        """Wait until all readers of a trace, and the prediction agents that watch them, are ready."""
        names = awaited_names(self.job, self.tasks)
        deadline_s = self._time.elapsed_s() + READINESS_LIMIT_S
        while read_timeline(self.store) is None and not is_stopping() and self._time.elapsed_s() < deadline_s:
            if all_ready(self.store, names):
                return
            self._time.sleep(POLL_S)

    def _create_sink(self, task: Task, timeline: Timeline) -> SinkReplica:
        sink = self.graph.nodes[task.pe]
        assert isinstance(sink, Sink)
        return SinkReplica(
            self._context(task, timeline),
            inputs=self._inputs(task),
            out=self.out,
            emit=self._emit,
            writer=self._claimed_writer(sink, task),
            clock=self._time.wall_s,
        )

    def _claimed_writer(self, sink: Sink, task: Task) -> ClaimedWriter | None:
        if sink.writer is None:
            return None
        return ClaimedWriter(self._writer(sink), self._claims(task), retries=self.job.contract_of(task.pe).retries)

    def _claims(self, task: Task) -> WriteClaims:
        return WriteClaims(self.store, task.name, checkpoints=self.checkpoints, clock=self._time.wall_s)

    def _writer(self, sink: Sink) -> BoundWriter:
        assert sink.writer is not None
        writer = bind_writer(sink.writer)

        def call(rows: pa.Table, epoch: int, *others: str, **by_name: WriteToken) -> None:
            try:
                writer.function(rows if writer.takes_arrow else to_frame(self._spark, rows), epoch, *others, **by_name)
            except (FencedError, UnavailableError):
                raise
            except (Exception, SystemExit) as error:
                raise HoldfastError(
                    f"the writer of sink '{sink.name}' ({sink.origin}) raised {type(error).__name__} in epoch {epoch}: {error}"
                ) from error

        return replace(writer, function=call)

    def _open_trace(self, task: Task) -> tuple[FetchRows, list[Span]]:
        """Return a function that reads a source task's share of the trace, and the trace's epochs. The trace is opened once for all
        sources of this job on this node."""
        source = self._source(task)
        with self._lock:
            if self._trace is None:
                assert self.job.feed.trace is not None
                names = [source.name for source in self.graph.sources]
                columns = read_columns(Path(self.job.feed.columns) if self.job.feed.columns else None, names)
                folder = self._scratch / f"trace-{self._number}"
                folder.mkdir(parents=True, exist_ok=True)
                frames = open_trace(self._spark, self.graph, self.job.feed.trace, columns=columns, scratch=folder)
                self._trace = frames, list(trace_spans(frames, self.app.epoch_s))
            frames, spans = self._trace
        fetch = trace_row_fetcher(frames[task.pe], task, epoch_s=self.app.epoch_s, key=source.key, tasks=source.parallelism)
        return fetch, spans

    def _inputs(self, task: Task) -> InputReader:
        stores = [self._store_of(reading) for reading in task.reads]
        return InputReader(task.reads, stores, self._stream_schemas())

    def _stream_schemas(self) -> dict[str, pa.Schema]:
        return {name: arrow_schema(schema) for name, schema in self.schemas.items()}

    def _output(self, task: Task, timeline: Timeline, assigned: AssignedReplica) -> OutputWriter:
        producer = f"{task.name}.{assigned.replica} on {self._node}"
        return OutputWriter(self.store, task.task, producer, timeline, self._emit, time=self._time)

    def _store_of(self, reading: Reading) -> Store:
        if reading.job is None:
            return self.store
        if reading.job not in self._log_locations:
            raise HoldfastError(f"job '{self.job.job}' reads stream '{reading.stream}' of job '{reading.job}', which is not there")
        return self._open_store(self._log_locations[reading.job])

    def _open_store(self, location: str) -> Store:
        return Store(location)

    def _await_timeline(self, is_stopping: Callable[[], bool]) -> Timeline | None:
        while (timeline := self._timeline()) is None and not is_stopping():
            self._time.sleep(POLL_S)
        return timeline

    def _timeline(self) -> Timeline | None:
        """Return the job's timeline; None until its first source, or each job that it reads, has started."""
        if self._shared_inputs:
            return join_timelines(self.store, self.job.job, self._shared_inputs)
        return read_timeline(self.store)

    def _trim(self, task: Task, epoch: int) -> None:
        """Trim the streams around a task that has just saved a checkpoint at an epoch."""
        self._trimmer.trim_around(task)
        reader = reader_name(self.job.job, task)
        for reading in task.reads:
            if reading.job is not None:
                for number in reading.tasks:
                    save_reader_position(self._store_of(reading), reader, stream=reading.stream, task=number, epoch=epoch)
