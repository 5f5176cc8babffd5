"""Absent epochs on a real log, without processes: what is committed, and when."""

import pytest
from obstore.store import MemoryStore

from holdfast.log import Store

from .conftest import absent_committer as single_committer
from .conftest import commit, first_qualities, replica


class RestartedCommitter:
    """A committer of an orchestrator that restarts before every check, with the same log."""

    def __init__(self, *arguments, **options):
        self._start = lambda: single_committer(*arguments, **options)

    def check(self, *arguments, **options):
        return self._start().check(*arguments, **options)


@pytest.fixture(params=[single_committer, RestartedCommitter], ids=["one orchestrator", "restarted before every check"])
def absent_committer(request):
    return request.param


def test_absent_epochs_are_committed_after_the_contracts_wait(store, absent_committer):
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


def test_epochs_the_task_committed_meanwhile_are_not_absent(absent_committer):
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


def test_wait_begins_with_the_epochs_input(store, absent_committer):
    committer = absent_committer(store)
    commit(store, "src", 1, at_s=101.0)
    dead = [replica("src/0", live=1), replica("a/0", "failed"), replica("b/0", live=0)]
    committer.check(dead, 101.0)
    commit(store, "src", 2, at_s=103.5)
    committer.check(dead, 104.0)
    assert first_qualities(store, "a", range(1, 3)) == ["absent", None]


@pytest.mark.parametrize("skew_s", [-30.0, 0.0, 30.0])
def test_wait_does_not_depend_on_the_producers_clock(store, skew_s, absent_committer):
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


def test_absent_epochs_pass_through_dead_consumers(store, absent_committer):
    committer = absent_committer(store, after_s=0.0)
    commit(store, "src", 1, at_s=101.0)
    dead = [replica("src/0", live=1), replica("a/0", "lost"), replica("b/0", "lost")]
    committer.check(dead, 102.0)
    committer.check(dead, 103.0)
    assert first_qualities(store, "b", [1]) == ["absent"]


def test_epochs_of_a_dead_source_follow_the_clock(store, absent_committer):
    committer = absent_committer(store, after_s=1.0)
    dead = [replica("src/0", "lost"), replica("a/0", live=0), replica("b/0", live=0)]
    committer.check(dead, 100.0)
    committer.check(dead, 103.0)
    assert first_qualities(store, "src") == ["absent", "absent", None, None, None]


def test_absent_epochs_continue_until_the_replica_has_caught_up(store, absent_committer):
    committer = absent_committer(store, after_s=0.5)
    for epoch in (1, 2):
        commit(store, "src", epoch, at_s=101.0)
    gone = [replica("src/0", live=2), replica("b/0", live=0)]
    committer.check([*gone, replica("a/0", "lost")], 102.0)
    committer.check([*gone, replica("a/0", "starting", incarnation=2)], 103.0)
    assert first_qualities(store, "a", [1, 2]) == ["absent", "absent"]
    commit(store, "src", 3, at_s=103.0)
    committer.check([*gone, replica("a/0", live=1)], 103.4)
    committer.check([*gone, replica("a/0", live=1)], 104.0)
    assert first_qualities(store, "a", [3]) == ["absent"]
    (note,) = committer.check([*gone, replica("a/0", live=3)], 104.5)
    assert note.text == "a/0 is back"
    commit(store, "src", 4, at_s=105.0)
    committer.check([*gone, replica("a/0", live=3)], 109.0)
    assert first_qualities(store, "a", [4]) == [None]


@pytest.mark.parametrize("state", ["running", "starting"])
def test_restarted_orchestrator_continues_an_outage(store, state, absent_committer):
    for epoch in (1, 2):
        commit(store, "src", epoch, at_s=101.0)
    healthy = [replica("src/0", live=3), replica("b/0", live=0)]
    before = absent_committer(store, after_s=0.5)
    for now_s in (101.0, 102.0):
        before.check([*healthy, replica("a/0", "lost")], now_s)
    assert first_qualities(store, "a", [1, 2]) == ["absent", "absent"]
    commit(store, "src", 3, at_s=103.0)
    after = absent_committer(store, after_s=0.5)
    for now_s in (104.0, 104.6):
        after.check([*healthy, replica("a/0", state, live=0 if state == "running" else None)], now_s)
    assert first_qualities(store, "a", [3]) == ["absent"]
    commit(store, "src", 4, at_s=105.0)
    (note,) = after.check([*healthy, replica("a/0", live=3)], 106.0)
    assert note.text == "a/0 is back"
    assert first_qualities(store, "a", [4]) == [None]


@pytest.mark.parametrize("state", ["placed", "starting"])
def test_unnoticed_restart_counts_as_down_until_the_replica_runs(store, absent_committer, state):
    committer = absent_committer(store, after_s=0.5)
    commit(store, "src", 1, at_s=101.0)
    healthy = [replica("src/0", live=1), replica("b/0", live=0)]
    committer.check([*healthy, replica("a/0", live=0)], 101.0)
    for now_s in (102.0, 102.6):
        committer.check([*healthy, replica("a/0", state, incarnation=2)], now_s)
    assert first_qualities(store, "a", [1]) == ["absent"]


class Crash(Exception):
    """The orchestrator dies."""


class DyingStore(Store):
    """A store on which the orchestrator dies before or after its n-th change."""

    def __init__(self, memory, *, dies_at, before):
        super().__init__(memory)
        self.changes, self._dies_at, self._before = 0, dies_at, before

    def _change(self, change, *arguments):
        self.changes += 1
        if self.changes == self._dies_at and self._before:
            raise Crash
        result = change(*arguments)
        if self.changes == self._dies_at:
            raise Crash
        return result

    def create(self, name, content):
        return self._change(super().create, name, content)

    def replace(self, name, content):
        return self._change(super().replace, name, content)

    def remove(self, names):
        return self._change(super().remove, names)


def run_outage(dies_at, *, before):
    """Take a task through an outage, with an orchestrator that dies once and is restarted. Return its epochs and the changes."""
    memory = MemoryStore()
    store, dying = Store(memory), DyingStore(memory, dies_at=dies_at, before=before)
    committer = single_committer(dying, after_s=0.5)
    healthy = [replica("src/0", live=9), replica("b/0", live=0)]
    states = [replica("a/0", "lost")] * 6 + [replica("a/0", "starting", incarnation=2)] * 4
    for step, state in enumerate([*states, *[replica("a/0", live=0, incarnation=2)] * 4, replica("a/0", live=4, incarnation=2)]):
        if step % 3 == 0:
            commit(store, "src", step // 3 + 1, at_s=100.0)
        try:
            committer.check([*healthy, state], 101.0 + 0.25 * step)
        except Crash:
            committer = single_committer(store, after_s=0.5)
            committer.check([*healthy, state], 101.0 + 0.25 * step)
    return first_qualities(store, "a"), list(store.names("outages/")), dying.changes


def test_orchestrator_may_die_at_any_change_of_an_outage():
    epochs, outages, changes = run_outage(None, before=True)
    assert (epochs, outages) == (["absent"] * 4 + [None], []) and changes > 8
    for dies_at in range(1, changes + 1):
        for before in (True, False):
            assert run_outage(dies_at, before=before)[:2] == (epochs, outages)


def test_no_absent_epochs_without_a_contract(store, absent_committer):
    committer = absent_committer(store, after_s=None)
    commit(store, "src", 1, at_s=101.0)
    for now_s in (102.0, 200.0):
        assert committer.check([replica("a/0", "lost")], now_s) == []
    assert first_qualities(store, "a", [1]) == [None]


def test_starting_job_is_not_down(store, absent_committer):
    committer = absent_committer(store, after_s=0.0)
    commit(store, "src", 1, at_s=101.0)
    starting = [replica("src/0", live=1), replica("a/0", "starting"), replica("b/0", "placed")]
    assert committer.check(starting, 110.0) == []
    assert first_qualities(store, "a", [1]) == [None]


def test_task_with_a_waking_replica_is_not_down(store, absent_committer):
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
