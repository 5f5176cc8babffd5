"""Stand-ins and activation on a real log, without processes: what is decided, and what is committed."""

import asyncio
from dataclasses import replace

import pytest
from obstore.store import MemoryStore

from holdfast.control.observers.absent_epochs import AbsentCommitter
from holdfast.control.observers.activation import STEADY_EPOCHS, ActivationController, RateMonitor
from holdfast.control.observers.job_observers import Activate, JobView, Note, ReplicaView
from holdfast.control.observers.spark_job_observer import SparkJobObserver
from holdfast.documents.job import Contract, Job, Layout, Reading, Task
from holdfast.log import EpochLog, Quality, Record, Store
from holdfast.log.stream_progress import StreamProgress
from holdfast.log.timeline import Timeline, agree_on_timeline
from holdfast.planning.laar.strategy import Activation, Strategy
from holdfast.protocol.messages import ReplicaStatus

TIMELINE = Timeline(first=1, last=None, epoch_s=1.0, opened_s=100.0)
TASKS = (
    Task(pe="src", kind="source", makes=("src",)),
    Task(pe="a", reads=(Reading(stream="src"),), makes=("a",)),
    Task(pe="b", reads=(Reading(stream="a"),), makes=("b",)),
    Task(pe="out", kind="sink", reads=(Reading(stream="b"),)),
)


def replica(task, state="running", *, number=0, live=None, active=True, caught_up=False):
    said = {"key": task, "incarnation": 1, "state": "running", "live": live, "caught_up": caught_up}
    status = ReplicaStatus(**said) if live is not None else None
    return ReplicaView(f"1:{task}.{number}", task, number, "n1", 1, number, active, state, 0.0, None, None, status)


def commit(store, stream, epoch, *, at_s=0.0, rows=0, quality=Quality.EXACT):
    EpochLog(store).offer(Record(stream, 0, epoch, quality, (), rows, None, None, "x", "p", committed_s=at_s))


def stand_in(store, *, after_s=2.0, tasks=TASKS):
    job = Job(job="j", application="app.py", log="x", contract=Contract(tentative_after_s=after_s))
    return AbsentCommitter(job, tasks, store, TIMELINE)


@pytest.fixture
def store():
    return Store(MemoryStore())


def firsts(store, stream, epochs=range(1, 6)):
    log = EpochLog(store)
    return [record and record.quality.value for record in (log.first(stream, 0, epoch=epoch) for epoch in epochs)]


def test_absent_epochs_are_committed_after_the_contracts_wait(store):
    one = stand_in(store)
    for epoch in (1, 2, 3):
        commit(store, "src", epoch, at_s=100.0 + epoch)
    commit(store, "a", 1, at_s=101.5)
    healthy = [replica("src/0", live=3), replica("b/0", live=1)]
    assert one.check([*healthy, replica("a/0", live=1)], 103.0) == []
    dead = [*healthy, replica("a/0", "lost")]
    assert one.check(dead, 104.0) == []
    notes = one.check(dead, 106.1)
    assert firsts(store, "a") == ["exact", "absent", "absent", None, None]
    assert notes[0].text == "committed 2 absent epochs for a/0"
    assert notes[0].data == {"task": "a/0", "epochs": 2, "absent": [("a", 2, 102.0), ("a", 3, 103.0)]}


def test_epochs_the_task_committed_meanwhile_are_not_absent():
    class Overtaken(Store):
        """The task itself commits an epoch just before it is stood in for."""

        def create(self, name, content):
            if name.endswith("2.first") and b"absent" in content:
                commit(Store(memory), "a", 2)
            return super().create(name, content)

    memory = MemoryStore()
    store = Overtaken(memory)
    one = stand_in(store, after_s=0.0)
    for epoch in (1, 2, 3):
        commit(store, "src", epoch, at_s=100.0 + epoch)
    (note,) = one.check([replica("src/0", live=3), replica("a/0", "lost"), replica("b/0", live=0)], 104.0)
    assert [epoch for _, epoch, _ in note.data["absent"]] == [1, 3]
    assert firsts(store, "a", range(1, 4)) == ["absent", "exact", "absent"]


def test_wait_begins_with_the_epochs_input(store):
    one = stand_in(store)
    commit(store, "src", 1, at_s=101.0)
    dead = [replica("src/0", live=1), replica("a/0", "failed"), replica("b/0", live=0)]
    one.check(dead, 101.0)
    commit(store, "src", 2, at_s=103.5)
    one.check(dead, 104.0)
    assert firsts(store, "a", range(1, 3)) == ["absent", None]


def test_absent_epochs_pass_through_dead_consumers(store):
    one = stand_in(store, after_s=0.0)
    commit(store, "src", 1, at_s=101.0)
    dead = [replica("src/0", live=1), replica("a/0", "lost"), replica("b/0", "lost")]
    one.check(dead, 102.0)
    one.check(dead, 103.0)
    assert firsts(store, "b", [1]) == ["absent"]


def test_epochs_of_a_dead_source_follow_the_clock(store):
    one = stand_in(store, after_s=1.0)
    dead = [replica("src/0", "lost"), replica("a/0", live=0), replica("b/0", live=0)]
    one.check(dead, 100.0)
    one.check(dead, 103.0)
    assert firsts(store, "src") == ["absent", "absent", None, None, None]


def test_absent_epochs_continue_until_the_replica_has_caught_up(store):
    one = stand_in(store, after_s=0.5)
    for epoch in (1, 2):
        commit(store, "src", epoch, at_s=101.0)
    gone = [replica("src/0", live=2), replica("b/0", live=0)]
    one.check([*gone, replica("a/0", "lost")], 102.0)
    one.check([*gone, replica("a/0", "starting")], 103.0)
    assert firsts(store, "a", [1, 2]) == ["absent", "absent"]
    commit(store, "src", 3, at_s=103.0)
    one.check([*gone, replica("a/0", live=1)], 104.0)
    assert firsts(store, "a", [3]) == ["absent"]
    (note,) = one.check([*gone, replica("a/0", live=3)], 104.5)
    assert note.text == "a/0 is back"
    commit(store, "src", 4, at_s=105.0)
    one.check([*gone, replica("a/0", live=3)], 109.0)
    assert firsts(store, "a", [4]) == [None]


def test_no_absent_epochs_without_a_contract(store):
    one = stand_in(store, after_s=None)
    commit(store, "src", 1, at_s=101.0)
    for now_s in (102.0, 200.0):
        assert one.check([replica("a/0", "lost")], now_s) == []
    assert firsts(store, "a", [1]) == [None]


def test_starting_job_is_not_down(store):
    one = stand_in(store, after_s=0.0)
    commit(store, "src", 1, at_s=101.0)
    starting = [replica("src/0", live=1), replica("a/0", "starting"), replica("b/0", "placed")]
    assert one.check(starting, 110.0) == []
    assert firsts(store, "a", [1]) == [None]


def strategy():
    def activation(name, rate, active):
        return Activation(name=name, rates={"src": rate}, probability=0.5, active=active)

    return Strategy(
        application="j",
        solver="given",
        outcome="SOL",
        sla=0.5,
        internal_completeness=0.6,
        cost=1.0,
        billing_period_s=1.0,
        replicas=2,
        placement={"a": ("n1", "n2"), "b": ("n2", "n1")},
        configurations=(
            activation("Low", 4.0, {"a": (0, 1), "b": (0, 1)}),
            activation("High", 8.0, {"a": (0,), "b": (1,)}),
        ),
    )


def both(state="running", **of):
    return [
        replica(f"{pe}/0", of.get(f"{pe}{number}", state), number=number, active=of.get(f"{pe}{number}_active", True))
        for pe in "ab"
        for number in (0, 1)
    ]


def activated(decisions):
    return {decision.task: decision.replicas for decision in decisions if isinstance(decision, Activate)}


def test_rate_of_the_newest_common_epoch(store):
    fast = Timeline(first=1, last=None, epoch_s=1.0, opened_s=0.0, speed=2.0)
    monitor = RateMonitor(StreamProgress(EpochLog(store), fast), TASKS)
    assert monitor.rates() is None
    commit(store, "src", 1, rows=10)
    commit(store, "src", 2, rows=4)
    assert monitor.rates() == (2, {"src": 8.0})


FOREIGN = Reading(stream="vwap", name="averages", job="market", tasks=(0, 1))


@pytest.mark.parametrize(("own", "rates"), [((), {"averages": 7.0}), (TASKS[:1], {"averages": 7.0, "src": 5.0})])
def test_rate_of_a_source_fed_by_another_job(store, own, rates):
    theirs = Store(MemoryStore())
    tasks = (*own, Task(pe="a", reads=(FOREIGN,), makes=("a",)), Task(pe="b", reads=(FOREIGN,), makes=("b",)))
    monitor = RateMonitor(StreamProgress(EpochLog(store), TIMELINE, {"market": EpochLog(theirs)}), tasks)
    commit(store, "src", 1, rows=5)
    assert monitor.rates() is None
    for task, rows in ((0, 3), (1, 4)):
        EpochLog(theirs).offer(Record("vwap", task, 1, Quality.EXACT, (), rows, None, None, "x", "p"))
    assert monitor.rates() == (1, rates)


def test_trimmed_epochs_do_not_hide_later_ones(store):
    heads = StreamProgress(EpochLog(store), TIMELINE)
    monitor, one = RateMonitor(heads, TASKS), stand_in(store, after_s=0.5)
    for epoch in range(1, 4):
        commit(store, "src", epoch, rows=5)
        commit(store, "a", epoch)
    alive = [replica("src/0", live=3), replica("a/0", live=3), replica("b/0", live=3)]
    assert one.check(alive, 103.0) == [] and monitor.rates() == (3, {"src": 5.0})
    for epoch in range(4, 31):
        commit(store, "src", epoch, rows=7)
        commit(store, "a", epoch)
    for stream in ("src", "a"):
        EpochLog(store).trim(stream, 0, after=0, until=20)
    assert heads.last_epoch("a", 0) == 30 and monitor.rates() == (30, {"src": 7.0})
    commit(store, "src", 31, at_s=131.0)
    dead = [replica("src/0", live=31), replica("a/0", "lost"), replica("b/0", live=30)]
    one.check(dead, 132.0)
    one.check(dead, 133.0)
    assert firsts(store, "a", [30, 31]) == ["exact", "absent"]


def test_no_rate_if_the_newest_epoch_is_trimmed(store):
    monitor = RateMonitor(StreamProgress(EpochLog(store), TIMELINE), TASKS)
    commit(store, "src", 1, rows=5)
    EpochLog(store).trim("src", 0, after=0, until=1)
    assert monitor.rates() is None
    commit(store, "src", 2, rows=6)
    assert monitor.rates() == (2, {"src": 6.0})


def test_heavier_configuration_is_used_at_once():
    controller = ActivationController(strategy(), TASKS)
    assert activated(controller.follow(1, {"src": 3.0}, both())) == {}
    assert activated(controller.follow(2, {"src": 6.0}, both())) == {"a/0": (0,), "b/0": (1,)}


def changing(*, low=(0,), high=(1,)):
    """A controller whose heavier configuration has another replica of `a` active than the lighter one."""
    given = strategy()
    light, heavy = (c.model_copy(update={"active": {"a": who}}) for c, who in zip(given.configurations, (low, high), strict=True))
    controller = ActivationController(given.model_copy(update={"configurations": (light, heavy)}), TASKS)
    controller.follow(1, {"src": 3.0}, [a(n, live=9) if n in low else a(n, "idle", active=False) for n in (0, 1)])
    return controller


def a(number, state="running", **more):
    return replica("a/0", state, number=number, **more)


@pytest.mark.parametrize("behind", [a(1, "idle"), a(1, "starting"), a(1), a(1, live=5)])
def test_replica_stays_active_until_its_successor_has_caught_up(behind):
    controller = changing()
    first = controller.follow(2, {"src": 6.0}, [a(0, live=9), a(1, "idle", active=False)])
    assert activated(first) == {"a/0": (0, 1)}
    assert activated(controller.follow(3, {"src": 6.0}, [a(0, live=10), behind])) == {}


@pytest.mark.parametrize("there", [a(1, live=11), a(1, live=10, caught_up=True)])
def test_replica_is_idled_when_its_successor_has_caught_up(there):
    controller = changing()
    controller.follow(2, {"src": 6.0}, [a(0, live=9), a(1, "idle", active=False)])
    assert activated(controller.follow(3, {"src": 6.0}, [a(0, live=11), there])) == {"a/0": (1,)}


@pytest.mark.parametrize("gone", [a(0, "lost", live=9), a(0, "failed"), a(0, "idle")])
def test_dead_replica_is_not_kept_active(gone):
    controller = changing()
    assert activated(controller.follow(2, {"src": 6.0}, [gone, a(1, "starting")])) == {"a/0": (1,)}


def test_replicas_that_fall_behind_still_count():
    controller = changing(low=(0, 1), high=(1,))
    assert activated(controller.follow(2, {"src": 6.0}, [a(0, live=30), a(1, live=20)])) == {"a/0": (1,)}


def test_task_with_a_waking_replica_is_not_down(store):
    one = stand_in(store, after_s=0.0)
    commit(store, "src", 1, at_s=101.0)
    woken = [replica("src/0", live=1), a(0, "idle", active=False), a(1, "idle"), replica("b/0", live=0)]
    one.check(woken, 102.0)
    one.check(woken, 103.0)
    assert firsts(store, "a", [1]) == [None]
    asleep = [replica("src/0", live=1), a(0, "lost"), a(1, "idle", active=False), replica("b/0", live=0)]
    one.check(asleep, 104.0)
    one.check(asleep, 105.0)
    assert firsts(store, "a", [1]) == ["absent"]


def test_lighter_configuration_must_last():
    controller = ActivationController(strategy(), TASKS)
    idle = {"a1_active": False, "b0_active": False}
    controller.follow(1, {"src": 6.0}, both())
    for epoch in range(2, 2 + STEADY_EPOCHS - 1):
        assert activated(controller.follow(epoch, {"src": 3.0}, both(**idle))) == {}
    controller.follow(20, {"src": 7.0}, both(**idle))
    for epoch in range(21, 21 + STEADY_EPOCHS - 1):
        assert activated(controller.follow(epoch, {"src": 3.0}, both(**idle))) == {}
    assert activated(controller.follow(40, {"src": 3.0}, both(**idle))) == {"a/0": (0, 1), "b/0": (0, 1)}


def test_living_replica_replaces_a_dead_active_one():
    controller = ActivationController(strategy(), TASKS)
    controller.follow(1, {"src": 6.0}, both())
    dead = both(a0="lost", a1="idle", a1_active=False, b0="idle", b0_active=False)
    assert activated(controller.follow(1, {"src": 6.0}, dead)) == {"a/0": (0, 1)}


def test_exceeded_rates_are_reported_once():
    controller = ActivationController(strategy(), TASKS)
    said = [d.text for epoch in (1, 2, 3) for d in controller.follow(epoch, {"src": 9.0}, both()) if isinstance(d, Note)]
    (told,) = [text for text in said if "dominates" in text]
    assert told.startswith("no configuration of the strategy dominates the measured rates: 'src' by 1 tuples/s above the highest;")


def test_absent_epochs_of_shared_pes_are_in_their_own_log(tmp_path):
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
    assert asyncio.run(observer.observe(whole)) == []
    left = replace(view(1, TASKS[:2], (replica("src/0", live=2), replica("a/0", "lost")), log="one"), state="canceled")
    shared = tuple(t.model_copy(update={"pe": f"one:{t.pe}", "shared": f"one:{t.pe}", "reads": (), "makes": ()}) for t in TASKS[:2])
    mine = Task(pe="mine", reads=(Reading(stream="a", name="theirs", job="one"),), makes=("mine",))
    sharer = view(2, (*shared, mine), (*left.replicas, replace(replica("mine/0", live=0), key="2:mine/0.0")), log="two")
    assert asyncio.run(observer.observe(sharer)) == []
    (note,) = asyncio.run(observer.observe(left))
    assert note.text == "committed 2 absent epochs for a/0"
    assert firsts(one, "b") == [None] * 5  # nobody makes it any more
