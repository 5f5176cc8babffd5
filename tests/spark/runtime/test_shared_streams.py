"""A job on Spark that reads another job's stream: its output equals that of one plan over both applications."""

from pathlib import Path

import pytest

from holdfast.control.jobs.dataflow import Graph
from holdfast.documents.job import Contract, Feed, Job
from holdfast.engine.epochs import ByTime, with_epochs
from holdfast.engine.row_comparison import first_difference
from holdfast.engine.trace_reader import open_trace
from holdfast.engine.whole_trace import build_whole_trace
from holdfast.errors import HoldfastError
from holdfast.job_layout import layout_of
from holdfast.log import EpochLog
from holdfast.log.output_files import read_output
from holdfast.log.timeline import read_timeline
from holdfast.protocol.messages import AssignedReplica
from holdfast.runtime.replica_factory import ReplicaFactory
from holdfast.trace import write_market

EXAMPLES = Path(__file__).parents[3] / "examples"

READER = """
from pyspark.sql import functions as F

from holdfast import App, last_epochs

app = App("busy-tickers")
averages = app.source("averages", "{schema}", key="ticker")


@app.operator(inputs=averages, keep=last_epochs(2), key="ticker")
def counts(averages):
    spread = averages.select("seq", "ticker", F.explode(F.expr("sequence(epoch, epoch + 2)")).alias("epoch"))
    return spread.groupBy("epoch", "ticker").agg(F.max("seq").alias("seq"), F.count("*").alias("n"))


app.sink("busy", counts)
"""


def factory_of(spark, tmp_path, job, number, **settings):
    layout = layout_of(job)
    factory = ReplicaFactory(
        spark,
        number,
        {**layout.settings, **settings},
        node="n",
        emit=lambda kind, about: None,
        scratch=tmp_path / f"scratch-{number}",
    )
    factory._await_readers = lambda is_stopping: None
    return factory, layout.tasks


def create_replicas(factory, tasks, number):
    return [factory.create(AssignedReplica(job=number, pe=t.pe, task=t.task, replica=0), lambda: False)[0] for t in tasks]


@pytest.fixture
def market(spark, tmp_path):
    trace = tmp_path / "market.parquet"
    write_market(trace, events=1500, seed=1, tickers=20, rate=150.0, peak=300.0)
    job = Job(
        job="market",
        application=str(EXAMPLES / "bargain_discovery.py"),
        feed=Feed(trace=str(trace), speed=1e9),
        log=str(tmp_path / "log"),
        out=str(tmp_path / "out"),
        contract=Contract(checkpoint_epochs=2),
    )
    return factory_of(spark, tmp_path, job, 1), trace


def reader(tmp_path, *, schema):
    (tmp_path / "reader.py").write_text(READER.format(schema=schema))
    return Job(
        job="reader",
        application=str(tmp_path / "reader.py"),
        streams={"averages": "market:vwap"},
        log=str(tmp_path / "reader-log"),
        out=str(tmp_path / "reader-out"),
        contract=Contract(checkpoint_epochs=2),
        share=True,
    )


def settle(replicas):
    while not all(replica.finished for replica in replicas):
        assert sum(replica.step() for replica in replicas), "no replica can advance, but not all have finished"


def assert_equals_one_plan(spark, producer, second, trace, job):
    timeline = read_timeline(second.store)
    epochs = timeline.first, timeline.last
    events = with_epochs(open_trace(spark, producer.graph, str(trace)), ByTime(timeline.epoch_s))
    averages = build_whole_trace(producer.graph, events, epochs=epochs)["vwap"].join(events["market"].select("seq", "epoch"), "seq")
    whole = build_whole_trace(second.graph, {"averages": averages}, epochs=epochs)["counts"].toArrow()
    busy = read_output(job.out, "busy")
    assert busy.num_rows > 20
    assert first_difference(whole, busy.select(whole.column_names).cast(whole.schema)) is None


def test_shared_stream_outlives_its_job(spark, tmp_path, market):
    (producer, tasks), trace = market
    market_replicas = create_replicas(producer, tasks, 1)
    job = reader(tmp_path, schema="seq long, ticker string, vwap double")
    own = layout_of(job)
    graph = Graph()
    graph.add(1, layout_of(producer.job), {})
    layout, refs = graph.with_shared(own, {"market": 1})
    graph.add(2, layout, refs)
    second, second_tasks = factory_of(spark, tmp_path, job, 2, logs={"market": producer.job.log})
    assert [task.kind for task in second_tasks] == ["operators", "sink"]
    readers = create_replicas(second, second_tasks, 2)
    for _ in range(3):
        for replica in (*market_replicas, *readers):
            replica.step()
    assert not any(replica.finished for replica in market_replicas)
    graph.remove(1)  # as if it were cancelled
    remaining = [task.name for owner, task in graph.uses(2) if owner == 1]
    assert remaining == ["aggregator/0", "market/0", "trade_filter/0", "trade_quote/0", "vwap/0"]
    producer.set_remaining_tasks(remaining)
    settle([*(replica for replica, task in zip(market_replicas, tasks, strict=True) if task.name in remaining), *readers])
    assert_equals_one_plan(spark, producer, second, trace, job)
    oldest = EpochLog(producer.store).oldest_epoch("vwap", 0)
    assert oldest is not None and oldest > read_timeline(producer.store).first


def test_missing_column_of_a_shared_stream_is_reported(spark, tmp_path, market):
    (producer, tasks), _ = market
    first = create_replicas(producer, tasks, 1)
    job = reader(tmp_path, schema="seq long, ticker string, price double")
    second, second_tasks = factory_of(spark, tmp_path, job, 2, logs={"market": producer.job.log})
    with pytest.raises(HoldfastError, match="source 'averages' declares column 'price', which stream 'market:vwap' does not have"):
        settle([*first, *create_replicas(second, second_tasks, 2)])
