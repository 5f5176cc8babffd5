"""States of replicas: reports may arrive twice, late or out of order."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.control.nodes.replicas import OVER, PlacedReplica, Replicas


def replica(number: int = 0, node: str = "n1") -> PlacedReplica:
    return PlacedReplica(1, "x", 0, number, node, rank=number)


def test_report_about_an_ended_incarnation_is_ignored():
    one = replica()
    assert one.observe("running", incarnation=1, error=None, at_s=1.0)
    assert one.observe("failed", incarnation=1, error="boom", at_s=2.0)
    assert not one.observe("running", incarnation=1, error=None, at_s=3.0)
    assert (one.state, one.error, one.since_s) == ("failed", "boom", 2.0)


def test_report_about_another_incarnation_is_ignored():
    one = replica()
    one.incarnation = 2
    assert not one.observe("failed", incarnation=1, error=None, at_s=1.0)
    assert one.state == "placed"


def test_unrequested_stop_is_a_failure():
    running, stopping = replica(), replica(1)
    stopping.stopping = 3
    running.observe("stopped", incarnation=1, error=None, at_s=1.0)
    stopping.observe("stopped", incarnation=1, error=None, at_s=1.0)
    assert (running.state, running.error, stopping.state) == ("failed", "its node stopped it", "stopped")


def test_stopping_replica_that_fails_or_finishes_is_stopped():
    for word in ("failed", "finished", "lost"):
        one = replica()
        one.stopping = 3
        assert one.observe(word, incarnation=1, error="the log is full", at_s=1.0)
        assert one.state == "stopped", word


def test_lost_replica_returns_with_its_node():
    one = replica()
    one.state = "lost"
    assert one.observe("running", incarnation=1, error=None, at_s=1.0)
    assert one.state == "running"


@given(st.lists(st.sampled_from(["starting", "running", "idle", "finished", "failed"]), max_size=12))
def test_duplicate_reports_change_nothing(words):
    once, twice = replica(), replica()
    for number, word in enumerate(words):
        once.observe(word, incarnation=1, error=None, at_s=number)
    for number, word in enumerate([*words, *words] if set(words) & OVER else words):
        twice.observe(word, incarnation=1, error=None, at_s=number)
    assert once.state == twice.state


def test_failed_primary_gets_the_last_rank():
    table = Replicas()
    all_three = [replica(number, f"n{number}") for number in range(3)]
    for each in all_three:
        table.add(each)
    changed = table.demote(all_three[0])
    assert [each.rank for each in all_three] == [2, 0, 1]
    assert changed == all_three[1:]
    assert table.demote(all_three[0]) == []


def test_replicas_are_indexed_by_node_after_moves():
    table = Replicas()
    one = replica()
    table.add(one)
    table.move(one, "n2")
    assert (table.at("n1"), table.at("n2"), table.nodes()) == ([], [one], ["n2"])
    table.remove(one)
    assert (len(table), table.of(1), table.at("n2")) == (0, [], [])
