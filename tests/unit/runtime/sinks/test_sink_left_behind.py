"""Sink replicas that fall behind while another replica continues, saves a checkpoint and the log is trimmed."""

import pyarrow as pa
from obstore.store import MemoryStore

from holdfast.documents.job import Contract, Reading, Task
from holdfast.log import EpochLog, Quality, Store
from holdfast.log.checkpoints import Checkpoints
from holdfast.log.timeline import Timeline
from holdfast.runtime.input_reader import InputReader
from holdfast.runtime.output_writer import OutputWriter
from holdfast.runtime.replica import ReplicaContext
from holdfast.runtime.sinks.sink_replica import SinkReplica

TIMELINE = Timeline(first=0, last=None, epoch_s=1.0, opened_s=0.0)
SCHEMA = pa.schema({"seq": pa.int64()})
TASK = Task(pe="out", kind="sink", reads=(Reading(stream="a"),))


class Stage:
    """A log with one stream that sink replicas read."""

    def __init__(self):
        self.store, self.out, self.now_s = Store(MemoryStore()), Store(MemoryStore()), 100.0
        self.log, self.checkpoints = EpochLog(self.store), Checkpoints(self.store)
        self.stream = OutputWriter(self.store, 0, "a", TIMELINE, lambda kind, about: None)

    def sink(self, *, checkpoint_epochs=5):
        return SinkReplica(
            ReplicaContext(TASK, Contract(checkpoint_epochs=checkpoint_epochs), TIMELINE, self.checkpoints),
            inputs=InputReader(TASK.reads, [self.store], {"a": SCHEMA}),
            out=self.out,
            emit=lambda kind, about: None,
            clock=lambda: self.now_s,
        )

    def commit(self, epoch, quality=Quality.EXACT):
        rows = pa.table({"seq": [epoch]}) if quality is Quality.EXACT else SCHEMA.empty_table()
        self.stream.publish("a", epoch, rows=rows, quality=quality)

    def trim(self, until):
        self.store.remove(self.log.trim("a", 0, after=-1, until=until))


def settle(sink):
    while sink.step():
        pass


def test_stopped_sink_continues_from_the_newest_checkpoint():
    stage = Stage()
    ahead, stopped = stage.sink(), stage.sink(checkpoint_epochs=50)
    for epoch in range(10):
        stage.commit(epoch)
    settle(ahead)
    stage.trim(9)
    settle(stopped)
    assert stopped.clean_position.epoch == stopped.live_position.epoch == 9
    stage.commit(10)
    assert stopped.step() and stopped.live_position.epoch == 10


def test_sink_skips_rows_that_are_trimmed_while_it_reads_them():
    stage = Stage()
    ahead, stopped = stage.sink(), stage.sink(checkpoint_epochs=50)
    for epoch in range(5):
        stage.commit(epoch)
    first_records = stopped._inputs.first_records

    def slow_first_records(epoch):
        records = first_records(epoch)
        settle(ahead)
        stage.trim(4)
        return records

    stopped._inputs.first_records = slow_first_records
    assert stopped.step() and stopped.live_position.epoch == 4


def test_sink_does_not_wait_for_corrections_that_another_wrote():
    stage = Stage()
    ahead, stopped = stage.sink(), stage.sink(checkpoint_epochs=50)
    for epoch in range(10):
        stage.commit(epoch, Quality.ABSENT if epoch in (3, 8) else Quality.EXACT)
    settle(stopped)
    assert (stopped.live_position.epoch, stopped.clean_position.epoch) == (9, 2)
    stage.commit(3)
    settle(ahead)
    ahead.save()
    stage.trim(7)
    stage.now_s += 2
    assert stopped.step() and (stopped.live_position.epoch, stopped.clean_position.epoch) == (9, 7)
    stage.commit(8)
    assert stopped.step() and stopped.clean_position.epoch == 9
