"""Activation on a real log, without processes: the measured rates, and which replicas the controller activates."""

import pytest
from obstore.store import MemoryStore

from holdfast.control.observers.activation import ActivationController, RateMonitor
from holdfast.control.observers.job_observers import Note
from holdfast.documents.job import Reading, Task
from holdfast.log import EpochLog, Quality, Record, Store
from holdfast.log.stream_progress import StreamProgress
from holdfast.log.timeline import Timeline
from holdfast.planning.laar.strategy import Activation, Strategy

from .conftest import TASKS, TIMELINE, absent_committer, activated, commit, first_qualities, replica

FOREIGN = Reading(stream="vwap", name="averages", job="market", tasks=(0, 1))


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


def test_rate_of_the_newest_common_epoch(store):
    fast = Timeline(first=1, last=None, epoch_s=1.0, opened_s=0.0, speed=2.0)
    monitor = RateMonitor(StreamProgress(EpochLog(store), fast), TASKS)
    assert monitor.rates() is None
    commit(store, "src", 1, rows=10)
    commit(store, "src", 2, rows=4)
    assert monitor.rates() == (2, {"src": 8.0})


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
    progress = StreamProgress(EpochLog(store), TIMELINE)
    monitor, committer = RateMonitor(progress, TASKS), absent_committer(store, after_s=0.5)
    for epoch in range(1, 4):
        commit(store, "src", epoch, rows=5)
        commit(store, "a", epoch)
    alive = [replica("src/0", live=3), replica("a/0", live=3), replica("b/0", live=3)]
    assert committer.check(alive, 103.0) == [] and monitor.rates() == (3, {"src": 5.0})
    for epoch in range(4, 31):
        commit(store, "src", epoch, rows=7)
        commit(store, "a", epoch)
    for stream in ("src", "a"):
        EpochLog(store).trim(stream, 0, after=0, until=20)
    assert progress.last_epoch("a", 0) == 30 and monitor.rates() == (30, {"src": 7.0})
    commit(store, "src", 31, at_s=131.0)
    dead = [replica("src/0", live=31), replica("a/0", "lost"), replica("b/0", live=30)]
    committer.check(dead, 132.0)
    committer.check(dead, 133.0)
    assert first_qualities(store, "a", [30, 31]) == ["exact", "absent"]


def test_no_rate_if_the_newest_epoch_is_trimmed(store):
    monitor = RateMonitor(StreamProgress(EpochLog(store), TIMELINE), TASKS)
    commit(store, "src", 1, rows=5)
    EpochLog(store).trim("src", 0, after=0, until=1)
    assert monitor.rates() is None
    commit(store, "src", 2, rows=6)
    assert monitor.rates() == (2, {"src": 6.0})


def test_heavier_configuration_is_used_at_once():
    controller = ActivationController(strategy(), TASKS, epoch_s=100.0)
    assert activated(controller.follow(1, {"src": 3.0}, both())) == {}
    assert activated(controller.follow(2, {"src": 6.0}, both())) == {"a/0": (0,), "b/0": (1,)}


def changing(*, low=(0,), high=(1,)):
    """A controller whose heavier configuration has another replica of `a` active than the lighter one."""
    given = strategy()
    light, heavy = (c.model_copy(update={"active": {"a": who}}) for c, who in zip(given.configurations, (low, high), strict=True))
    controller = ActivationController(given.model_copy(update={"configurations": (light, heavy)}), TASKS, epoch_s=100.0)
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


@pytest.mark.parametrize("successor", [a(1, live=11), a(1, live=10, caught_up=True)])
def test_replica_is_idled_when_its_successor_has_caught_up(successor):
    controller = changing()
    controller.follow(2, {"src": 6.0}, [a(0, live=9), a(1, "idle", active=False)])
    assert activated(controller.follow(3, {"src": 6.0}, [a(0, live=11), successor])) == {"a/0": (1,)}


@pytest.mark.parametrize("dead", [a(0, "lost", live=9), a(0, "failed"), a(0, "idle")])
def test_dead_replica_is_not_kept_active(dead):
    controller = changing()
    assert activated(controller.follow(2, {"src": 6.0}, [dead, a(1, "starting")])) == {"a/0": (1,)}


def test_replicas_that_fall_behind_still_count():
    controller = changing(low=(0, 1), high=(1,))
    assert activated(controller.follow(2, {"src": 6.0}, [a(0, live=30), a(1, live=20)])) == {"a/0": (1,)}


def test_lighter_configuration_must_last():
    controller, idle = ActivationController(strategy(), TASKS, epoch_s=100.0), {"a1_active": False, "b0_active": False}
    controller.follow(1, {"src": 8.0}, both())
    for epoch, rate in enumerate((3.0, 3.0, 8.0, 8.0, 3.0, 3.0), start=2):
        assert activated(controller.follow(epoch, {"src": rate}, both(**idle))) == {}
    assert activated(controller.follow(8, {"src": 3.0}, both(**idle))) == {"a/0": (0, 1), "b/0": (0, 1)}


def test_living_replica_replaces_a_dead_active_one():
    controller = ActivationController(strategy(), TASKS)
    controller.follow(1, {"src": 6.0}, both())
    dead = both(a0="lost", a1="idle", a1_active=False, b0="idle", b0_active=False)
    assert activated(controller.follow(1, {"src": 6.0}, dead)) == {"a/0": (0, 1)}


def test_exceeded_rates_are_reported_once():
    controller = ActivationController(strategy(), TASKS, epoch_s=100.0)
    decisions = [each for epoch in range(1, 8) for each in controller.follow(epoch, {"src": 9.0}, both())]
    (text,) = [each.text for each in decisions if isinstance(each, Note) and "dominates" in each.text]
    assert text.startswith("no configuration of the strategy dominates the measured rates: 'src' by 1 tuples/s above the highest;")
