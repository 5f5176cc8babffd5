"""Faults that the API injects into real processes, as the page requests them."""

import psutil
import pytest

from holdfast.node.pe_hosts import living_host
from holdfast.protocol.client import ClientError


def host_process(cluster, node):
    return psutil.Process(living_host(cluster.node_work(node)))


def wait_for_host(cluster, node="n3"):
    """Wait until a node is up and its PE host has reported its process."""
    cluster.wait_until(
        lambda: (
            any(n["name"] == node and n["state"] == "up" and n["host_status"] for n in cluster.client.nodes())
            and living_host(cluster.node_work(node))
        ),
        limit_s=60,
    )


def test_stalled_pe_host_pauses_and_continues(cluster):
    wait_for_host(cluster)
    stalled = host_process(cluster, "n3")
    cluster.client.inject({"fault": "stall-host", "node": "n3", "settings": {"for_s": 3.0}})
    cluster.wait_until(lambda: stalled.status() == psutil.STATUS_STOPPED, limit_s=10)
    cluster.wait_until(lambda: stalled.status() != psutil.STATUS_STOPPED, limit_s=30)


def test_replicas_of_a_killed_node_move_to_other_nodes(cluster):
    wait_for_host(cluster)
    killed = host_process(cluster, "n3")
    cluster.client.inject({"fault": "crash-node", "node": "n3"})
    cluster.wait_until(lambda: not killed.is_running() or killed.status() == psutil.STATUS_ZOMBIE, limit_s=10)
    cluster.wait_until(lambda: cluster.exit_code("n3") is not None, limit_s=10)
    cluster.wait_until(lambda: [n["state"] for n in cluster.client.nodes() if n["name"] == "n3"] == ["lost"], limit_s=30)
    cluster.wait_until(
        lambda: all(r["node"] != "n3" and r["state"] == "running" for t in cluster.client.job(1)["tasks"] for r in t["replicas"]),
        limit_s=60,
    )
    cluster.start_node("n3")
    cluster.wait_for_nodes(3)


def test_fault_without_a_target_is_an_error_and_an_event(cluster):
    wait_for_host(cluster)
    with pytest.raises(ClientError, match="no replica to inject the fault into: wanted PE nobody on node any"):
        cluster.client.inject({"fault": "crash-pe", "pe": "nobody"})
    texts = [event["text"] for event in cluster.client.events()["events"]]
    assert any(text.startswith("fault crash-pe nobody was not injected: no replica to inject the fault into") for text in texts)
