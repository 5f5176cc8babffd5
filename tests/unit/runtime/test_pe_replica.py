"""The second law on the real replicas and the real log, with a stand-in for Spark: random kills, restarts, absent and predicted
records, checkpoints and trimming, thousands of steps in a second."""

import random
import zlib
from types import SimpleNamespace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from obstore.store import MemoryStore

from holdfast.documents.job import Contract, Job, Reading, Task
from holdfast.errors import HoldfastError, OperatorError
from holdfast.log import EpochLog, Quality, Store
from holdfast.log.checkpoints import Checkpoints
from holdfast.log.position import Position
from holdfast.log.timeline import Timeline
from holdfast.log.trimming import LogTrimmer
from holdfast.runtime.input_reader import InputReader
from holdfast.runtime.output_writer import OutputWriter
from holdfast.runtime.pe_replica import PeReplica
from holdfast.runtime.replica_factory import ReplicaFactory

EPOCHS = 12
GRAPH = {"a": ["src"], "b": ["src"], "c": ["a"], "d": ["b", "c"], "e": ["d"]}
SCHEMA = pa.schema({"seq": pa.int64(), "epoch": pa.int64(), "value": pa.int64()})
TIMELINE = Timeline(first=0, last=EPOCHS - 1, epoch_s=1.0, opened_s=0.0)


class Chain:
    """A stateful stand-in for an operator: its output and state depend on everything it has read."""

    def __init__(self, name):
        self.name = name

    def run(self, new, head, span):
        state = head.kept["state"]["value"][0].as_py() if head.kept else 0
        rows = []
        for epoch in range(span.first, span.last + 1):
            for stream in sorted(new):
                for row in new[stream].to_pylist():
                    if row["epoch"] == epoch:
                        state = zlib.crc32(f"{state} {self.name} {stream} {row['value']}".encode())
            rows.append({"seq": epoch + 1, "epoch": epoch, "value": state})
        return {self.name: pa.Table.from_pylist(rows, SCHEMA)}, {"state": pa.table({"value": [state]})}


def task(name):
    return Task(pe=name, reads=tuple(Reading(stream=s) for s in GRAPH[name]), makes=(name,))


def source_rows(epoch):
    return pa.Table.from_pylist([{"seq": epoch + 1, "epoch": epoch, "value": epoch * 7 + 1}], SCHEMA)


class Cluster:
    def __init__(self, store, *, counts=None, contract=None, compute=Chain):
        self.store, self.checkpoints, self.told = store, Checkpoints(store), []
        self.contract, self.compute = contract or Contract(checkpoint_epochs=10_000), compute
        self.source = self.outbox("src")
        tasks = [Task(pe="src", kind="source", makes=("src",)), *map(task, GRAPH)]
        self.trimmer = LogTrimmer(store, tasks, self.checkpoints)
        self.replicas = [self.replica(name) for name in GRAPH for _ in range((counts or {}).get(name, 1))]
        self.produced = 0

    def outbox(self, name):
        return OutputWriter(self.store, 0, name, TIMELINE, lambda kind, event: self.told.append((kind, event)), clock=lambda: 0.0)

    def replica(self, name):
        stores = [self.store] * len(GRAPH[name])
        schemas = dict.fromkeys(["src", *GRAPH], SCHEMA)
        return PeReplica(
            task(name),
            self.contract,
            inbox=InputReader(task(name).reads, stores, schemas),
            outbox=self.outbox(name),
            compute=self.compute(name),
            checkpoints=self.checkpoints,
            timeline=TIMELINE,
        )

    def produce(self):
        self.source.publish("src", self.produced, rows=source_rows(self.produced), quality=Quality.EXACT)
        self.produced += 1

    def settle(self):
        while sum(replica.step() for replica in self.replicas):
            pass

    def final(self, stream):
        log = EpochLog(self.store)
        records = [log.final(stream, 0, epoch=epoch) for epoch in range(EPOCHS)]
        return [record and record.checksum for record in records]


def golden():
    cluster = Cluster(Store(MemoryStore()))
    while cluster.produced < EPOCHS:
        cluster.produce()
    cluster.settle()
    return {name: cluster.final(name) for name in GRAPH}


GOLDEN = golden()


@settings(max_examples=25)
@given(st.integers(0, 10**9))
def test_when_all_is_quiet_the_final_records_equal_the_run_without_faults(seed):
    rng = random.Random(seed)
    cluster = Cluster(Store(MemoryStore()), counts={name: rng.choice([1, 1, 2, 3]) for name in GRAPH})
    alive = [True] * len(cluster.replicas)
    log = EpochLog(cluster.store)
    for _ in range(rng.randint(20, 250)):
        act, n = rng.random(), rng.randrange(len(alive))
        replica = cluster.replicas[n]
        if act < 0.10 and cluster.produced < EPOCHS:
            cluster.produce()
        elif act < 0.70 and alive[n]:
            replica.step()
        elif act < 0.76:
            alive[n] = False
        elif act < 0.84 and not alive[n]:
            alive[n] = True
            cluster.replicas[n] = cluster.replica(replica.task.pe)
        elif act < 0.90:
            name = replica.task.pe
            epoch = log.last_epoch(name, 0, after=cluster.checkpoints.latest_epoch(f"{name}/0") or -1) + 1
            inputs = [log.first(stream, 0, epoch=epoch) for stream in GRAPH[name]]
            if epoch < EPOCHS and all(inputs):
                quality = rng.choice([Quality.ABSENT, Quality.PREDICTED])
                rows = SCHEMA.empty_table() if quality is Quality.ABSENT else source_rows(epoch)
                cluster.outbox(name).publish(name, epoch, rows=rows, quality=quality)
        elif act < 0.96 and alive[n]:
            replica.save()
        else:
            for stream in GRAPH:
                cluster.trimmer.trim(stream, 0)
    while cluster.produced < EPOCHS:
        cluster.produce()
    cluster.replicas = [r if alive[n] else cluster.replica(r.task.pe) for n, r in enumerate(cluster.replicas)]
    for replica in cluster.replicas:
        replica._looks_again_s = 0.0
    cluster.settle()
    for name in GRAPH:
        assert [held for held in cluster.final(name) if held] == [
            right for right, held in zip(GOLDEN[name], cluster.final(name), strict=True) if held
        ]
        behind = cluster.checkpoints.latest_epoch(f"{name}/0")
        trimmed = cluster.final(name)[: (behind if behind is not None else -1) + 1]
        assert all(cluster.final(name)[len(trimmed) :])
    assert all(replica.finished and replica.quality is Quality.EXACT for replica in cluster.replicas)
    assert not [event for kind, event in cluster.told if kind == "divergence"]


def test_a_checkpoint_is_told_with_what_it_took_beside_the_work_since_the_one_before():
    now = [0.0]

    class Slow(Chain):
        def run(self, new, head, span):
            now[0] += 2.0
            return super().run(new, head, span)

    class SlowCheckpoints(Checkpoints):
        def save(self, task, head):
            now[0] += 0.5
            super().save(task, head)

    cluster = Cluster(Store(MemoryStore()))
    a = PeReplica(
        task("a"),
        Contract(checkpoint_epochs=5),
        inbox=InputReader(task("a").reads, [cluster.store], {"src": SCHEMA, "a": SCHEMA}),
        outbox=cluster.outbox("a"),
        compute=Slow("a"),
        checkpoints=SlowCheckpoints(cluster.store),
        timeline=TIMELINE,
        checkpointed=lambda epoch: now.__setitem__(0, now[0] + 0.25),
        clock=lambda: now[0],
    )
    for _ in range(EPOCHS):
        cluster.produce()
        assert a.step()
    told = [event for kind, event in cluster.told if kind == "checkpoint"]
    assert [(each["since"], each["epoch"], each["took_s"], each["worked_s"]) for each in told] == [
        (-1, 4, 0.75, 10.0),
        (4, 9, 0.75, 10.0),
        (9, 11, 0.75, 4.0),
    ]
    assert {(each["task"], each["producer"], each["rows"]) for each in told} == {("a/0", "a", 1)}


def test_what_a_quiet_secondary_waits_is_no_work():
    now = [0.0]
    cluster = Cluster(Store(MemoryStore()))
    a = cluster.replicas[0]
    a._clock = lambda: now[0]
    publish = a.outbox.publish

    def waits(*words, **options):
        now[0] += 3.0
        a.outbox.waited_s += 2.5
        return publish(*words, **options)

    a.outbox.publish = waits
    cluster.produce()
    assert a.step()
    a.save()
    (told,) = [event for kind, event in cluster.told if kind == "checkpoint"]
    assert told["worked_s"] == 0.5


def test_a_replica_that_is_behind_does_all_waiting_epochs_in_one_job():
    jobs = []

    class Counted(Chain):
        def run(self, new, head, span):
            jobs.append((self.name, span.last - span.first + 1))
            return super().run(new, head, span)

    cluster = Cluster(Store(MemoryStore()), compute=Counted)
    for _ in range(EPOCHS):
        cluster.produce()
    cluster.settle()
    assert jobs == [(name, EPOCHS) for name in "abcde"]


def test_a_catch_up_job_reads_no_more_rows_than_the_contract_allows():
    cluster = Cluster(Store(MemoryStore()), contract=Contract(catch_up_rows=5, checkpoint_epochs=100))
    for _ in range(EPOCHS):
        cluster.produce()
    a = cluster.replicas[0]
    assert a.step() and a.clean.epoch == 4
    assert a.step() and a.clean.epoch == 9


def test_what_is_made_from_an_absent_input_is_tentative_down_the_graph_and_exact_once_it_is_corrected():
    cluster = Cluster(Store(MemoryStore()))
    dead = cluster.replicas.pop(0)
    assert dead.task.pe == "a"
    cluster.produce()
    cluster.outbox("a").publish("a", 0, rows=SCHEMA.empty_table(), quality=Quality.ABSENT)
    cluster.settle()
    log = EpochLog(cluster.store)
    assert [log.first(s, 0, epoch=0).quality.value for s in "abcde"] == ["absent", "exact", "tentative", "tentative", "tentative"]
    assert [log.final(s, 0, epoch=0) for s in "cde"] == [None] * 3
    cluster.replicas.append(cluster.replica("a"))
    cluster.settle()
    assert [log.final(s, 0, epoch=0).checksum for s in "abcde"] == [GOLDEN[s][0] for s in "abcde"]


def test_without_correction_nothing_is_made_again_and_the_quality_stays_honest():
    cluster = Cluster(Store(MemoryStore()), contract=Contract(correction=False, checkpoint_epochs=1))
    dead = cluster.replicas.pop(0)
    cluster.produce()
    cluster.outbox("a").publish("a", 0, rows=SCHEMA.empty_table(), quality=Quality.ABSENT)
    cluster.settle()
    cluster.replicas.insert(0, cluster.replica(dead.task.pe))
    cluster.produce()
    cluster.settle()
    log = EpochLog(cluster.store)
    assert [log.first(s, 0, epoch=1).quality.value for s in "abe"] == ["tentative", "exact", "tentative"]
    assert log.final("c", 0, epoch=0) is None


def test_without_correction_a_job_that_fails_does_not_make_incomplete_kept_rows_look_whole():
    class Failing(Chain):
        failed = False

        def run(self, new, head, span):
            if span.last > span.first and not self.failed:
                self.failed = True
                raise OperatorError("operator 'a' (app.py:7) raised ValueError: too much")
            return super().run(new, head, span)

    cluster = Cluster(Store(MemoryStore()), contract=Contract(correction=False), compute=Failing)
    a = cluster.replicas[0]
    a._fades = 2
    cluster.outbox("src").publish("src", 0, rows=SCHEMA.empty_table(), quality=Quality.ABSENT)
    cluster.produced = 1
    assert a.step() and a.live.tainted == 0
    for _ in range(5):
        cluster.produce()
    assert a.step() and (a.live.epoch, a.live.tainted) == (0, 0)
    while a.step():
        pass
    log = EpochLog(cluster.store)
    assert [log.first("a", 0, epoch=e).quality.value for e in range(5)] == ["tentative"] * 3 + ["exact"] * 2


def test_a_quiet_secondary_writes_nothing_while_the_primary_does():
    cluster = Cluster(Store(MemoryStore()), counts={"a": 2})
    primary, secondary = cluster.replicas[:2]
    secondary.outbox.patience_s = 0.05
    cluster.produce()
    assert primary.step() and secondary.step()
    log = EpochLog(cluster.store)
    primary.outbox.producer, secondary.outbox.producer = "primary", "secondary"
    cluster.produce()
    assert primary.step() and secondary.step()
    assert log.first("a", 0, epoch=1).producer == "primary"
    assert secondary.outbox.waited_s == 0
    cluster.produce()
    assert secondary.step()
    assert log.first("a", 0, epoch=2).producer == "secondary"
    assert secondary.outbox.waited_s >= 0.05
    assert len(list(cluster.store.names("data/a/"))) == 3


def test_replicas_that_make_different_exact_rows_are_told_with_both_producers():
    class Wrong(Chain):
        def run(self, new, head, span):
            made, kept = super().run(new, head, span)
            return {name: rows.set_column(2, "value", pa.array([1] * rows.num_rows)) for name, rows in made.items()}, kept

    cluster = Cluster(Store(MemoryStore()), counts={"a": 2})
    cluster.replicas[1]._compute = Wrong("a")
    cluster.replicas[1].outbox.producer = "other"
    cluster.produce()
    cluster.replicas[0].step()
    cluster.replicas[1].step()
    (event,) = [event for kind, event in cluster.told if kind == "divergence"]
    assert (event["held_by"], event["made_by"], event["seq"]) == ("a", "other", 1)


def test_an_epoch_that_fails_is_tried_again_and_then_the_pe_fails_with_the_rows_that_did_it():
    class Raising(Chain):
        def run(self, new, head, span):
            if span.first <= 2 <= span.last:
                raise OperatorError("operator 'a' (app.py:7) raised ValueError: two")
            return super().run(new, head, span)

    cluster = Cluster(Store(MemoryStore()), compute=Raising, contract=Contract(retries=2))
    for _ in range(4):
        cluster.produce()
    a = cluster.replicas[0]
    with pytest.raises(HoldfastError, match=r"operator 'a' \(app.py:7\).*epoch 2, input rows with seq 3 to 3, tried 3 times"):
        while a.step():
            pass
    assert a.clean.epoch == 1


def test_the_epoch_at_fault_is_found_in_a_backlog_by_halves():
    jobs = []

    class Raising(Chain):
        def run(self, new, head, span):
            jobs.append((span.first, span.last))
            if span.first <= 8 <= span.last and len(jobs) < 9:
                raise OperatorError("operator 'a' (app.py:7) raised ValueError: eight")
            return super().run(new, head, span)

    cluster = Cluster(Store(MemoryStore()), compute=Raising, contract=Contract(retries=2))
    for _ in range(EPOCHS):
        cluster.produce()
    a = cluster.replicas[0]
    while a.step():
        pass
    assert jobs == [(0, 11), (0, 5), (6, 11), (6, 8), (6, 6), (7, 7), (8, 8), (8, 8), (8, 8), (9, 9), (10, 10), (11, 11)]
    assert a.finished


def trim_all(cluster, epoch):
    """As when everyone has a checkpoint at an epoch."""
    for name in ["src", *GRAPH]:
        cluster.checkpoints.save(f"{name}/0", Position(epoch))
    for name in ["src", *GRAPH]:
        cluster.trimmer.trim(name, 0)


def test_a_replica_that_stood_still_while_the_log_was_trimmed_past_it_commits_nothing():
    cluster = Cluster(Store(MemoryStore()), counts={"a": 2})
    ahead, stopped = cluster.replicas[:2]
    for _ in range(6):
        cluster.produce()

    class Stopped(Chain):
        def run(self, new, head, span):
            made = super().run(new, head, span)
            ahead.step()
            ahead.save()
            trim_all(cluster, 5)
            return made

    stopped._compute, stopped.outbox.producer = Stopped("a"), "stopped"
    assert stopped.step()
    assert EpochLog(cluster.store).oldest_epoch("a", 0) is None
    assert list(cluster.store.names("data/a/")) == []
    assert "stopped" not in {event.get("producer") for kind, event in cluster.told if kind == "commit"}
    cluster.produce()
    cluster.settle()
    assert EpochLog(cluster.store).final("a", 0, epoch=6).checksum == GOLDEN["a"][6]


def test_rows_that_are_trimmed_while_they_are_read_are_not_missed():
    cluster = Cluster(Store(MemoryStore()), counts={"a": 2})
    ahead, stopped = cluster.replicas[:2]
    for _ in range(5):
        cluster.produce()
    finals = stopped._inbox.finals

    def slow(epoch):
        found = finals(epoch)
        if epoch == 4:
            ahead.step()
            ahead.save()
            trim_all(cluster, 4)
        return found

    stopped._inbox.finals = slow
    assert stopped.step() and stopped.clean.epoch == -1
    assert stopped.step() and stopped.clean.epoch == 4


def test_rows_that_somebody_deleted_are_told():
    cluster = Cluster(Store(MemoryStore()))
    cluster.produce()
    cluster.store.remove(list(cluster.store.names("data/src/")))
    with pytest.raises(HoldfastError, match=r"has lost the file 'data/src/0/.*', which a record names; was it deleted by hand\?"):
        cluster.replicas[0].step()


def test_a_replica_left_behind_a_trimmed_log_goes_on_from_the_newest_checkpoint():
    cluster = Cluster(Store(MemoryStore()), counts={"a": 2})
    ahead, behind = cluster.replicas[:2]
    for _ in range(5):
        cluster.produce()
    ahead.step()
    ahead.save()
    cluster.checkpoints.save("src/0", Position(4))
    cluster.checkpoints.save("b/0", Position(4))
    cluster.trimmer.trim("src", 0)
    assert EpochLog(cluster.store).oldest_epoch("src", 0) is None
    assert behind.step() and behind.clean.epoch == 4


@pytest.mark.parametrize(
    ("secondary", "rank", "patience_s", "saves_every"),
    [("quiet", 0, 0.0, 7), ("quiet", 1, 0.4, 14), ("eager", 0, 0.0, 7), ("eager", 1, 0.0, 14)],
)
def test_a_quiet_secondary_is_patient_an_eager_one_is_not_and_each_pe_has_its_own_interval(
    secondary, rank, patience_s, saves_every
):
    own = Contract(secondary=secondary, patience_s=0.4, checkpoint_epochs=7)
    cluster = Cluster(Store(MemoryStore()), contract=own)
    job = Job(job="j", application="app.py", log="log", contract=Contract(checkpoint_epochs=100), contracts={"a": own})
    replica = cluster.replica("a")
    ReplicaFactory.ranked(SimpleNamespace(job=job), replica, rank)
    assert (replica.outbox.patience_s, replica.saves_every) == (patience_s, saves_every)


def woken(cluster, name, *, now_s):
    """A replica of a task that was idle until now."""
    replica = cluster.replica(name)
    replica._clock = lambda: now_s[0]
    replica.take_over()
    return replica


def running_for(epochs):
    """A cluster whose tasks have done so many epochs and made no checkpoint."""
    cluster = Cluster(Store(MemoryStore()))
    for _ in range(epochs):
        cluster.produce()
    cluster.settle()
    return cluster


def test_a_replica_that_is_woken_takes_over_what_an_active_one_keeps_and_replays_nothing():
    cluster, now_s = running_for(8), [1.0]
    replica = woken(cluster, "a", now_s=now_s)
    assert replica.step() and replica.rows_read == 0, "it waits, and is not taken for one that has caught up"
    cluster.produce()
    cluster.settle()
    now_s[0] = 2.0
    replica.step()
    assert (replica.clean.epoch, replica.rows_read) == (8, 0)
    assert not cluster.checkpoints.is_requested("a/0")
    cluster.produce()
    assert replica.step()
    cluster.settle()
    assert (replica.clean.epoch, replica.rows_read) == (9, 1)
    assert cluster.final("a")[:10] == GOLDEN["a"][:10]


@pytest.mark.parametrize(
    ("epochs", "waiting", "asks"),
    [(8, 1, True), (2, 0, False), (8, 2, False)],
    ids=["an active one works", "little is missing", "nobody has worked of late"],
)
def test_a_replica_that_is_woken_replays_what_is_missing_where_nobody_is_to_be_waited_for(epochs, waiting, asks):
    cluster, now_s = running_for(epochs), [1.0]
    for _ in range(waiting):
        cluster.produce()
    replica = woken(cluster, "a", now_s=now_s)
    assert cluster.checkpoints.is_requested("a/0") == asks
    replica.step()
    assert replica.rows_read == (0 if asks else epochs + waiting)
    now_s[0] += 10.0  # nobody has answered in the time that is given
    replica.step()
    assert (replica.clean.epoch, replica.rows_read) == (epochs + waiting - 1, epochs + waiting)
    assert not cluster.checkpoints.is_requested("a/0")


def test_a_replica_that_waits_for_one_that_dies_meanwhile_waits_no_longer_than_that_shows():
    cluster, now_s = running_for(8), [1.0]
    replica = woken(cluster, "a", now_s=now_s)
    replica.step()
    cluster.produce()
    assert replica.step() and replica.rows_read == 0
    cluster.produce()
    assert replica.step() and replica.rows_read == 10


@pytest.mark.parametrize(("protection", "asks"), [("none", True), ("upstream", False)])
def test_a_replica_that_is_woken_because_the_active_one_is_late_does_not_wait_for_it(protection, asks):
    cluster = running_for(8)
    cluster.contract = Contract(protection=protection)
    ReplicaFactory.woken(cluster.replica("a"))
    assert cluster.checkpoints.is_requested("a/0") == asks
