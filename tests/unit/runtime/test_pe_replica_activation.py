"""Idle PE replicas that become active: they take over an active replica's state, or replay what they missed."""

import pytest

from holdfast.documents.job import Contract

from .pe_cluster import GOLDEN, Cluster


def activated_replica(cluster, name, *, now_s):
    replica = cluster.replica(name, clock=lambda: now_s[0])
    replica.on_activation()
    return replica


def cluster_after(epochs):
    """Return a cluster whose tasks have processed this many epochs without a checkpoint."""
    cluster = Cluster()
    cluster.produce(epochs)
    cluster.settle()
    return cluster


def test_activated_replica_takes_over_state_without_replay():
    cluster, now_s = cluster_after(8), [1.0]
    replica = activated_replica(cluster, "a", now_s=now_s)
    assert replica.step() and replica.rows_read == 0, "it waits, and does not count as caught up"
    cluster.produce()
    cluster.settle()
    now_s[0] = 2.0
    replica.step()
    assert (replica.clean_position.epoch, replica.rows_read) == (8, 0)
    assert not cluster.checkpoints.is_requested("a/0")
    cluster.produce()
    assert replica.step()
    cluster.settle()
    assert (replica.clean_position.epoch, replica.rows_read) == (9, 1)
    assert cluster.final_checksums("a")[:10] == GOLDEN["a"][:10]


@pytest.mark.parametrize(
    ("epochs", "waiting", "requests"),
    [(8, 1, True), (2, 0, False), (8, 2, False)],
    ids=["no answer", "few epochs missing", "no active replica"],
)
def test_activated_replica_replays_if_no_replica_hands_over(epochs, waiting, requests):
    cluster, now_s = cluster_after(epochs), [1.0]
    cluster.produce(waiting)
    replica = activated_replica(cluster, "a", now_s=now_s)
    assert cluster.checkpoints.is_requested("a/0") == requests
    replica.step()
    assert replica.rows_read == (0 if requests else epochs + waiting)
    now_s[0] += 10.0  # past the deadline for an answer
    replica.step()
    assert (replica.clean_position.epoch, replica.rows_read) == (epochs + waiting - 1, epochs + waiting)
    assert not cluster.checkpoints.is_requested("a/0")


def test_activated_replica_stops_waiting_for_a_replica_that_dies():
    cluster, now_s = cluster_after(8), [1.0]
    replica = activated_replica(cluster, "a", now_s=now_s)
    replica.step()
    cluster.produce()
    assert replica.step() and replica.rows_read == 0
    cluster.produce()
    assert replica.step() and replica.rows_read == 10


@pytest.mark.parametrize(("protection", "requests"), [("none", True), ("upstream", False)])
def test_replica_activated_by_upstream_backup_does_not_wait(protection, requests):
    cluster = cluster_after(8)
    cluster.replica("a", contract=Contract(protection=protection)).on_activation()
    assert cluster.checkpoints.is_requested("a/0") == requests
