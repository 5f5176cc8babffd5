"""The observer of jobs on Spark, on a real log, without processes: how it combines its parts."""

from dataclasses import replace

import pytest

from holdfast.control.observers.job_observers import FailReplica, JobView, Note
from holdfast.control.observers.spark_job_observer import SparkJobObserver
from holdfast.control.recovery.restart_decision import STEADY_S
from holdfast.documents.document import write_document
from holdfast.documents.job import Contract, Job, Layout, Policy, Reading, Task
from holdfast.errors import HoldfastError
from holdfast.log import EpochLog, Quality, Store
from holdfast.log.timeline import agree_on_timeline

from .conftest import TASKS, TIMELINE, activated, commit, first_qualities, replica
from .test_activation import both, strategy


async def test_absent_epochs_of_shared_pes_are_in_their_own_log(tmp_path):
    def view(number, tasks, replicas, *, log, now_s=110.0):
        job = Job(job=f"j{number}", application="app.py", log=str(tmp_path / log), contract=Contract(tentative_after_s=0.0))
        return JobView(number, job, Layout(application="app", tasks=tasks), "running", {}, replicas, frozenset(), now_s)

    one, two = Store(str(tmp_path / "one")), Store(str(tmp_path / "two"))
    for store in (one, two):
        agree_on_timeline(store, TIMELINE)
    for epoch in (1, 2):
        commit(one, "src", epoch, at_s=100.0 + epoch)
    observer = SparkJobObserver()
    whole = view(1, TASKS, tuple(replica(task.name, live=2) for task in TASKS), log="one")
    assert await observer.observe(whole) == []
    remaining = replace(view(1, TASKS[:2], (replica("src/0", live=2), replica("a/0", "lost")), log="one"), state="canceled")
    shared = tuple(t.model_copy(update={"pe": f"one:{t.pe}", "shared": f"one:{t.pe}", "reads": (), "makes": ()}) for t in TASKS[:2])
    mine = Task(pe="mine", reads=(Reading(stream="a", name="theirs", job="one"),), makes=("mine",))
    sharer = view(2, (*shared, mine), (*remaining.replicas, replace(replica("mine/0", live=0), key="2:mine/0.0")), log="two")
    assert await observer.observe(sharer) == []
    (note,) = await observer.observe(remaining)
    assert note.text == "committed 2 absent epochs for a/0"
    assert first_qualities(one, "b") == [None] * 5  # no job uses it any more


def predicted_view(tmp_path, *, state, policy="elsewhere", tentative_after_s=None, now_s=200.0, replica_state="running", **more):
    contract = Contract(protection="prediction", deadline_s=1.0, tentative_after_s=tentative_after_s)
    job = Job(job="j", application="app.py", log=str(tmp_path), contract=contract, policy=Policy(restart=policy))
    replicas = (replica("a/0", replica_state, live=1, **more),)
    layout = Layout(application="j", tasks=TASKS[:2])
    return JobView(1, job, layout, "running", {}, replicas, frozenset(), now_s, {"a/0": {"state": state}})


@pytest.mark.parametrize("policy", ["here", "elsewhere", "missing"])
def test_task_predicted_too_long_is_restarted(tmp_path, policy):
    store = Store(tmp_path)
    agree_on_timeline(store, TIMELINE)
    observer = SparkJobObserver()
    assert observer.decide(predicted_view(tmp_path, state="predicting", policy=policy)) == []
    (failed,) = observer.decide(predicted_view(tmp_path, state="handed over", policy=policy))
    assert isinstance(failed, FailReplica) and (failed.key, failed.incarnation) == ("1:a/0.0", 1)
    handed = {"state": "handed over", "policy": policy, "replica_state": "failed"}
    assert observer.decide(predicted_view(tmp_path, **handed)) == []  # it waits for its restart


def test_policy_never_leaves_a_predicted_task_alone(tmp_path):
    store = Store(tmp_path)
    agree_on_timeline(store, TIMELINE)
    assert SparkJobObserver().decide(predicted_view(tmp_path, state="handed over", policy="never")) == []


def test_restarted_replica_gets_time_before_it_fails_again(tmp_path):
    store = Store(tmp_path)
    agree_on_timeline(store, TIMELINE)
    observer = SparkJobObserver()
    assert len(observer.decide(predicted_view(tmp_path, state="handed over"))) == 1
    again = {"state": "handed over", "incarnation": 2, "since_s": 205.0}
    assert observer.decide(predicted_view(tmp_path, now_s=206.0, **again)) == []
    assert observer.decide(predicted_view(tmp_path, now_s=205.0 + STEADY_S, **again)) == []
    (failed,) = observer.decide(predicted_view(tmp_path, now_s=241.0, **again))
    assert failed.incarnation == 2


def test_epochs_are_absent_after_the_hand_over(tmp_path):
    store = Store(tmp_path)
    agree_on_timeline(store, TIMELINE)
    for epoch in (1, 2):
        commit(store, "src", epoch, at_s=101.0)
    commit(store, "a", 1, at_s=101.5, quality=Quality.PREDICTED)
    observer = SparkJobObserver()
    handed = {"state": "handed over", "policy": "never", "tentative_after_s": 1.0}
    observer.decide(predicted_view(tmp_path, now_s=103.0, **handed))
    decisions = observer.decide(predicted_view(tmp_path, now_s=104.5, **handed))
    assert [note.text for note in decisions if isinstance(note, Note)] == ["committed 1 absent epoch for a/0"]
    assert EpochLog(store).first("a", 0, epoch=2).quality is Quality.ABSENT


def test_agent_change_is_checked_against_the_contract(tmp_path):
    store = Store(tmp_path)
    view = predicted_view(tmp_path, state="watching")
    with pytest.raises(HoldfastError, match="job 1 has not begun; change its agents after its first epoch has begun"):
        SparkJobObserver().check_orders(view, "a/0", {"deadline_s": 2.0})
    agree_on_timeline(store, TIMELINE)
    SparkJobObserver().check_orders(view, "a/0", {"deadline_s": 2.0, "algorithms": {"stride": {}}})
    with pytest.raises(HoldfastError, match="predictor 'oracle' is not installed"):
        SparkJobObserver().check_orders(view, "a/0", {"algorithms": {"oracle": {}}})
    with pytest.raises(HoldfastError, match=r"the deadline of 0\.2 s is below the epoch length of 1 s"):
        SparkJobObserver().check_orders(view, "a/0", {"deadline_s": 0.2})
    with pytest.raises(HoldfastError, match="colour"):
        SparkJobObserver().check_orders(view, "a/0", {"colour": "red"})


def test_dead_replica_is_replaced_although_the_newest_rates_are_trimmed(tmp_path):
    write_document(tmp_path / "strategy.json", strategy())
    job = Job(job="j", application="app.py", log=str(tmp_path / "log"), strategy=str(tmp_path / "strategy.json"))
    view = JobView(1, job, Layout(application="j", tasks=TASKS), "running", {}, tuple(both()), frozenset(), 101.0)
    store = Store(str(tmp_path / "log"))
    agree_on_timeline(store, TIMELINE)
    commit(store, "src", 1, rows=8)
    observer = SparkJobObserver()
    assert activated(observer.decide(view)) == {"a/0": (0,), "b/0": (1,)}  # High
    EpochLog(store).trim("src", 0, after=0, until=1)  # and the source stands still
    dead = tuple(both(a0="lost", a1="idle", a1_active=False, b0="idle", b0_active=False))
    assert activated(observer.decide(replace(view, replicas=dead)))["a/0"] == (0, 1)
