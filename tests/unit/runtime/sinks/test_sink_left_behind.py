"""A replica of a sink that stood still while another went on, checkpointed, and let the log be trimmed."""

import pyarrow as pa
from obstore.store import MemoryStore

from holdfast.documents.job import Contract, Reading, Task
from holdfast.log import EpochLog, Quality, Store
from holdfast.log.checkpoints import Checkpoints
from holdfast.log.timeline import Timeline
from holdfast.runtime.input_reader import InputReader
from holdfast.runtime.output_writer import OutputWriter
from holdfast.runtime.sinks.sink_replica import SinkReplica

TIMELINE = Timeline(first=0, last=None, epoch_s=1.0, opened_s=0.0)
SCHEMA = pa.schema({"seq": pa.int64()})
TASK = Task(pe="out", kind="sink", reads=(Reading(stream="a"),))


class Fed:
    def __init__(self):
        self.store, self.out, self.now_s = Store(MemoryStore()), Store(MemoryStore()), 100.0
        self.log, self.checkpoints = EpochLog(self.store), Checkpoints(self.store)
        self.made = OutputWriter(self.store, 0, "a", TIMELINE, lambda kind, about: None)

    def sink(self, *, saves_every=5):
        return SinkReplica(
            TASK,
            Contract(checkpoint_epochs=saves_every),
            inbox=InputReader(TASK.reads, [self.store], {"a": SCHEMA}),
            out=self.out,
            checkpoints=self.checkpoints,
            timeline=TIMELINE,
            tell=lambda kind, about: None,
            clock=lambda: self.now_s,
        )

    def commit(self, epoch, quality=Quality.EXACT):
        rows = pa.table({"seq": [epoch]}) if quality is Quality.EXACT else SCHEMA.empty_table()
        self.made.publish("a", epoch, rows=rows, quality=quality)

    def trim(self, until):
        self.store.remove(self.log.trim("a", 0, after=-1, until=until))


def settle(sink):
    while sink.step():
        pass


def test_it_goes_on_from_the_newest_checkpoint():
    fed = Fed()
    ahead, stopped = fed.sink(), fed.sink(saves_every=50)
    for epoch in range(10):
        fed.commit(epoch)
    settle(ahead)
    fed.trim(9)
    settle(stopped)
    assert stopped.clean.epoch == stopped.live.epoch == 9
    fed.commit(10)
    assert stopped.step() and stopped.live.epoch == 10


def test_rows_that_are_trimmed_while_it_reads_them_are_not_missed():
    fed = Fed()
    ahead, stopped = fed.sink(), fed.sink(saves_every=50)
    for epoch in range(5):
        fed.commit(epoch)
    firsts = stopped._inbox.firsts

    def slow(epoch):
        found = firsts(epoch)
        settle(ahead)
        fed.trim(4)
        return found

    stopped._inbox.firsts = slow
    assert stopped.step() and stopped.live.epoch == 4


def test_a_correction_that_another_replica_has_written_is_not_waited_for():
    fed = Fed()
    ahead, stopped = fed.sink(), fed.sink(saves_every=50)
    for epoch in range(10):
        fed.commit(epoch, Quality.ABSENT if epoch in (3, 8) else Quality.EXACT)
    settle(stopped)
    assert (stopped.live.epoch, stopped.clean.epoch) == (9, 2)
    fed.commit(3)
    settle(ahead)
    ahead.save()
    fed.trim(7)
    fed.now_s += 2
    assert stopped.step() and (stopped.live.epoch, stopped.clean.epoch) == (9, 7)
    fed.commit(8)
    assert stopped.step() and stopped.clean.epoch == 9
