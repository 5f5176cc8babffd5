"""Absent epochs on a real log, without processes: what is committed, and when."""

import pytest
from obstore.store import MemoryStore

from holdfast.log import Store

from .conftest import absent_committer, commit, first_qualities, replica


def test_absent_epochs_are_committed_after_the_contracts_wait(store):
    committer = absent_committer(store)
    for epoch in (1, 2, 3):
        commit(store, "src", epoch, at_s=100.0 + epoch)
    commit(store, "a", 1, at_s=101.5)
    healthy = [replica("src/0", live=3), replica("b/0", live=1)]
    assert committer.check([*healthy, replica("a/0", live=1)], 103.0) == []
    dead = [*healthy, replica("a/0", "lost")]
    assert committer.check(dead, 104.0) == []
    notes = committer.check(dead, 106.1)
    assert first_qualities(store, "a") == ["exact", "absent", "absent", None, None]
    assert notes[0].text == "committed 2 absent epochs for a/0"
    assert notes[0].data == {"task": "a/0", "epochs": 2, "absent": [("a", 2, 102.0), ("a", 3, 103.0)]}


def test_epochs_the_task_committed_meanwhile_are_not_absent():
    class Overtaken(Store):
        """The task itself commits an epoch just before the absent record is offered."""

        def create(self, name, content):
            if name.endswith("2.first") and b"absent" in content:
                commit(Store(memory), "a", 2)
            return super().create(name, content)

    memory = MemoryStore()
    store = Overtaken(memory)
    committer = absent_committer(store, after_s=0.0)
    for epoch in (1, 2, 3):
        commit(store, "src", epoch, at_s=100.0 + epoch)
    (note,) = committer.check([replica("src/0", live=3), replica("a/0", "lost"), replica("b/0", live=0)], 104.0)
    assert [epoch for _, epoch, _ in note.data["absent"]] == [1, 3]
    assert first_qualities(store, "a", range(1, 4)) == ["absent", "exact", "absent"]


def test_wait_begins_with_the_epochs_input(store):
    committer = absent_committer(store)
    commit(store, "src", 1, at_s=101.0)
    dead = [replica("src/0", live=1), replica("a/0", "failed"), replica("b/0", live=0)]
    committer.check(dead, 101.0)
    commit(store, "src", 2, at_s=103.5)
    committer.check(dead, 104.0)
    assert first_qualities(store, "a", range(1, 3)) == ["absent", None]


@pytest.mark.parametrize("skew_s", [-30.0, 0.0, 30.0])
def test_wait_does_not_depend_on_the_producers_clock(store, skew_s):
    committer = absent_committer(store)
    dead = [replica("src/0", live=1), replica("a/0", "failed"), replica("b/0", live=0)]
    committer.check(dead, 101.0)
    committer.check(dead, 103.4)
    for epoch in (1, 2):
        commit(store, "src", epoch, at_s=103.5 + skew_s)
    committer.check(dead, 103.6)
    committer.check(dead, 105.2)
    assert first_qualities(store, "a", [1, 2]) == [None, None]
    committer.check(dead, 105.7)
    assert first_qualities(store, "a", [1, 2]) == ["absent", "absent"]


def test_absent_epochs_pass_through_dead_consumers(store):
    committer = absent_committer(store, after_s=0.0)
    commit(store, "src", 1, at_s=101.0)
    dead = [replica("src/0", live=1), replica("a/0", "lost"), replica("b/0", "lost")]
    committer.check(dead, 102.0)
    committer.check(dead, 103.0)
    assert first_qualities(store, "b", [1]) == ["absent"]


def test_epochs_of_a_dead_source_follow_the_clock(store):
    committer = absent_committer(store, after_s=1.0)
    dead = [replica("src/0", "lost"), replica("a/0", live=0), replica("b/0", live=0)]
    committer.check(dead, 100.0)
    committer.check(dead, 103.0)
    assert first_qualities(store, "src") == ["absent", "absent", None, None, None]


def test_absent_epochs_continue_until_the_replica_has_caught_up(store):
    committer = absent_committer(store, after_s=0.5)
    for epoch in (1, 2):
        commit(store, "src", epoch, at_s=101.0)
    gone = [replica("src/0", live=2), replica("b/0", live=0)]
    committer.check([*gone, replica("a/0", "lost")], 102.0)
    committer.check([*gone, replica("a/0", "starting")], 103.0)
    assert first_qualities(store, "a", [1, 2]) == ["absent", "absent"]
    commit(store, "src", 3, at_s=103.0)
    committer.check([*gone, replica("a/0", live=1)], 104.0)
    assert first_qualities(store, "a", [3]) == ["absent"]
    (note,) = committer.check([*gone, replica("a/0", live=3)], 104.5)
    assert note.text == "a/0 is back"
    commit(store, "src", 4, at_s=105.0)
    committer.check([*gone, replica("a/0", live=3)], 109.0)
    assert first_qualities(store, "a", [4]) == [None]


@pytest.mark.parametrize("state", ["running", "starting"])
def test_restarted_orchestrator_continues_an_outage(store, state):
    for epoch in (1, 2):
        commit(store, "src", epoch, at_s=101.0)
    healthy = [replica("src/0", live=3), replica("b/0", live=0)]
    before = absent_committer(store, after_s=0.5)
    for now_s in (101.0, 102.0):
        before.check([*healthy, replica("a/0", "lost")], now_s)
    assert first_qualities(store, "a", [1, 2]) == ["absent", "absent"]
    commit(store, "src", 3, at_s=103.0)
    after = absent_committer(store, after_s=0.5)
    after.check([*healthy, replica("a/0", state, live=0 if state == "running" else None)], 104.0)
    assert first_qualities(store, "a", [3]) == ["absent"]
    commit(store, "src", 4, at_s=105.0)
    (note,) = after.check([*healthy, replica("a/0", live=3)], 106.0)
    assert note.text == "a/0 is back"
    assert first_qualities(store, "a", [4]) == [None]


def test_no_absent_epochs_without_a_contract(store):
    committer = absent_committer(store, after_s=None)
    commit(store, "src", 1, at_s=101.0)
    for now_s in (102.0, 200.0):
        assert committer.check([replica("a/0", "lost")], now_s) == []
    assert first_qualities(store, "a", [1]) == [None]


def test_starting_job_is_not_down(store):
    committer = absent_committer(store, after_s=0.0)
    commit(store, "src", 1, at_s=101.0)
    starting = [replica("src/0", live=1), replica("a/0", "starting"), replica("b/0", "placed")]
    assert committer.check(starting, 110.0) == []
    assert first_qualities(store, "a", [1]) == [None]


def test_task_with_a_waking_replica_is_not_down(store):
    committer = absent_committer(store, after_s=0.0)
    commit(store, "src", 1, at_s=101.0)
    live = [replica("src/0", live=1), replica("b/0", live=0)]
    waking = [
        *live,
        replica("src/0", live=1),
        replica("a/0", "idle", number=0, active=False),
        replica("a/0", "idle", number=1),
        replica("b/0", live=0),
    ]
    committer.check(waking, 102.0)
    committer.check(waking, 103.0)
    assert first_qualities(store, "a", [1]) == [None]
    dead = [
        *live,
        replica("src/0", live=1),
        replica("a/0", "lost", number=0),
        replica("a/0", "idle", number=1, active=False),
        replica("b/0", live=0),
    ]
    committer.check(dead, 104.0)
    committer.check(dead, 105.0)
    assert first_qualities(store, "a", [1]) == ["absent"]
