"""Upstream backup on a real log: which replicas are activated, and when they are idled again."""

from holdfast.control.observers.job_observers import Activate, JobView
from holdfast.control.observers.spark_job_observer import SparkJobObserver
from holdfast.control.observers.upstream_backup import UpstreamBackup
from holdfast.documents.job import Contract, Job, Layout, Reading, Task
from holdfast.log import Store
from holdfast.log.shared_streams import resolve_log_locations
from holdfast.log.timeline import agree_on_timeline

from . import conftest
from .conftest import TIMELINE, activated, commit

TASKS = (Task(pe="src", kind="source", makes=("src",)), Task(pe="a", reads=(Reading(stream="src"),), makes=("a",), replicas=2))


def replica(number, *, active, live=None, state="running"):
    return conftest.replica("a/0", state, number=number, active=active, live=live)


def backup(store, after_s=3.0):
    contract = Contract(protection="upstream", reroute_after_s=after_s)
    return UpstreamBackup(Job(job="j", application="app.py", log="x", contract=contract), TASKS, store, TIMELINE)


def test_secondary_is_idle_while_the_primary_is_in_time(store):
    upstream = backup(store)
    commit(store, "src", 1, at_s=101.0)
    assert activated(upstream.check([replica(0, active=True), replica(1, active=True)], 101.5)) == {"a/0": (0,)}
    assert upstream.check([replica(0, active=True), replica(1, active=False, state="idle")], 103.9) == []


def test_secondary_is_active_while_the_primary_is_late(store):
    upstream = backup(store)
    for epoch in (1, 2, 3):
        commit(store, "src", epoch, at_s=100.0 + epoch)
    commit(store, "a", 1, at_s=101.5)
    idle = [replica(0, active=True, live=1), replica(1, active=False, state="idle")]
    assert upstream.check(idle, 105.0) == []
    note, activate = upstream.check(idle, 105.1)
    assert note.text == "a/0 is late by 3.1 s; its input is re-routed to n2"
    assert activate == Activate("a/0", (0, 1), cause="upstream backup")
    commit(store, "a", 2, at_s=106.0)
    commit(store, "a", 3, at_s=106.0)
    both_active = [replica(0, active=True, live=1), replica(1, active=True, live=3)]
    assert upstream.check(both_active, 106.5) == []
    back = [replica(0, active=True, live=3), replica(1, active=True, live=3)]
    note, activate = upstream.check(back, 107.0)
    assert note.text == "a/0 is back on n1"
    assert activate.replicas == (0,)


def test_restarted_orchestrator_leaves_the_secondary_active_until_the_primary_is_back(store):
    for epoch in (1, 2, 3):
        commit(store, "src", epoch, at_s=100.0 + epoch)
        commit(store, "a", epoch, at_s=106.0)
    both_active = [replica(0, active=True, live=1), replica(1, active=True, live=3)]
    upstream = backup(store)
    assert upstream.check(both_active, 106.5) == []
    note, activate = upstream.check([replica(0, active=True, live=3), replica(1, active=True, live=3)], 107.0)
    assert (note.text, activate.replicas) == ("a/0 is back on n1", (0,))


def test_lateness_is_measured_in_the_other_jobs_log(tmp_path):
    own, theirs = Store(tmp_path / "own"), Store(tmp_path / "theirs")
    agree_on_timeline(own, TIMELINE)
    resolve_log_locations(own, {"feed": str(tmp_path / "theirs")})
    commit(theirs, "src", 1, at_s=101.0)
    task = TASKS[1].model_copy(update={"reads": (Reading(stream="src", job="feed", name="src"),)})
    contract = Contract(protection="upstream", reroute_after_s=3.0)
    job = Job(job="j", application="app.py", log=str(tmp_path / "own"), contract=contract)
    replicas = (replica(0, active=True, live=0), replica(1, active=False, state="idle"))
    view = JobView(1, job, Layout(application="j", tasks=(task,)), "running", {}, replicas, frozenset(), 105.0)
    assert activated(SparkJobObserver().decide(view)) == {"a/0": (0, 1)}


def test_task_with_one_replica_is_not_rerouted(store):
    upstream = backup(store)
    commit(store, "src", 1, at_s=101.0)
    assert upstream.check([replica(0, active=True)], 200.0) == []


def test_idle_replica_is_activated_when_the_policy_leaves_the_others_dead(store):
    replicas = [replica(0, active=True, state="failed"), replica(1, active=False, state="idle")]
    assert activated(backup(store).check(replicas, 101.0)) == {"a/0": (1,)}
