"""A job as a PE host runs it: its application loaded once, its log opened once, and a worker for each replica asked for."""

import threading
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from holdfast.app import Sink, Source
from holdfast.app.load import load_app
from holdfast.documents.column_mapping import read_columns
from holdfast.documents.document import check_document
from holdfast.documents.job import Job, Reading, Task
from holdfast.engine.analysis import analyse
from holdfast.engine.epochs import Span
from holdfast.engine.schema import arrow_schema, source_schema, to_frame
from holdfast.engine.trace_reader import open_trace
from holdfast.errors import HoldfastError
from holdfast.log import Store
from holdfast.log.checkpoints import Checkpoints
from holdfast.log.ownership import claim_log, require_inputs_of_all_tasks
from holdfast.log.readiness import all_ready, awaited_names, mark_ready
from holdfast.log.shared_streams import SharedInput, join_timelines, reader_name, resolve_log_locations
from holdfast.log.timeline import Timeline, read_timeline
from holdfast.log.trimming import LogTrimmer, save_reader_position
from holdfast.protocol.messages import AssignedReplica
from holdfast.runtime.input_reader import InputReader
from holdfast.runtime.output_writer import Emit, OutputWriter
from holdfast.runtime.pe_compute import PeCompute, taint_duration_epochs
from holdfast.runtime.pe_replica import PeReplica
from holdfast.runtime.replica_loop import Worker
from holdfast.runtime.sinks.sink_replica import SinkReplica, Writer
from holdfast.runtime.sources.reader_query import query_checkpoint_path, start_query
from holdfast.runtime.sources.reader_source import ReaderSource, reader_timeline
from holdfast.runtime.sources.staged_batches import StagedBatches
from holdfast.runtime.sources.trace_source import TraceReadAhead, TraceSource, trace_row_fetcher, trace_spans, trace_timeline

WAIT_S = 0.05
READY_S = 60.0
"""How long a trace waits for its readers, and for the agents that watch them, before it begins without them."""


class ReplicaFactory:
    """One job on one node. `settings` is what its layout carries; `node` names the producer of what is made here."""

    def __init__(self, spark: SparkSession, number: int, settings: dict[str, Any], *, node: str, tell: Emit, scratch: Path) -> None:
        self.job = check_document(settings["job"], Job, thing=f"job {number}")
        self.tasks = [check_document(task, Task, thing=f"task of job {number}") for task in settings["tasks"]]
        assert self.job.application is not None and self.job.log is not None
        self.app = load_app(self.job.application)
        self.graph = self.app.graph()
        self.schemas = analyse(self.graph, spark, name=self.app.name)
        self.store = Store(self.job.log)
        claim_log(self.store, self.job, self.app.name, self.tasks)
        if settings.get("left") is None:
            require_inputs_of_all_tasks(self.store, self.job)
        self._logs = resolve_log_locations(self.store, settings.get("logs", {}))
        self.out = Store(self.job.out or f"{self.job.log.rstrip('/')}/out", what="output")
        self.checkpoints = Checkpoints(self.store)
        self._spark, self._node, self._number = spark, node, number
        self._tell, self._scratch = tell, scratch
        watched = [task for task in self.tasks if self.job.has_agent(task)]
        self._trimmer = LogTrimmer(self.store, self.tasks, self.checkpoints, watched=watched)
        self.is_left(settings.get("left"))
        self._foreign = [
            SharedInput(task, reading, self._store_of(reading))
            for task in self.tasks
            for reading in task.reads
            if reading.job is not None
        ]
        self._lock = threading.Lock()
        self._trace: tuple[dict[str, DataFrame], list[Span]] | None = None

    def worker(self, assigned: AssignedReplica, stopped: Callable[[], bool]) -> tuple[Worker, Timeline] | None:
        """The worker of a replica, once the job's first source has begun; None if it was stopped before."""
        task = next((t for t in self.tasks if t.pe == assigned.pe and t.task == assigned.task), None)
        if task is None:
            raise HoldfastError(f"job '{self.job.job}' has no task '{assigned.pe}/{assigned.task}'")
        if task.kind == "source":
            return self._source(task, assigned, stopped)
        compute = self._compute(task) if task.kind == "operators" else None
        if self._timeline() is None:
            if compute is not None:
                compute.warm(self.schemas)
            mark_ready(self.store, task.name)
        timeline = self._awaited_timeline(stopped)
        if timeline is None:
            return None
        return (self._sink(task, timeline) if compute is None else self._pe(task, timeline, assigned, compute)), timeline

    def is_left(self, tasks: Collection[str] | None) -> None:
        """Note which tasks live on, shared by other jobs, when the job itself has ended; None: it has not."""
        self._trimmer.left = None if tasks is None else frozenset(tasks)

    def ranked(self, worker: Worker, rank: int) -> None:
        """Apply a replica's rank: the primary writes and saves at once, a quiet secondary when the primary is late."""
        if isinstance(worker, PeReplica):
            quiet = rank > 0 and worker.contract.secondary == "quiet"
            worker.outbox.patience_s = worker.contract.patience_s if quiet else 0.0
        if isinstance(worker, PeReplica | TraceSource | ReaderSource | SinkReplica):
            every = self.job.contract_of(worker.task.pe).checkpoint_epochs
            worker.saves_every = every if rank == 0 else 2 * every

    @staticmethod
    def woken(worker: Worker) -> None:
        """Let a replica that was idle take over what an active one keeps, unless it is woken because that one is late."""
        if isinstance(worker, PeReplica) and worker.contract.protection != "upstream":
            worker.take_over()

    def _compute(self, task: Task) -> PeCompute:
        return PeCompute(self._spark, self.graph, task.operators, self.schemas, name=f"{self.job.job}: {task.name}")

    def _pe(self, task: Task, timeline: Timeline, assigned: AssignedReplica, compute: PeCompute) -> PeReplica:
        return PeReplica(
            task,
            self.job.contract_of(task.pe),
            inbox=self._inbox(task),
            outbox=self._outbox(task, timeline, assigned),
            compute=compute,
            checkpoints=self.checkpoints,
            timeline=timeline,
            fades=taint_duration_epochs(self.graph, task.operators),
            checkpointed=lambda epoch: self._trim(task, epoch),
        )

    def _source(self, task: Task, assigned: AssignedReplica, stopped: Callable[[], bool]) -> tuple[Worker, Timeline] | None:
        source = self.graph.nodes[task.pe]
        assert isinstance(source, Source)
        if self.job.feed.trace is None:
            timeline = self._awaited_timeline(stopped) if self._foreign else reader_timeline(self.store, epoch_s=self.app.epoch_s)
            if timeline is None:
                return None
            staged, checkpoint, epoch_s = StagedBatches(self.store, task), query_checkpoint_path(self.job, task), timeline.epoch_s
            made = ReaderSource(
                task,
                self.job.contract_of(task.pe),
                source=source,
                schema=arrow_schema(source_schema(source)),
                staged=staged,
                start=lambda: start_query(
                    self._spark, source, task, store=self.store, staged=staged, checkpoint=checkpoint, epoch_s=epoch_s
                ),
                place=self._place(task),
                outbox=self._outbox(task, timeline, assigned),
                checkpoints=self.checkpoints,
                timeline=timeline,
                checkpointed=lambda epoch: self._trim(task, epoch),
            )
            return made, timeline
        frames, spans = self._open_trace()
        fetch = trace_row_fetcher(frames[task.pe], task, epoch_s=self.app.epoch_s, key=source.key, tasks=source.parallelism)
        ahead = TraceReadAhead(fetch, spans)
        if read_timeline(self.store) is None:
            ahead.read(spans[0].first)  # before time begins to pass
        self._await_readers(stopped)
        timeline = trace_timeline(self.store, spans, epoch_s=self.app.epoch_s, speed=self.job.feed.speed)
        worker = TraceSource(
            task,
            self.job.contract_of(task.pe),
            ahead=ahead,
            outbox=self._outbox(task, timeline, assigned),
            checkpoints=self.checkpoints,
            timeline=timeline,
            checkpointed=lambda epoch: self._trim(task, epoch),
        )
        return worker, timeline

    def _await_readers(self, stopped: Callable[[], bool]) -> None:
        """Let a trace begin when all that reads it, or watches what does, is there."""
        wanted = awaited_names(self.job, self.tasks)
        ends = time.monotonic() + READY_S
        while read_timeline(self.store) is None and not stopped() and time.monotonic() < ends:
            if all_ready(self.store, wanted):
                return
            time.sleep(WAIT_S)

    def _place(self, task: Task) -> tuple[int, int]:
        """Where a source's task stands among all tasks of all sources, and how many there are."""
        sources = [t.name for t in self.tasks if t.kind == "source"]
        return sources.index(task.name), len(sources)

    def _sink(self, task: Task, timeline: Timeline) -> SinkReplica:
        node = self.graph.nodes[task.pe]
        assert isinstance(node, Sink)
        return SinkReplica(
            task,
            self.job.contract_of(task.pe),
            inbox=self._inbox(task),
            out=self.out,
            checkpoints=self.checkpoints,
            timeline=timeline,
            tell=self._tell,
            writer=self._writer(node),
            checkpointed=lambda epoch: self._trim(task, epoch),
            clock=time.time,
        )

    def _writer(self, sink: Sink) -> Writer | None:
        write = sink.writer
        if write is None:
            return None

        def call(rows: pa.Table, epoch: int, quality: str) -> None:
            try:
                write(to_frame(self._spark, rows), epoch, quality)
            except (Exception, SystemExit) as error:
                raise HoldfastError(
                    f"the writer of sink '{sink.name}' ({sink.origin}) raised {type(error).__name__} in epoch {epoch}: {error}"
                ) from error

        return call

    def _open_trace(self) -> tuple[dict[str, DataFrame], list[Span]]:
        """The trace, opened once for all sources of this job on this node."""
        with self._lock:
            if self._trace is None:
                assert self.job.feed.trace is not None
                names = [source.name for source in self.graph.sources]
                columns = read_columns(Path(self.job.feed.columns) if self.job.feed.columns else None, names)
                folder = self._scratch / f"trace-{self._number}"
                folder.mkdir(parents=True, exist_ok=True)
                frames = open_trace(self._spark, self.graph, self.job.feed.trace, columns=columns, scratch=folder)
                self._trace = frames, list(trace_spans(frames, self.app.epoch_s))
            return self._trace

    def _inbox(self, task: Task) -> InputReader:
        stores = [self._store_of(reading) for reading in task.reads]
        schemas = {name: arrow_schema(schema) for name, schema in self.schemas.items()}
        return InputReader(task.reads, stores, schemas)

    def _outbox(self, task: Task, timeline: Timeline, assigned: AssignedReplica) -> OutputWriter:
        producer = f"{task.name}.{assigned.replica} on {self._node}"
        return OutputWriter(self.store, task.task, producer, timeline, self._tell)

    def _store_of(self, reading: Reading) -> Store:
        if reading.job is None:
            return self.store
        if reading.job not in self._logs:
            raise HoldfastError(f"job '{self.job.job}' reads stream '{reading.stream}' of job '{reading.job}', which is not there")
        return Store(self._logs[reading.job])

    def _awaited_timeline(self, stopped: Callable[[], bool]) -> Timeline | None:
        while (timeline := self._timeline()) is None and not stopped():
            time.sleep(WAIT_S)
        return timeline

    def _timeline(self) -> Timeline | None:
        """When this job's epochs begin and end, once its first source has begun or the jobs that feed it have."""
        return join_timelines(self.store, self.job.job, self._foreign) if self._foreign else read_timeline(self.store)

    def _trim(self, task: Task, epoch: int) -> None:
        """Forget the inputs that everyone has a checkpoint past; the checkpoint has just been moved there by this task."""
        for stream in task.makes:
            self._trimmer.trim_unread(stream, task.task)
        for reading in task.reads:
            for number in reading.tasks:
                if reading.job is None:
                    self._trimmer.trim(reading.stream, number)
                else:
                    save_reader_position(
                        self._store_of(reading), reader_name(self.job.job, task), stream=reading.stream, task=number, epoch=epoch
                    )
