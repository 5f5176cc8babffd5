"""The second law on Spark: tasks die and restart in any order, with absent epochs, and the output equals that of one plan."""

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdfast import App
from holdfast.documents.job import Contract, Feed, Job, Task
from holdfast.engine.analysis import analyse
from holdfast.engine.connector.feeds import EpochFile
from holdfast.engine.epochs import Span
from holdfast.engine.row_comparison import first_difference
from holdfast.engine.stored_frame import StoredInput
from holdfast.engine.trace_reader import open_trace
from holdfast.errors import OperatorError, TraceError
from holdfast.job_layout import layout_of
from holdfast.log import EpochLog, Quality, Record, Store
from holdfast.log.output_files import read_output
from holdfast.log.position import Position
from holdfast.log.stored_rows import store_rows
from holdfast.log.timeline import read_timeline
from holdfast.protocol.messages import AssignedReplica
from holdfast.runtime.pe_compute import PeCompute
from holdfast.runtime.replica_factory import ReplicaFactory
from holdfast.runtime.sources.trace_source import trace_row_fetcher
from holdfast.trace import write_market
from holdfast.trial.second_law import differences

PARALLEL = """
from pyspark.sql import Window
from pyspark.sql import functions as F

from holdfast import App, last_epochs, last_rows

app = App("parallel")
orders = app.source("orders", "seq long, time timestamp, user int, shop int, amount double", key="user", parallelism=2)


@app.operator(inputs=orders, keep=last_rows(2, by="user"), key="user", parallelism=2)
def recent(orders):
    last = Window.partitionBy("user").orderBy("seq").rowsBetween(-2, 0)
    return orders.select("seq", "epoch", "user", "shop", F.sum("amount").over(last).alias("amount"))


@app.operator(inputs=recent, keep=last_epochs(2), key="shop", parallelism=3)
def totals(recent):
    spread = recent.select("seq", "shop", "amount", F.explode(F.expr("sequence(epoch, epoch + 2)")).alias("epoch"))
    return spread.groupBy("epoch", "shop").agg(F.max("seq").alias("seq"), F.sum("amount").alias("amount"))


@app.operator(inputs=recent, key="user", parallelism=4, partitioning="split")
def large(recent):
    return recent.where("amount > 5")


@app.operator(inputs=large, key="user", parallelism=2, partitioning="merge")
def users(large):
    return large.select("seq", "user")


app.sink("by_shop", totals)
app.sink("large_users", users)
"""


def write_orders(path):
    rng = random.Random(3)
    start = datetime(2026, 1, 1, tzinfo=UTC)
    rows = [
        {
            "seq": number + 1,
            "time": start + timedelta(seconds=number / 40),
            "user": rng.randrange(12),
            "shop": rng.randrange(5),
            "amount": rng.random() * 4,
        }
        for number in range(400)
    ]
    types = {"seq": pa.int64(), "time": pa.timestamp("us", "UTC"), "user": pa.int32(), "shop": pa.int32(), "amount": pa.float64()}
    pq.write_table(pa.Table.from_pylist(rows, pa.schema(types)), path)


EXAMPLES = Path(__file__).parents[3] / "examples"
TRACES = {
    "bargain_discovery": lambda path: write_market(path, events=1500, seed=1, tickers=20, rate=150.0, peak=300.0),
    "parallel": write_orders,
}


class SteppedJob:
    """A job whose replicas are stepped by hand, in an order that the test chooses."""

    def __init__(self, spark, name, tmp_path, *, rng, contract):
        self.rng, self.events = rng, []
        trace = tmp_path / "trace.parquet"
        TRACES[name](trace)
        application = EXAMPLES / f"{name}.py"
        if name == "parallel":
            application = tmp_path / "parallel.py"
            application.write_text(PARALLEL)
        self.job = Job(
            job=name,
            application=str(application),
            feed=Feed(trace=str(trace), speed=1e9),
            log=str(tmp_path / "log"),
            out=str(tmp_path / "out"),
            contract=contract,
        )
        layout = layout_of(self.job)
        self.tasks = layout.tasks
        self.factory = ReplicaFactory(
            spark,
            1,
            layout.settings,
            node="n",
            emit=lambda kind, about: self.events.append((kind, about)),
            scratch=tmp_path / "scratch",
        )
        self.factory._await_readers = lambda is_stopping: None
        self.replicas = {task.name: self.start(task) for task in self.tasks}
        self.timeline = read_timeline(self.factory.store)

    def start(self, task):
        return self.factory.create(AssignedReplica(job=1, pe=task.pe, task=task.task, replica=0), lambda: False)[0]

    def commit_absent(self, task):
        """Commit an absent record for the next epoch of a task, as the orchestrator does."""
        log = EpochLog(self.factory.store)
        for stream in task.makes:
            after = self.factory.checkpoints.latest_epoch(task.name) or self.timeline.first - 1
            epoch = log.last_epoch(stream, task.task, after=after) + 1
            if epoch <= self.timeline.last:
                log.offer(Record(stream, task.task, epoch, Quality.ABSENT, (), 0, None, None, "absent", "recovery manager"))

    def play(self, steps):
        alive = set(self.replicas)
        for _ in range(steps):
            task = self.rng.choice(self.tasks)
            act = self.rng.random()
            if act < 0.1 and task.makes:
                alive.discard(task.name)
                self.commit_absent(task)
            elif act < 0.2 and task.name not in alive:
                self.replicas[task.name] = self.start(task)
                alive.add(task.name)
            elif task.name in alive:
                self.replicas[task.name].step()
        for task in self.tasks:
            if task.name not in alive:
                self.replicas[task.name] = self.start(task)

    def settle(self):
        while not all(replica.finished for replica in self.replicas.values()):
            assert sum(replica.step() for replica in self.replicas.values()), "no replica can advance, but not all have finished"


@pytest.mark.parametrize(
    ("name", "executor_rows"),
    [
        ("bargain_discovery", 100_000),
        ("parallel", 100_000),
        ("bargain_discovery", 1),
        pytest.param("parallel", 1, marks=pytest.mark.long),
    ],
)
def test_newest_output_equals_one_plan_after_random_faults(spark, tmp_path, name, executor_rows):
    contract = Contract(checkpoint_epochs=3, catch_up_rows=400, executor_rows=executor_rows)
    job = SteppedJob(spark, name, tmp_path, rng=random.Random(7), contract=contract)
    job.play(60)
    source = job.tasks[0]
    logged = spark.read.parquet(f"{job.job.log}/data/{source.pe}/{source.task}")
    assert logged.schema.simpleString() == job.factory.schemas[source.pe].simpleString()
    assert logged.count() > 0
    job.settle()
    sources = open_trace(spark, job.factory.graph, job.job.feed.trace)
    difference_of = differences(spark, job.factory.app, sources, out=job.factory.out, timeline=job.timeline)
    assert set(difference_of.values()) == {None}
    assert not [about for kind, about in job.events if kind == "divergence"]
    sink = next(task.pe for task in job.tasks if task.kind == "sink")
    newest = read_output(job.job.out, sink).drop_columns("quality")
    assert newest.num_rows > 0
    by_spark = spark.read.parquet(f"{job.job.out}/{sink}").toArrow()  # as a reader without holdfast would
    assert first_difference(by_spark, newest) is None
    corrections = [about for kind, about in job.events if kind == "output" and about["as"] == "final"]
    assert corrections, "no epoch was corrected: the schedule tests nothing"


@pytest.mark.parametrize("executors", [False, True])
@pytest.mark.parametrize(
    ("seq", "text"),
    [
        ("if(x = 2, seq + 100, seq)", "produces a row with seq 104, but its input ends at seq 4; every row must"),
        ("if(x = 2, null, seq)", r"produces 1 of \d rows whose seq is null; every row must"),
    ],
)
def test_row_that_belongs_to_no_epoch_is_reported(spark, tmp_path, seq, text, executors):
    app = App("ahead")
    source = app.source("s", "seq long, x double")
    app.sink("out", app.operator(inputs=source, name="ahead")(lambda rows: rows.selectExpr(f"{seq} as seq", "x")))
    graph, store, task = app.graph(), Store(tmp_path), Task(pe="ahead", operators=("ahead",))
    compute = PeCompute(spark, graph, ["ahead"], analyse(graph, spark), name="ahead/0", store=store, task=task)
    rows = pa.table({"seq": [1, 2, 3, 4], "x": [0.0, 1.0, 1.0, 2.0], "epoch": [1, 1, 2, 2]})

    def process(rows, position, span):
        if not executors:
            output, _ = compute.run({"s": rows}, position, span)
            return output["ahead"].num_rows
        stored = store_rows(store, rows, folder="data/s/0")
        new = {"s": StoredInput(tuple(EpochFile(store.root, file, span.first, "exact") for file in stored.files))}
        output, _ = compute.run_stored(new, position, [span])
        return output["ahead"][0].num_rows

    assert process(rows.slice(0, 2), Position(0), Span(1, 1, 0, 2)) == 2
    with pytest.raises(OperatorError, match=r"^operator 'ahead' \(.*test_replica_factory.py:\d+\) " + text):
        process(rows.slice(2), Position(1, after=2), Span(2, 2, 2, 4))


def test_trace_deleted_during_replay_is_reported_in_one_line(spark, tmp_path):
    trace, task = tmp_path / "trace.parquet", Task(pe="orders", kind="source", makes=("orders",))
    write_orders(trace)
    fetch = trace_row_fetcher(spark.read.parquet(str(trace)), task, epoch_s=1.0, key=("user",), tasks=1)
    assert fetch(Span(0, 0, 0, 10)).num_rows == 10
    trace.unlink()
    with pytest.raises(TraceError, match=r"^the trace of source 'orders' cannot be read any more: .*trace\.parquet.*$") as raised:
        fetch(Span(0, 0, 10, 20))
    assert "\n" not in str(raised.value)


def test_spark_jobs_carry_the_pe_and_its_epochs(spark, jobs_of_group):
    app = App("named")
    app.sink("out", app.operator(inputs=app.source("s", "seq long, x double"), name="double")(lambda rows: rows.select("seq", "x")))
    graph, context = app.graph(), spark.sparkContext
    compute = PeCompute(spark, graph, ["double"], analyse(graph, spark), name="named: double/0")
    rows = pa.table({"seq": [1, 2], "x": [0.0, 1.0], "epoch": [3, 4]})
    descriptions = []
    try:
        for last in (3, 4):
            compute.run({"s": rows.slice(0, last - 2)}, Position(2), Span(3, last, 0, last - 2))
            descriptions.append(context.getLocalProperty("spark.job.description"))
    finally:
        for name in ("spark.jobGroup.id", "spark.job.description", "spark.scheduler.pool"):
            context.setLocalProperty(name, None)
    assert descriptions == ["named: double/0 epoch 3", "named: double/0 epochs 3 to 4"]
    assert len(jobs_of_group("named: double/0")) == 2
