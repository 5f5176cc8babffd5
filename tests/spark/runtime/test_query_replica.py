"""A replica of a query on the real log: what its forks compute, and what another replica continues with."""

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from holdfast.app import App
from holdfast.documents.job import Contract, Reading, Task
from holdfast.engine.analysis import analyse
from holdfast.engine.query.query_run import QueryRun
from holdfast.engine.schema import arrow_schema
from holdfast.log import EpochLog, Quality, Store
from holdfast.log.checkpoints import Checkpoints
from holdfast.log.row_files import read_record_rows
from holdfast.log.timeline import Timeline
from holdfast.runtime.input_reader import InputReader
from holdfast.runtime.output_writer import OutputWriter
from holdfast.runtime.pe_replica import PeReplica
from holdfast.runtime.query_checkpoints import QueryCheckpoints
from holdfast.runtime.query_compute import QueryCompute
from holdfast.runtime.replica import ReplicaContext

EPOCHS = 8
TIMELINE = Timeline(first=100, last=100 + EPOCHS - 1, epoch_s=1.0, opened_s=0.0)
TASK = Task(pe="sums", operators=("sums",), reads=(Reading(stream="events"),), makes=("sums",))


def sums(events):
    window = F.window("time", "2 seconds", "1 second")
    return events.withWatermark("time", "1 second").groupBy(window, "key").agg(F.sum("value").alias("value"))


class QueryCluster:
    """Replicas of a query on one log, stepped by hand. Each replica has a folder of its own, as on its own node."""

    def __init__(self, spark, folder, *, contract=None):
        app = App("queries")
        query = app.query(inputs=app.source("events", "seq long, time timestamp, key string, value long"))(sums)
        app.sink("out", query)
        self.spark, self.folder, self.query, self.schemas = spark, folder, query, analyse(app.graph(), spark)
        self.store = Store(folder / "log", sync=False)
        self.log, self.checkpoints = EpochLog(self.store), Checkpoints(self.store)
        self.contract = contract or Contract(checkpoint_epochs=3)
        self.source = self.output("source")
        self.nodes = 0

    def output(self, name):
        return OutputWriter(self.store, 0, name, TIMELINE, lambda kind, about: None)

    def replica(self):
        self.nodes += 1
        inputs = InputReader(TASK.reads, [self.store], {"events": arrow_schema(self.schemas["events"])})
        compute = QueryCompute(
            lambda folder: QueryRun(self.spark, self.query, self.schemas, folder),
            self.folder / f"node-{self.nodes}",
            inputs=inputs,
            checkpoints=QueryCheckpoints(self.store, TASK.name, self.checkpoints),
            stream="sums",
            has_forks=self.contract.correction,
            first_epoch=TIMELINE.first,
        )
        context = ReplicaContext(TASK, self.contract, TIMELINE, self.checkpoints)
        return PeReplica(context, inputs=inputs, output=self.output(f"replica {self.nodes}"), compute=compute, ascending=False)

    def produce(self, epoch, quality=Quality.EXACT):
        rows = self.rows(epoch) if quality is Quality.EXACT else arrow_schema(self.schemas["events"]).empty_table()
        self.source.publish("events", TIMELINE.first + epoch, rows=rows, quality=quality)

    def rows(self, epoch):
        us = [(epoch * 1_000 + number * 150 - (700 if number == 5 else 0)) * 1_000 for number in range(6)]
        columns = [range(epoch * 6 + 1, epoch * 6 + 7), us, ["a", "b"] * 3, range(epoch, epoch + 6), [TIMELINE.first + epoch] * 6]
        schema = arrow_schema(self.schemas["events"])
        return pa.table([pa.array(list(part), field.type) for part, field in zip(columns, schema, strict=True)], schema=schema)

    def result(self, look_up):
        records = [look_up("sums", 0, epoch=TIMELINE.first + epoch) for epoch in range(EPOCHS)]
        rows = [[row for part in read_record_rows(self.store, r) for row in part.to_pylist()] if r else None for r in records]
        return [record and record.quality for record in records], rows


def settle(replica):
    while replica.step():
        pass


@pytest.fixture(scope="module")
def golden(spark, tmp_path_factory):
    cluster = QueryCluster(spark, tmp_path_factory.mktemp("golden"))
    replica = cluster.replica()
    for epoch in range(EPOCHS):
        cluster.produce(epoch)
    settle(replica)
    replica.close()
    qualities, rows = cluster.result(cluster.log.final)
    assert set(qualities) == {Quality.EXACT}
    assert sum(map(len, rows)) > 5
    return rows


def test_fork_continues_without_an_epoch_and_is_dropped_after_the_correction(spark, tmp_path, golden):
    cluster = QueryCluster(spark, tmp_path)
    replica = cluster.replica()
    for epoch in range(3):
        cluster.produce(epoch)
    settle(replica)
    cluster.produce(3, Quality.ABSENT)
    cluster.produce(4)
    cluster.produce(5)
    settle(replica)
    qualities, rows = cluster.result(cluster.log.first)
    assert qualities == [Quality.EXACT] * 3 + [Quality.TENTATIVE] * 3 + [None] * 2
    assert rows[:3] == golden[:3] and rows[5] != golden[5]
    assert (replica.clean_position.epoch, replica.live_position.epoch) == (102, 105)
    cluster.produce(3)  # the source is back
    cluster.produce(6)
    cluster.produce(7)
    settle(replica)
    assert cluster.result(cluster.log.final) == ([Quality.EXACT] * EPOCHS, golden)
    assert replica.finished and replica.quality is Quality.EXACT
    assert len([path for path in (tmp_path / "node-1").iterdir() if path.is_dir()]) == 1
    replica.close()
    assert not (tmp_path / "node-1").exists()


def test_another_node_continues_from_the_checkpoint_in_the_log(spark, tmp_path, golden):
    cluster = QueryCluster(spark, tmp_path)
    first = cluster.replica()
    for epoch in range(5):
        cluster.produce(epoch)
    settle(first)
    saved = cluster.checkpoints.latest_epoch(TASK.name)
    assert saved is not None and TIMELINE.first < saved <= 104
    first.close()  # its folder is lost
    for epoch in range(5, EPOCHS):
        cluster.produce(epoch)
    second = cluster.replica()
    assert second.clean_position.epoch == saved
    settle(second)
    assert cluster.result(cluster.log.final) == ([Quality.EXACT] * EPOCHS, golden)
    second.close()


def test_without_correction_one_query_reads_what_there_is(spark, tmp_path, golden):
    cluster = QueryCluster(spark, tmp_path, contract=Contract(checkpoint_epochs=3, correction=False))
    replica = cluster.replica()
    for epoch in range(EPOCHS):
        cluster.produce(epoch, Quality.ABSENT if epoch == 3 else Quality.EXACT)
    settle(replica)
    qualities, rows = cluster.result(cluster.log.newest)
    assert qualities == [Quality.EXACT] * 3 + [Quality.TENTATIVE] * 5
    assert rows[:3] == golden[:3] and rows != golden
    replica.close()
