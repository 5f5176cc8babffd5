"""Trace sources, without Spark: what they commit, when, and after failures of the log."""

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
from holdfast.runtime.replica import ReplicaContext
from holdfast.runtime.sources.trace_source import TraceReadAhead, TraceSource

TASK = Task(pe="orders", kind="source", makes=("orders",))
SPANS = [Span(epoch, epoch, 2 * (epoch - 5), 2 * (epoch - 4)) for epoch in range(5, 9)]
TIMELINE = Timeline(5, 8, epoch_s=1.0, opened_s=0.0)


class Failing(Store):
    """A store that cannot create objects below the folder `broken`."""

    broken: str | None = None

    def create(self, name, content):
        if self.broken is not None and name.startswith(self.broken):
            raise LogError("the log at 'x' cannot be written: No space left on device")
        return super().create(name, content)


def fetch(span):
    seqs = list(range(span.after + 1, span.until + 1))
    return pa.table({"seq": seqs, "epoch": [5 + (seq - 1) // 2 for seq in seqs]})


def trace_source(store, *, clock=lambda: 100.0):
    context = ReplicaContext(TASK, Contract(checkpoint_epochs=2), TIMELINE, Checkpoints(store))
    output = OutputWriter(store, 0, "orders/0.0 on n1", TIMELINE, lambda kind, about: None)
    return TraceSource(context, read_ahead=TraceReadAhead(fetch, SPANS), output=output, clock=clock)


def committed(store):
    records = [EpochLog(store).first("orders", 0, epoch=epoch) for epoch in range(5, 9)]
    return [seq for record in records if record for file in record.files for seq in read_rows(store, file)["seq"].to_pylist()]


@pytest.mark.parametrize("folder", ["data/", "records/"])
def test_epoch_is_committed_once_the_log_works_again(folder):
    store = Failing(MemoryStore())
    source = trace_source(store)
    assert source.step()
    store.broken = folder
    for _ in range(3):
        with pytest.raises(LogError):
            source.step()
    store.broken = None
    while source.step():
        pass
    assert source.finished
    assert committed(store) == [1, 2, 3, 4, 5, 6, 7, 8]


def test_epoch_is_committed_when_it_is_over():
    now = [1.5]
    source = trace_source(Store(MemoryStore()), clock=lambda: now[0])
    assert [source.step(), source.step(), source.clean_position.epoch] == [True, False, 5]
    now[0] = 3.0
    assert [source.step(), source.step(), source.step(), source.clean_position.epoch] == [True, True, False, 7]


def test_restarted_source_continues_after_its_last_exact_record():
    store = Store(MemoryStore())
    source = trace_source(store)
    source.step()
    again = trace_source(store)
    while again.step():
        pass
    assert committed(store) == [1, 2, 3, 4, 5, 6, 7, 8]
