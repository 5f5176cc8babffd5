"""Which replicas are hung, and which are slow, behind or without input."""

import pytest
from obstore.store import MemoryStore

from holdfast.control.observers.hung_replicas import LEAST_S, LOG_WAIT_S, SPARE_EPOCHS, HungReplicas
from holdfast.control.observers.job_observers import FailReplica, JobView, ReplicaView
from holdfast.control.observers.spark_job_observer import SparkJobObserver
from holdfast.documents.job import Job, Layout, Policy, Reading, Task
from holdfast.log import EpochLog, Quality, Record, Store
from holdfast.log.timeline import Timeline, agree_on_timeline
from holdfast.protocol.messages import WAITS_OUTSIDE, ReplicaStatus

TIMELINE = Timeline(first=1, last=None, epoch_s=1.0, opened_s=0.0)
TASKS = (
    Task(pe="src", kind="source", makes=("src",)),
    Task(pe="a", reads=(Reading(stream="src"),), makes=("a",)),
)
HUNG_S = 30.0


def at(live, *, task="a/0", state="running", active=True, clean=None, error=None, incarnation=1, lag_s=None):
    fields = {"state": "running", "live": live, "clean": live if clean is None else clean, "error": error, "lag_s": lag_s}
    status = ReplicaStatus(key=f"1:{task}.0", incarnation=incarnation, **fields)
    return ReplicaView(f"1:{task}.0", task, 0, "n1", incarnation, 0, active, state, 0.0, None, None, status)


class Watched:
    """One job that is looked at four times a second."""

    def __init__(self, *, last=None, **policy):
        self.log = EpochLog(Store(MemoryStore()))
        line = Timeline(1, last, 1.0, opened_s=0.0)
        self.hung = HungReplicas(Policy(**{"hung_after_s": HUNG_S, **policy}), TASKS, self.log, line)
        self.now_s = 1000.0

    def commit(self, *epochs, quality=Quality.EXACT):
        for epoch in epochs:
            self.log.offer(Record("src", 0, epoch, quality, (), 0, None, None, quality.value, "p"))

    def watch(self, replica, for_s):
        """What is decisions while a replica looks like this for so long, and after how long."""
        began_s = self.now_s
        while self.now_s < began_s + for_s:
            self.now_s += 0.25
            decisions = self.hung.check([replica], self.now_s)
            if decisions:
                return decisions[0], self.now_s - began_s
        return None


def limit_s(behind, times=1):
    return LEAST_S + HUNG_S * times + SPARE_EPOCHS + behind


def test_replica_with_input_and_no_progress_is_hung():
    job = Watched()
    job.commit(1, 2, 3)
    decision, after_s = job.watch(at(2), 600)
    assert decision == FailReplica(
        "1:a/0.0", 1, cause="it has had work for 39 s and got no further than epoch 2: it counts as hung"
    )
    assert after_s == pytest.approx(limit_s(behind=1), abs=0.5)


@pytest.mark.parametrize(
    "replica",
    [at(3), at(2, active=False), at(2, state="idle"), at(2, state="starting"), at(2, error=f"{WAITS_OUTSIDE}: Kafka")],
)
def test_replica_without_work_is_not_hung(replica):
    job = Watched()
    job.commit(1, 2, 3)
    assert job.watch(replica, 600) is None


def test_replica_that_waits_for_the_log_is_hung_only_after_it_should_have_ended():
    job = Watched()
    job.commit(1, 2, 3)
    waiting = at(2, error="waits for the log: it is full")
    assert job.watch(waiting, LOG_WAIT_S - 1) is None
    assert job.watch(waiting, 600) is not None


def test_hung_reader_of_another_jobs_stream_is_found():
    theirs = EpochLog(Store(MemoryStore()))
    for epoch in (1, 2, 3):
        theirs.offer(Record("clicks", 0, epoch, Quality.EXACT, (), 0, None, None, "x", "p"))
    job = Watched()
    reader = Task(pe="a", reads=(Reading(stream="clicks", job="other"),), makes=("a",))
    job.hung = HungReplicas(Policy(hung_after_s=HUNG_S), [reader], job.log, TIMELINE, {"other": theirs})
    _, after_s = job.watch(at(1), 600)
    assert after_s == pytest.approx(limit_s(behind=2), abs=0.5)
    assert job.watch(at(3), 600) is None


def test_slow_replica_with_progress_is_not_hung():
    job = Watched()
    job.commit(*range(1, 40))
    assert [job.watch(at(epoch), HUNG_S) for epoch in range(1, 10)] == [None] * 9


def test_wait_begins_with_new_input():
    job = Watched()
    job.commit(1)
    assert job.watch(at(1), 500) is None
    job.commit(2)
    _, after_s = job.watch(at(1), 600)
    assert after_s > HUNG_S


def test_replica_that_the_trimmed_log_has_left_behind_is_hung():
    job = Watched()
    job.commit(1, 2, 3)
    job.log.trim("src", 0, after=0, until=3)
    assert job.watch(at(3), 600) is None
    assert job.watch(at(1), 600) is not None


def test_backlog_extends_the_limit():
    job = Watched()
    job.commit(*range(1, 201))
    _, after_s = job.watch(at(0), 600)
    assert after_s == pytest.approx(limit_s(behind=200), abs=0.5)


def test_limit_doubles_until_the_replica_gets_further():
    job = Watched()
    job.commit(*range(1, 10))
    times = []
    for incarnation, epoch in ((1, 5), (2, 4), (3, 4), (4, 8)):
        _, after_s = job.watch(at(epoch, incarnation=incarnation), 600)
        times.append(round((after_s - limit_s(9 - epoch, 0)) / HUNG_S))
    assert times == [1, 2, 4, 1]


def test_pause_of_the_observer_fails_no_replica():
    job = Watched()
    job.commit(1, 2)
    assert job.watch(at(1), 10) is None
    job.now_s += 3600
    assert job.watch(at(1), 10) is None
    assert job.watch(at(1), 600) is not None


def test_hung_correction_after_the_last_epoch_is_found():
    job = Watched(last=3)
    job.commit(1, 2, 3)
    assert job.watch(at(3), 600) is None
    assert job.watch(at(3, clean=1), 600) is not None


def test_source_that_does_not_commit_closed_epochs_is_hung():
    job = Watched()
    assert job.watch(at(5000, task="src/0"), 600) is None
    assert job.watch(at(2, task="src/0"), 5000) is not None
    ended = Watched(last=5)
    assert ended.watch(at(5, task="src/0"), 600) is None


def test_source_on_a_node_with_a_slow_clock_is_not_hung():
    assert Watched().watch(at(2, task="src/0", lag_s=0.0), 5000) is None
    assert Watched().watch(at(2, task="src/0", lag_s=7.0), 5000) is not None


@pytest.mark.parametrize("policy", [{"hung_after_s": None}, {"restart": "never"}])
def test_policy_without_limit_never_fails_a_replica(policy):
    job = Watched(**policy)
    job.commit(1, 2)
    assert job.watch(at(1), 600) is None


def test_spark_observer_fails_hung_replicas(tmp_path):
    agree_on_timeline(Store(tmp_path), TIMELINE)
    for epoch in (1, 2):
        EpochLog(Store(tmp_path)).offer(Record("src", 0, epoch, Quality.EXACT, (), 0, None, None, "x", "p"))
    job = Job(job="j", application="app.py", log=str(tmp_path), policy=Policy(hung_after_s=1.0))
    layout, observer = Layout(application="j", tasks=TASKS), SparkJobObserver()
    decisions = []
    for tick in range(60):
        view = JobView(1, job, layout, "running", {}, (at(1),), frozenset(), 1000.0 + tick / 4)
        decisions += observer.decide(view)
    assert [(each.key, each.incarnation) for each in decisions if isinstance(each, FailReplica)][:1] == [("1:a/0.0", 1)]
