"""The second law on real replicas of queries and the real log, without Spark: a query whose state is a chain of hashes."""

import random
import tempfile
import zlib
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.documents.job import Contract, Task
from holdfast.engine.query.query_folder import committed_batch, drop_plan, fork
from holdfast.errors import OperatorError
from holdfast.log import EpochLog, Store
from holdfast.log.checkpoints import Checkpoints
from holdfast.log.row_files import read_rows
from holdfast.log.trimming import LogTrimmer
from holdfast.runtime.input_reader import InputReader
from holdfast.runtime.pe_replica import PeReplica
from holdfast.runtime.query_checkpoints import QueryCheckpoints
from holdfast.runtime.query_compute import QueryCompute
from holdfast.runtime.replica import ReplicaContext

from .pe_cluster import EPOCHS, GRAPH, SCHEMA, TIMELINE, Cluster, task
from .test_second_law import play, require_second_law

FAILURES = 0.04
STATE_FILES = 4


class HashQuery:
    """Stands for a QueryRun: its checkpoint has the layout of Spark's. A batch fails with the given probability."""

    def __init__(self, store, folder, rng, *, failures):
        self.store, self.checkpoint, self.rng, self.failures = store, folder / "checkpoint", rng, failures
        for name in ("offsets", "state", "commits"):
            (self.checkpoint / name).mkdir(parents=True, exist_ok=True)
        self.batch = committed_batch(self.checkpoint)
        self.folder = folder

    def process(self, batches):
        drop_plan(self.checkpoint, after=self.batch)
        for inputs in batches:
            number = self.batch + 1
            (self.checkpoint / "offsets" / str(number)).write_text("")
            if self.rng.random() < self.failures:
                raise OperatorError("unlucky")
            before = self.checkpoint / "state" / str(self.batch)
            state = before.read_text() if number else "0"
            for stream, part in sorted(inputs.items()):
                values = [row["value"] for file in part.files for row in read_rows(self.store, file.name).to_pylist()]
                state = str(zlib.crc32(f"{state} {stream} {sorted(values)}".encode()))
            (self.checkpoint / "state" / str(number)).write_text(state)
            (self.checkpoint / "commits" / str(number)).write_text("")
            for name in ("offsets", "state", "commits"):
                (self.checkpoint / name / str(number - STATE_FILES)).unlink(missing_ok=True)
            self.batch = number
            yield pa.table({"value": pa.array([int(state)], pa.int64())})

    def fork(self, folder):
        fork(self.checkpoint, folder / "checkpoint", batch=self.batch)
        return HashQuery(self.store, folder, self.rng, failures=self.failures)

    def remove(self):
        pass


class QueryCluster(Cluster):
    """A cluster whose tasks are queries. Each replica has a folder of its own, and so starts from the log alone."""

    def __init__(self, folder, rng, *, failures=0.0, counts=None):
        self.folder, self.rng, self.failures, self.started = folder, rng, failures, 0
        super().__init__(contract=Contract(checkpoint_epochs=3, retries=1000))
        self.store = Store(folder / "log", sync=False)
        self.log, self.checkpoints = EpochLog(self.store), Checkpoints(self.store)
        self.source = self.output("src")
        tasks = [Task(pe="src", kind="source", makes=("src",)), *map(task, GRAPH)]
        self.trimmer = LogTrimmer(self.store, tasks, self.checkpoints)
        self.replicas = [self.replica(name) for name in GRAPH for _ in range((counts or {}).get(name, 1))]

    def replica(self, name, **options):
        self.started += 1
        inputs = InputReader(task(name).reads, [self.store] * len(GRAPH[name]), dict.fromkeys(["src", *GRAPH], SCHEMA))
        compute = QueryCompute(
            lambda folder: HashQuery(self.store, folder, self.rng, failures=self.failures),
            self.folder / f"replica-{self.started}",
            inputs=inputs,
            checkpoints=QueryCheckpoints(self.store, f"{name}/0", self.checkpoints),
            stream=name,
            has_forks=True,
            first_epoch=0,
        )
        context = ReplicaContext(task(name), self.contract, TIMELINE, self.checkpoints)
        return PeReplica(context, inputs=inputs, output=self.output(name), compute=compute, ascending=False)


@pytest.fixture(scope="module")
def golden(tmp_path_factory):
    cluster = QueryCluster(tmp_path_factory.mktemp("golden"), random.Random(0))
    cluster.produce(EPOCHS)
    cluster.settle()
    return {name: cluster.final_checksums(name) for name in GRAPH}


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**9))
def test_final_records_of_queries_equal_the_golden_run_after_random_faults(golden, seed):
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        counts = {name: rng.choice([1, 1, 2, 3]) for name in GRAPH}
        cluster = QueryCluster(Path(folder), rng, failures=FAILURES, counts=counts)
        play(rng, cluster)
        require_second_law(cluster, golden)
