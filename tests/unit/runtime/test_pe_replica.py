"""PE replicas: catch-up, tentative output and correction, failures of an operator, checkpoints and ranks."""

import pyarrow as pa
import pytest

from holdfast.documents.job import Contract, Reading, Task
from holdfast.errors import HoldfastError, OperatorError
from holdfast.log import Quality
from holdfast.log.checkpoints import Checkpoints
from holdfast.runtime.input_reader import InputReader

from .pe_cluster import EPOCHS, GOLDEN, SCHEMA, Cluster, HashChain, source_rows


def test_checkpoint_event_carries_its_duration_and_the_work_before():
    now = [0.0]

    class SlowCompute(HashChain):
        def run(self, new, position, span):
            now[0] += 2.0
            return super().run(new, position, span)

    class SlowCheckpoints(Checkpoints):
        def save(self, task, position):
            now[0] += 0.5
            super().save(task, position)

    cluster = Cluster(compute=SlowCompute)
    a = cluster.replica("a", contract=Contract(checkpoint_epochs=5), clock=lambda: now[0])
    a._checkpoints = SlowCheckpoints(cluster.store)
    a._after_checkpoint = lambda epoch: now.__setitem__(0, now[0] + 0.25)
    for _ in range(EPOCHS):
        cluster.produce()
        assert a.step()
    events = cluster.emitted("checkpoint")
    assert [(event["since"], event["epoch"], event["took_s"], event["worked_s"]) for event in events] == [
        (-1, 4, 0.75, 10.0),
        (4, 9, 0.75, 10.0),
        (9, 11, 0.75, 4.0),
    ]
    assert {(event["task"], event["producer"], event["rows"]) for event in events} == {("a/0", "a", 1)}


def test_waiting_for_another_replica_does_not_count_as_work():
    now = [0.0]
    cluster = Cluster()
    a = cluster.replicas[0]
    a._clock = lambda: now[0]
    publish = a.output.publish

    def publish_late(*arguments, **options):
        now[0] += 3.0
        a.output.waited_s += 2.5
        return publish(*arguments, **options)

    a.output.publish = publish_late
    cluster.produce()
    assert a.step()
    a.save()
    (event,) = cluster.emitted("checkpoint")
    assert event["worked_s"] == 0.5


def test_replica_processes_all_waiting_epochs_in_one_job():
    jobs = []

    class CountingCompute(HashChain):
        def run(self, new, position, span):
            jobs.append((self.name, span.last - span.first + 1))
            return super().run(new, position, span)

    cluster = Cluster(compute=CountingCompute)
    cluster.produce(EPOCHS)
    cluster.settle()
    assert jobs == [(name, EPOCHS) for name in "abcde"]


def test_catch_up_job_reads_at_most_catch_up_rows():
    cluster = Cluster(contract=Contract(catch_up_rows=5, checkpoint_epochs=100))
    cluster.produce(EPOCHS)
    a = cluster.replicas[0]
    assert a.step() and a.clean_position.epoch == 4
    assert a.step() and a.clean_position.epoch == 9


def test_absent_input_makes_output_tentative_downstream_until_corrected():
    cluster = Cluster()
    dead = cluster.replicas.pop(0)
    assert dead.task.pe == "a"
    cluster.produce()
    cluster.commit_absent("a", 0)
    cluster.settle()
    log = cluster.log
    assert [log.first(s, 0, epoch=0).quality.value for s in "abcde"] == ["absent", "exact", "tentative", "tentative", "tentative"]
    assert [log.final(s, 0, epoch=0) for s in "cde"] == [None] * 3
    cluster.replicas.append(cluster.replica("a"))
    cluster.settle()
    assert [log.final(s, 0, epoch=0).checksum for s in "abcde"] == [GOLDEN[s][0] for s in "abcde"]


def test_without_correction_no_epoch_is_repeated_and_output_stays_tentative():
    cluster = Cluster(contract=Contract(correction=False, checkpoint_epochs=1))
    dead = cluster.replicas.pop(0)
    cluster.produce()
    cluster.commit_absent("a", 0)
    cluster.settle()
    cluster.replicas.insert(0, cluster.replica(dead.task.pe))
    cluster.produce()
    cluster.settle()
    assert [cluster.log.first(s, 0, epoch=1).quality.value for s in "abe"] == ["tentative", "exact", "tentative"]
    assert cluster.log.final("c", 0, epoch=0) is None


def test_without_correction_a_failed_job_leaves_the_taint():
    class FailingOnce(HashChain):
        failed = False

        def run(self, new, position, span):
            if span.last > span.first and not self.failed:
                self.failed = True
                raise OperatorError("operator 'a' (app.py:7) raised ValueError: too much")
            return super().run(new, position, span)

    cluster = Cluster(contract=Contract(correction=False), compute=FailingOnce)
    a = cluster.replicas[0]
    a._taint_epochs = 2
    cluster.commit_absent("src", 0)
    cluster.produced = 1
    assert a.step() and a.live_position.tainted == 0
    cluster.produce(5)
    assert a.step() and (a.live_position.epoch, a.live_position.tainted) == (0, 0)
    while a.step():
        pass
    assert [cluster.log.first("a", 0, epoch=e).quality.value for e in range(5)] == ["tentative"] * 3 + ["exact"] * 2


def test_operator_failure_is_retried_and_then_reported_with_its_rows():
    class FailingInEpoch2(HashChain):
        def run(self, new, position, span):
            if span.first <= 2 <= span.last:
                raise OperatorError("operator 'a' (app.py:7) raised ValueError: two")
            return super().run(new, position, span)

    cluster = Cluster(compute=FailingInEpoch2, contract=Contract(retries=2))
    cluster.produce(4)
    a = cluster.replicas[0]
    with pytest.raises(HoldfastError, match=r"operator 'a' \(app.py:7\).*epoch 2, input rows with seq 3 to 3, tried 3 times"):
        while a.step():
            pass
    assert a.clean_position.epoch == 1


def test_failing_epoch_in_a_backlog_is_found_by_halving():
    jobs = []

    class FailingInEpoch8(HashChain):
        def run(self, new, position, span):
            jobs.append((span.first, span.last))
            if span.first <= 8 <= span.last and len(jobs) < 9:
                raise OperatorError("operator 'a' (app.py:7) raised ValueError: eight")
            return super().run(new, position, span)

    cluster = Cluster(compute=FailingInEpoch8, contract=Contract(retries=2))
    cluster.produce(EPOCHS)
    a = cluster.replicas[0]
    while a.step():
        pass
    assert jobs == [(0, 11), (0, 5), (6, 11), (6, 8), (6, 6), (7, 7), (8, 8), (8, 8), (8, 8), (9, 9), (10, 10), (11, 11)]
    assert a.finished


def test_deleted_row_file_is_reported():
    cluster = Cluster()
    cluster.produce()
    cluster.store.remove(list(cluster.store.names("data/src/")))
    with pytest.raises(HoldfastError, match=r"has lost the file 'data/src/0/.*', which a record names; was it deleted by hand\?"):
        cluster.replicas[0].step()


@pytest.mark.parametrize(
    ("secondary", "rank", "patience_s", "checkpoint_epochs"),
    [("quiet", 0, 0.0, 7), ("quiet", 1, 0.4, 14), ("eager", 0, 0.0, 7), ("eager", 1, 0.0, 14)],
)
def test_only_a_quiet_secondary_waits_and_secondaries_save_less_often(secondary, rank, patience_s, checkpoint_epochs):
    replica = Cluster(contract=Contract(secondary=secondary, patience_s=0.4, checkpoint_epochs=7)).replicas[0]
    replica.set_rank(rank)
    assert (replica.output.patience_s, replica.checkpoint_epochs) == (patience_s, checkpoint_epochs)


def test_exact_input_that_is_numbered_like_older_rows_is_reported():
    cluster = Cluster()
    cluster.produce(3)
    old = pa.Table.from_pylist([{"seq": 2, "epoch": 3, "value": 1}], SCHEMA)
    cluster.source.publish("src", 3, rows=old, quality=Quality.EXACT)
    a = cluster.replica("a")
    with pytest.raises(HoldfastError, match=r"'a/0' reads stream 'src', whose epoch 3 begins with seq 2, after rows up to seq 3"):
        while a.step():
            pass


def test_one_missing_record_is_looked_up_alone():
    cluster = Cluster()
    cluster.produce()
    reads = []
    read = cluster.store.read
    cluster.store.read = lambda name: reads.append(name) or read(name)
    task = Task(pe="x", reads=(Reading(stream="src"), Reading(stream="late")), makes=("x",))
    inputs = InputReader(task.reads, [cluster.store] * 2, {"src": SCHEMA, "late": SCHEMA})
    for _ in range(3):
        assert inputs.first_records(0) is None
    assert sum("records/src" in name for name in reads) == 1
    cluster.output("late").publish("late", 0, rows=source_rows(0), quality=Quality.EXACT)
    records = inputs.first_records(0)
    assert [record.stream for record in records] == ["src", "late"]
    assert inputs.rows([records])["late"].num_rows == 1
