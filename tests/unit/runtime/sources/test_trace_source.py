"""A trace as a source, without Spark: what it commits, and that it outlasts a log that is away."""

import pyarrow as pa
import pytest
from obstore.store import MemoryStore

from holdfast.documents.job import Contract, Task
from holdfast.engine.epochs import Span
from holdfast.errors import LogError
from holdfast.log import EpochLog, Store
from holdfast.log.checkpoints import Checkpoints
from holdfast.log.row_files import read_rows
from holdfast.log.timeline import Timeline
from holdfast.runtime.output_writer import OutputWriter
from holdfast.runtime.sources.trace_source import TraceReadAhead, TraceSource

TASK = Task(pe="orders", kind="source", makes=("orders",))
SPANS = [Span(epoch, epoch, 2 * (epoch - 5), 2 * (epoch - 4)) for epoch in range(5, 9)]
TIMELINE = Timeline(5, 8, epoch_s=1.0, opened_s=0.0)


class Failing(Store):
    """A store in which, while it is away, nothing can be created below a folder."""

    away: str | None = None

    def create(self, name, content):
        if self.away is not None and name.startswith(self.away):
            raise LogError("the log at 'x' cannot be written: No space left on device")
        return super().create(name, content)


def fetch(span):
    seqs = list(range(span.after + 1, span.until + 1))
    return pa.table({"seq": seqs, "epoch": [5 + (seq - 1) // 2 for seq in seqs]})


def source(store, *, clock=lambda: 100.0):
    outbox = OutputWriter(store, 0, "orders/0.0 on n1", TIMELINE, lambda kind, about: None)
    made = {"outbox": outbox, "checkpoints": Checkpoints(store), "timeline": TIMELINE, "clock": clock}
    return TraceSource(TASK, Contract(checkpoint_epochs=2), ahead=TraceReadAhead(fetch, SPANS), **made)


def committed(store):
    records = [EpochLog(store).first("orders", 0, epoch=epoch) for epoch in range(5, 9)]
    return [seq for record in records if record for file in record.files for seq in read_rows(store, file)["seq"].to_pylist()]


@pytest.mark.parametrize("away", ["data/", "records/"])
def test_an_epoch_that_the_log_could_not_take_is_offered_again(away):
    store = Failing(MemoryStore())
    worker = source(store)
    assert worker.step()
    store.away = away
    for _ in range(3):
        with pytest.raises(LogError):
            worker.step()
    store.away = None
    while worker.step():
        pass
    assert worker.finished
    assert committed(store) == [1, 2, 3, 4, 5, 6, 7, 8]


def test_an_epoch_is_committed_when_it_is_over_and_not_before():
    now = [1.5]
    worker = source(Store(MemoryStore()), clock=lambda: now[0])
    assert [worker.step(), worker.step(), worker.clean.epoch] == [True, False, 5]
    now[0] = 3.0
    assert [worker.step(), worker.step(), worker.step(), worker.clean.epoch] == [True, True, False, 7]


def test_a_source_that_was_killed_goes_on_behind_its_last_exact_record():
    store = Store(MemoryStore())
    worker = source(store)
    worker.step()
    again = source(store)
    while again.step():
        pass
    assert committed(store) == [1, 2, 3, 4, 5, 6, 7, 8]
