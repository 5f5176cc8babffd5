"""Upstream backup on a real log: who is woken, when, and when it may sleep again."""

import pytest
from obstore.store import MemoryStore

from holdfast.control.observers.job_observers import Activate, FailReplica, JobView, Note, ReplicaView
from holdfast.control.observers.spark_job_observer import SparkJobObserver
from holdfast.control.observers.upstream_backup import UpstreamBackup
from holdfast.control.recovery.restart_decision import STEADY_S
from holdfast.documents.job import Contract, Job, Layout, Policy, Reading, Task
from holdfast.errors import HoldfastError
from holdfast.log import EpochLog, Quality, Record, Store
from holdfast.log.shared_streams import resolve_log_locations
from holdfast.log.timeline import Timeline, agree_on_timeline
from holdfast.protocol.messages import ReplicaStatus

TIMELINE = Timeline(first=1, last=None, epoch_s=1.0, opened_s=100.0)
TASKS = (Task(pe="src", kind="source", makes=("src",)), Task(pe="a", reads=(Reading(stream="src"),), makes=("a",), replicas=2))


def replica(number, *, active, live=None, state="running", incarnation=1, since_s=0.0):
    status = ReplicaStatus(key="a/0", incarnation=incarnation, state="running", live=live) if live is not None else None
    key, node = f"1:a/0.{number}", f"n{number + 1}"
    return ReplicaView(key, "a/0", number, node, incarnation, number, active, state, since_s, None, None, status)


@pytest.fixture
def store():
    return Store(MemoryStore())


def commit(store, stream, epoch, *, at_s, quality=Quality.EXACT):
    EpochLog(store).offer(Record(stream, 0, epoch, quality, (), 0, None, None, "x", "p", committed_s=at_s))


def backup(store, after_s=3.0):
    contract = Contract(protection="upstream", reroute_after_s=after_s)
    return UpstreamBackup(Job(job="j", application="app.py", log="x", contract=contract), TASKS, store, TIMELINE)


def activated(decisions):
    return [decision.replicas for decision in decisions if isinstance(decision, Activate)]


def test_secondary_is_idle_while_the_primary_is_in_time(store):
    one = backup(store)
    commit(store, "src", 1, at_s=101.0)
    assert activated(one.check([replica(0, active=True), replica(1, active=True)], 101.5)) == [(0,)]
    assert one.check([replica(0, active=True), replica(1, active=False, state="idle")], 103.9) == []


def test_secondary_is_active_while_the_primary_is_late(store):
    one = backup(store)
    for epoch in (1, 2, 3):
        commit(store, "src", epoch, at_s=100.0 + epoch)
    commit(store, "a", 1, at_s=101.5)
    asleep = [replica(0, active=True, live=1), replica(1, active=False, state="idle")]
    assert one.check(asleep, 105.0) == []
    note, activate = one.check(asleep, 105.1)
    assert note.text == "a/0 is late by 3.1 s; its input is re-routed to n2"
    assert activate == Activate("a/0", (0, 1), cause="upstream backup")
    commit(store, "a", 2, at_s=106.0)
    commit(store, "a", 3, at_s=106.0)
    awake = [replica(0, active=True, live=1), replica(1, active=True, live=3)]
    assert one.check(awake, 106.5) == []
    back = [replica(0, active=True, live=3), replica(1, active=True, live=3)]
    note, activate = one.check(back, 107.0)
    assert note.text == "a/0 is back on n1"
    assert activate.replicas == (0,)


def test_lateness_is_measured_in_the_other_jobs_log(tmp_path):
    own, theirs = Store(tmp_path / "own"), Store(tmp_path / "theirs")
    agree_on_timeline(own, TIMELINE)
    resolve_log_locations(own, {"feed": str(tmp_path / "theirs")})
    commit(theirs, "src", 1, at_s=101.0)
    task = TASKS[1].model_copy(update={"reads": (Reading(stream="src", job="feed", name="src"),)})
    contract = Contract(protection="upstream", reroute_after_s=3.0)
    job = Job(job="j", application="app.py", log=str(tmp_path / "own"), contract=contract)
    replicas = (replica(0, active=True, live=0), replica(1, active=False, state="idle"))
    seen = JobView(1, job, Layout(application="j", tasks=(task,)), "running", {}, replicas, frozenset(), 105.0)
    assert activated(SparkJobObserver()._decide(seen)) == [(0, 1)]


def test_task_with_one_replica_is_not_rerouted(store):
    one = backup(store)
    commit(store, "src", 1, at_s=101.0)
    assert one.check([replica(0, active=True)], 200.0) == []


def view(store, tmp_path, *, state, policy="elsewhere", tentative_after_s=None, now_s=200.0, replica_state="running", **more):
    contract = Contract(protection="prediction", deadline_s=1.0, tentative_after_s=tentative_after_s)
    job = Job(job="j", application="app.py", log=str(tmp_path), contract=contract, policy=Policy(restart=policy))
    replicas = (replica(0, active=True, live=1, state=replica_state, **more),)
    layout = Layout(application="j", tasks=TASKS)
    return JobView(1, job, layout, "running", {}, replicas, frozenset(), now_s, {"a/0": {"state": state}})


@pytest.mark.parametrize("policy", ["here", "elsewhere", "missing"])
def test_task_predicted_too_long_is_restarted(tmp_path, policy):
    store = Store(tmp_path)
    agree_on_timeline(store, TIMELINE)
    observer = SparkJobObserver()
    assert observer._decide(view(store, tmp_path, state="predicting", policy=policy)) == []
    (failed,) = observer._decide(view(store, tmp_path, state="handed over", policy=policy))
    assert isinstance(failed, FailReplica) and (failed.key, failed.incarnation) == ("1:a/0.0", 1)
    handed = {"state": "handed over", "policy": policy, "replica_state": "failed"}
    assert observer._decide(view(store, tmp_path, **handed)) == []  # it waits for its restart


def test_policy_never_leaves_a_predicted_task_alone(tmp_path):
    store = Store(tmp_path)
    agree_on_timeline(store, TIMELINE)
    assert SparkJobObserver()._decide(view(store, tmp_path, state="handed over", policy="never")) == []


def test_restarted_replica_gets_time_before_it_fails_again(tmp_path):
    store = Store(tmp_path)
    agree_on_timeline(store, TIMELINE)
    observer = SparkJobObserver()
    assert len(observer._decide(view(store, tmp_path, state="handed over"))) == 1
    again = {"state": "handed over", "incarnation": 2, "since_s": 205.0}
    assert observer._decide(view(store, tmp_path, now_s=206.0, **again)) == []
    assert observer._decide(view(store, tmp_path, now_s=205.0 + STEADY_S, **again)) == []
    (failed,) = observer._decide(view(store, tmp_path, now_s=241.0, **again))
    assert failed.incarnation == 2


def test_epochs_are_absent_after_the_hand_over(tmp_path):
    store = Store(tmp_path)
    agree_on_timeline(store, TIMELINE)
    for epoch in (1, 2):
        commit(store, "src", epoch, at_s=101.0)
    commit(store, "a", 1, at_s=101.5, quality=Quality.PREDICTED)
    observer = SparkJobObserver()
    handed = {"state": "handed over", "policy": "never", "tentative_after_s": 1.0}
    observer._decide(view(store, tmp_path, now_s=103.0, **handed))
    said = observer._decide(view(store, tmp_path, now_s=104.5, **handed))
    assert [note.text for note in said if isinstance(note, Note)] == ["committed 1 absent epochs for a/0"]
    assert EpochLog(store).first("a", 0, epoch=2).quality is Quality.ABSENT


def test_agent_change_is_checked_against_the_contract(tmp_path):
    store = Store(tmp_path)
    seen = view(store, tmp_path, state="watching")
    with pytest.raises(HoldfastError, match="job 1 has not begun; change its agents after its first epoch has begun"):
        SparkJobObserver().check_orders(seen, "a/0", {"deadline_s": 2.0})
    agree_on_timeline(store, TIMELINE)
    SparkJobObserver().check_orders(seen, "a/0", {"deadline_s": 2.0, "algorithms": {"stride": {}}})
    with pytest.raises(HoldfastError, match="predictor 'oracle' is not installed"):
        SparkJobObserver().check_orders(seen, "a/0", {"algorithms": {"oracle": {}}})
    with pytest.raises(HoldfastError, match=r"the deadline of 0\.2 s is below the epoch length of 1 s"):
        SparkJobObserver().check_orders(seen, "a/0", {"deadline_s": 0.2})
    with pytest.raises(HoldfastError, match="colour"):
        SparkJobObserver().check_orders(seen, "a/0", {"colour": "red"})
