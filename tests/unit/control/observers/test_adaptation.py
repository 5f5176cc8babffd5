"""A plan that follows the measured rates, on a real log, without processes."""

import pytest
from obstore.store import MemoryStore

from holdfast.control.observers.adaptation import Adaptor, TaskRates
from holdfast.control.observers.job_observers import Activate, Note, ReplicaView
from holdfast.documents.document import check_document
from holdfast.documents.job import Adapting, Job, Reading, Task
from holdfast.documents.topology import TaskOperator, Topology
from holdfast.errors import DocumentError
from holdfast.log import EpochLog, Quality, Record, Store
from holdfast.log.timeline import Timeline

TIMELINE = Timeline(first=1, last=None, epoch_s=1.0, opened_s=100.0, speed=2.0)
SIDES = ("east", "west")
TASKS = (
    *(Task(pe=side, kind="source", makes=(side,), replicas=2) for side in SIDES),
    *(Task(pe=f"{s}_sum", reads=(Reading(stream=s),), makes=(f"{s}_sum",), operators=(f"{s}_sum",), replicas=2) for s in SIDES),
    *(Task(pe=f"{side}_out", kind="sink", reads=(Reading(stream=f"{side}_sum"),), replicas=2) for side in SIDES),
)
TOPOLOGY = Topology(
    topology="sides",
    operators={
        **{side: TaskOperator(rate=1.0) for side in SIDES},
        **{f"{side}_sum": TaskOperator(inputs={side: "one-to-one"}) for side in SIDES},
    },
)
EAST = ("east/0", "east_sum/0")
WEST = ("west/0", "west_sum/0")


def commit(store, epoch, **rows):
    for side, count in rows.items():
        for stream in (side, f"{side}_sum"):
            EpochLog(store).offer(Record(stream, 0, epoch, Quality.EXACT, (), count, None, None, "x", "p"))


def replica(task, number, *, active=True, state="running"):
    return ReplicaView(f"1:{task}.{number}", task, number, f"n{number}", 1, number, active, state, 0.0, None, None, None)


def replicas(active=()):
    """Two replicas of every task; the second is active where the task is named."""
    return [replica(t.name, n, active=n == 0 or t.name in active) for t in TASKS for n in (0, 1) if t.kind != "sink"]


def adaptor(store, *, initial=EAST, tasks=TASKS, others=None, **more):
    adapting = Adapting(budget=2, every_s=10.0, **more)
    return Adaptor(adapting, TOPOLOGY, initial, tasks, TaskRates(EpochLog(store), TIMELINE, tasks, others or {}), store)


@pytest.fixture
def store():
    return Store(MemoryStore())


def test_rates_are_averaged_over_the_newest_epochs(store):
    rates = TaskRates(EpochLog(store), TIMELINE, TASKS)
    rates.update()
    assert rates.measured(TOPOLOGY) is None
    commit(store, 1, east=30, west=10)
    commit(store, 2, east=10, west=10)
    rates.update()
    rates.update()
    measured = rates.measured(TOPOLOGY)
    assert measured.operators["east"].rates == (40.0,)
    assert measured.operators["west_sum"].rates == (20.0,)


def test_failures_do_not_lower_the_measured_rates(store):
    rates = TaskRates(EpochLog(store), TIMELINE, TASKS)
    commit(store, 1, east=50, west=50)
    for epoch in (2, 3):
        for stream in ("east", "east_sum"):
            EpochLog(store).offer(Record(stream, 0, epoch, Quality.ABSENT, (), 0, None, None, "absent", "p"))
        commit(store, epoch, west=50)
    rates.update()
    assert rates.measured(TOPOLOGY).operators["east"].rates == (100.0,)
    commit(store, 2, east=80)
    rates.update()
    assert rates.measured(TOPOLOGY).operators["east"].rates == (130.0,)


def test_planned_tasks_have_two_active_replicas(store):
    one = adaptor(store)
    everything = replicas(active=[task.name for task in TASKS])
    decided = {decision.task: decision.replicas for decision in one.check(everything, 100.0)}
    assert decided == {"west/0": (0,), "west_sum/0": (0,)}
    assert one.check(replicas(active=EAST), 101.0) == []


def test_plan_follows_the_rates(store):
    one = adaptor(store)
    for epoch in range(1, 5):
        commit(store, epoch, east=1, west=99)
    assert one.check(replicas(active=EAST), 100.0) == []
    note, *switched = one.check(replicas(active=EAST), 110.0)
    assert isinstance(note, Note)
    assert note.text.startswith("the plan follows the rates: starts west/0, starts west_sum/0, stops east/0, stops east_sum/0")
    assert {s.task: s.replicas for s in switched} == {
        **dict.fromkeys(EAST, (0,)),
        **dict.fromkeys(WEST, (0, 1)),
    }
    assert all(isinstance(each, Activate) for each in switched)
    assert one.check(replicas(active=WEST), 120.5) == []


def test_small_gain_changes_nothing(store):
    one = adaptor(store, move_worth=1.0)
    commit(store, 1, east=1, west=99)
    one.check(replicas(active=EAST), 100.0)
    assert one.check(replicas(active=EAST), 110.0) == []


def test_dead_active_replica_is_replaced(store):
    one = adaptor(store)
    views = [r for r in replicas(active=EAST) if r.task != "west/0"]
    views += [replica("west/0", 0, state="lost"), replica("west/0", 1, active=False, state="idle")]
    assert one.check(views, 100.0) == [Activate("west/0", (1,), cause="the current plan")]


def test_finished_task_is_not_switched(store):
    one = adaptor(store)
    views = [r for r in replicas(active=EAST) if r.task != "west/0"]
    views += [replica("west/0", 0, state="finished"), replica("west/0", 1, active=False, state="idle")]
    assert one.check(views, 100.0) == []


def moved(store):
    """An adaptor whose plan has moved from east to west."""
    one = adaptor(store)
    for epoch in range(1, 5):
        commit(store, epoch, east=1, west=99)
    one.check(replicas(active=EAST), 100.0)
    one.check(replicas(active=EAST), 110.0)
    assert one.planned == WEST
    return one


def test_restarted_orchestrator_continues_the_current_plan(store):
    moved(store)
    again = adaptor(store)
    assert again.planned == WEST
    assert again.check(replicas(active=WEST), 200.0) == []


def test_plan_derived_from_another_is_ignored(store):
    moved(store)
    assert adaptor(store, initial=("east/0",)).planned == ("east/0",)


def test_rate_of_a_shared_source_is_read_from_its_log(store):
    theirs = Store(MemoryStore())
    for epoch in (1, 2):
        commit(store, epoch, east=10)
        EpochLog(store).offer(Record("west_sum", 0, epoch, Quality.EXACT, (), 7, None, None, "x", "p"))
        EpochLog(theirs).offer(Record("clicks", 0, epoch, Quality.EXACT, (), 30, None, None, "x", "p"))
    reading = Reading(stream="clicks", name="west", job="other")
    tasks = [task for task in TASKS if task.name != "west/0"]
    tasks = [task.model_copy(update={"reads": (reading,)}) if task.pe == "west_sum" else task for task in tasks]
    one = adaptor(store, initial=WEST, tasks=tasks, others={"other": EpochLog(theirs)})
    views = [r for r in replicas(active=[task.name for task in TASKS]) if r.task != "west/0"]
    decided = {decision.task: decision.replicas for decision in one.check(views, 100.0)}
    assert decided == {"east/0": (0,), "east_sum/0": (0,)}
    assert one.rates.measured(TOPOLOGY).operators["west"].rates == (60.0,)


@pytest.mark.parametrize("other", ["adapt", "strategy"])
def test_upstream_backup_excludes_other_switching(other):
    switching = {"adapt": {"plan": "plan.json", "adapt": {"budget": 1}}, "strategy": {"strategy": "strategy.json"}}[other]
    document = {"job": "j", "application": "a.py", "contract": {"protection": "upstream"}, **switching}
    with pytest.raises(DocumentError, match=f"contract.protection.*'upstream' wakes and idles replicas, and so does '{other}'"):
        check_document(document, Job, thing="job")
    document["contract"], document["contracts"] = {}, {"vwap": {"protection": "upstream"}}
    with pytest.raises(DocumentError, match=r"contracts\.vwap\.protection"):
        check_document(document, Job, thing="job")


def test_adapt_requires_a_plan_and_valid_numbers():
    document = {"job": "j", "application": "a.py", "adapt": {"budget": -1, "every_s": 0}}
    with pytest.raises(DocumentError) as raised:
        check_document(document, Job, thing="job")
    message = str(raised.value)
    assert "adapt: wanted a 'plan' to start with, got none" in message
    assert "adapt.budget" in message and "adapt.every_s" in message
