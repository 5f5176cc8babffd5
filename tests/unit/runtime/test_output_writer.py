"""The output writer: whose record counts, how replicas are compared, and which row files stay."""

import pyarrow as pa
from obstore.store import MemoryStore

from holdfast.log import EpochLog, Quality, Store
from holdfast.log.row_files import read_record_rows
from holdfast.log.timeline import Timeline
from holdfast.runtime.output_writer import OutputWriter

from .pe_cluster import Cluster, HashChain

ROWS = pa.table({"seq": [1, 2], "price": [1.5, 2.5]})


class LosingAnswers(Store):
    """An object store whose answers are lost: on the second attempt it reports the new object as existing."""

    def create(self, name, content):
        super().create(name, content)
        return False


def test_commit_without_an_answer_keeps_its_rows_and_is_emitted():
    store, events = LosingAnswers(MemoryStore()), []
    timeline = Timeline(0, None, 1.0, opened_s=0.0)
    writer = OutputWriter(store, 0, "vwap/0.0 on n1", timeline, lambda kind, about: events.append((kind, about["as"])))
    record = writer.publish("vwap", 3, rows=ROWS, quality=Quality.EXACT)
    assert record is not None
    assert record == EpochLog(store).final("vwap", 0, epoch=3)
    assert [table.to_pydict() for table in read_record_rows(store, record)] == [ROWS.to_pydict()]
    assert events == [("commit", "first")]


def test_quiet_secondary_writes_only_if_the_primary_is_late():
    cluster = Cluster(counts={"a": 2})
    primary, secondary = cluster.replicas[:2]
    secondary.output.patience_s = 0.05
    cluster.produce()
    assert primary.step() and secondary.step()
    primary.output.producer, secondary.output.producer = "primary", "secondary"
    cluster.produce()
    assert primary.step() and secondary.step()
    assert cluster.log.first("a", 0, epoch=1).producer == "primary"
    assert secondary.output.waited_s == 0
    cluster.produce()
    assert secondary.step()
    assert cluster.log.first("a", 0, epoch=2).producer == "secondary"
    assert secondary.output.waited_s >= 0.05
    assert len(list(cluster.store.names("data/a/"))) == 3


def test_different_exact_rows_are_emitted_as_divergence_with_both_producers():
    class WrongCompute(HashChain):
        def run(self, new, position, span):
            output, kept = super().run(new, position, span)
            return {name: rows.set_column(2, "value", pa.array([1] * rows.num_rows)) for name, rows in output.items()}, kept

    cluster = Cluster(counts={"a": 2})
    cluster.replicas[1]._compute._compute = WrongCompute("a")
    cluster.replicas[1].output.producer = "other"
    cluster.produce()
    cluster.replicas[0].step()
    cluster.replicas[1].step()
    (event,) = cluster.emitted("divergence")
    assert (event["held_by"], event["made_by"], event["seq"]) == ("a", "other", 1)
