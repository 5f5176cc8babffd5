"""A small cluster of real PE replicas on the real log, without Spark: a chain of hashes stands for each operator."""

import time
import zlib
from dataclasses import replace

import pyarrow as pa
from obstore.store import MemoryStore

from holdfast.documents.job import Contract, Reading, Task
from holdfast.engine.epochs import join_spans
from holdfast.engine.kept_rows import rows_of
from holdfast.log import EpochLog, Quality, Store
from holdfast.log.checkpoints import Checkpoints, kept_rows_folder
from holdfast.log.position import Position
from holdfast.log.row_files import read_rows, row_folder
from holdfast.log.stored_rows import load_rows, store_rows
from holdfast.log.timeline import Timeline
from holdfast.log.trimming import LogTrimmer
from holdfast.runtime.input_reader import InputReader
from holdfast.runtime.machine_time import MachineTime
from holdfast.runtime.output_writer import OutputWriter
from holdfast.runtime.pe_replica import PeReplica
from holdfast.runtime.replica import ReplicaContext
from holdfast.runtime.span_compute import DriverCompute, ExecutorCompute

EPOCHS = 12
GRAPH = {"a": ["src"], "b": ["src"], "c": ["a"], "d": ["b", "c"], "e": ["d"]}
SCHEMA = pa.schema({"seq": pa.int64(), "epoch": pa.int64(), "value": pa.int64()})
TIMELINE = Timeline(first=0, last=EPOCHS - 1, epoch_s=1.0, opened_s=0.0)


class HashChain:
    """A stateful operator without Spark: its output and its state depend on all rows that it has read."""

    def __init__(self, name):
        self.name = name

    def run(self, new, position, span):
        state = position.kept_rows["state"]["value"][0].as_py() if position.kept_rows else 0
        rows = []
        for epoch in range(span.first, span.last + 1):
            for stream in sorted(new):
                for row in new[stream].to_pylist():
                    if row["epoch"] == epoch:
                        state = zlib.crc32(f"{state} {self.name} {stream} {row['value']}".encode())
            rows.append({"seq": epoch + 1, "epoch": epoch, "value": state})
        return {self.name: pa.Table.from_pylist(rows, SCHEMA)}, {"state": pa.table({"value": [state]})}


class ExecutorHashChain(HashChain):
    """The same operator on rows in files: it reads them, and stores its output and its state."""

    def __init__(self, name, store):
        super().__init__(name)
        self.store = store

    def run_stored(self, new, position, spans):
        tables = {
            stream: pa.concat_tables([SCHEMA.empty_table(), *(read_rows(self.store, file.name) for file in rows.files)])
            for stream, rows in new.items()
        }
        kept_rows = {label: load_rows(self.store, rows) for label, rows in position.kept_rows.items()}
        output, kept_after = self.run(tables, replace(position, kept_rows=kept_rows), join_spans(spans))
        parts = [store_rows(self.store, rows_of(output[self.name], span), folder=row_folder(self.name, 0)) for span in spans]
        folder = kept_rows_folder(f"{self.name}/0", spans[-1].last)
        return {self.name: parts}, {label: store_rows(self.store, rows, folder=folder) for label, rows in kept_after.items()}


def task(name):
    return Task(pe=name, reads=tuple(Reading(stream=s) for s in GRAPH[name]), makes=(name,))


def source_rows(epoch):
    return pa.Table.from_pylist([{"seq": epoch + 1, "epoch": epoch, "value": epoch * 7 + 1}], SCHEMA)


class Cluster:
    """One or more replicas of each task of GRAPH on one log, stepped by hand. `events` collects what they emit."""

    def __init__(self, *, counts=None, contract=None, compute=HashChain, executors=False):
        self.store = Store(MemoryStore())
        self.log, self.checkpoints, self.events = EpochLog(self.store), Checkpoints(self.store), []
        self.executors = executors
        self.contract, self.compute = contract or Contract(checkpoint_epochs=10_000), compute
        self.source = self.output("src")
        tasks = [Task(pe="src", kind="source", makes=("src",)), *map(task, GRAPH)]
        self.trimmer = LogTrimmer(self.store, tasks, self.checkpoints)
        self.replicas = [self.replica(name) for name in GRAPH for _ in range((counts or {}).get(name, 1))]
        self.produced = 0

    def output(self, name, clock=time.monotonic):
        time_ = MachineTime(wall_s=lambda: 0.0, elapsed_s=clock)
        return OutputWriter(self.store, 0, name, TIMELINE, lambda kind, about: self.events.append((kind, about)), time=time_)

    def replica(self, name, clock=time.monotonic, **options):
        context = ReplicaContext(task(name), options.pop("contract", self.contract), TIMELINE, self.checkpoints)
        inputs = InputReader(task(name).reads, [self.store] * len(GRAPH[name]), dict.fromkeys(["src", *GRAPH], SCHEMA))
        if self.executors:
            compute = ExecutorCompute(inputs, ExecutorHashChain(name, self.store), self.store)
        else:
            compute = DriverCompute(inputs, self.compute(name), self.store)
        return PeReplica(context, inputs=inputs, output=self.output(name, clock), compute=compute, **options)

    def produce(self, epochs=1):
        for _ in range(epochs):
            self.source.publish("src", self.produced, rows=source_rows(self.produced), quality=Quality.EXACT)
            self.produced += 1

    def commit_absent(self, stream, epoch):
        self.output(stream).publish(stream, epoch, rows=SCHEMA.empty_table(), quality=Quality.ABSENT)

    def settle(self):
        while sum(replica.step() for replica in self.replicas):
            pass

    def trim_until(self, epoch):
        """Trim all streams as if every task had a checkpoint at an epoch."""
        for name in ["src", *GRAPH]:
            self.checkpoints.save(f"{name}/0", Position(epoch))
        for name in ["src", *GRAPH]:
            self.trimmer.trim(name, 0)

    def emitted(self, kind):
        return [about for event, about in self.events if event == kind]

    def final_checksums(self, stream):
        records = [self.log.final(stream, 0, epoch=epoch) for epoch in range(EPOCHS)]
        return [record and record.checksum for record in records]


def _checksums_without_faults():
    cluster = Cluster()
    cluster.produce(EPOCHS)
    cluster.settle()
    return {name: cluster.final_checksums(name) for name in GRAPH}


GOLDEN = _checksums_without_faults()
