"""One leader and its standby: takeover, step-down, and an accidental second orchestrator."""

import pytest

from holdfast.documents.job import Job
from holdfast.node.pe_hosts import living_host
from holdfast.trial.process_cluster import HOLDFAST

from .failover_cluster import FailoverCluster

JOB = Job.model_validate({"job": "a", "host_kind": "light", "pes": {"x": {"makes": ["s"], "replicas": 2}, "y": {"reads": ["s"]}}})


@pytest.fixture
def cluster(server, tmp_path):
    with FailoverCluster(tmp_path, server.database(f"failover_{tmp_path.name}")) as cluster:
        cluster.start("a")
        cluster.wait_until(cluster.serves, limit_s=60)
        cluster.start("b")
        for name in ("n1", "n2"):
            cluster.start(name)
        cluster.wait_for_nodes(2)
        cluster.wait_until(lambda: cluster.health("b") == "standby", limit_s=60)
        yield cluster


def running_replicas(cluster, number):
    """Return the incarnation of each running replica, by its number and task."""
    tasks = cluster.client.job(number)["tasks"]
    return {
        (task["task"], replica["replica"]): replica["incarnation"]
        for task in tasks
        for replica in task["replicas"]
        if replica["state"] == "running"
    }


def hosts(cluster):
    """Return the process number of each node's PE host."""
    return {name: living_host(cluster.node_work(name)) for name in ("n1", "n2")}


def test_standby_takes_over_without_restarting_a_pe(cluster):
    number = cluster.client.submit(JOB)
    cluster.client.wait_for(number, ("running",), limit_s=60)
    before = hosts(cluster), running_replicas(cluster, number), cluster.client.status()["term"]
    assert None not in before[0].values() and len(before[1]) == 3
    cluster.kill("a")
    cluster.wait_until(lambda: cluster.health("b") == "serving", limit_s=60)
    cluster.client.wait_for(number, ("running",), limit_s=60)
    cluster.wait_until(lambda: len(running_replicas(cluster, number)) == 3, limit_s=60)
    assert (hosts(cluster), running_replicas(cluster, number)) == before[:2]
    assert set(cluster.starts().values()) == {1}
    assert cluster.client.status()["term"] == before[2] + 1


def test_stopped_leader_answers_no_call_after_its_lease(cluster):
    number = cluster.client.submit(JOB)
    cluster.client.wait_for(number, ("running",), limit_s=60)
    cluster.stop("a")
    cluster.wait_until(lambda: cluster.health("b") == "serving", limit_s=60)
    cluster.resume("a")
    cluster.wait_until(lambda: cluster.health("a") == "standby", limit_s=60)
    assert cluster.client.job(number)["state"] == "running"
    assert set(cluster.starts().values()) == {1}


def test_accidental_second_orchestrator_is_refused(cluster):
    options = ["--database", cluster.database, "--work", str(cluster.work / "other"), "--port", "0"]
    cluster.start_process("second", [*HOLDFAST, "serve", *options])
    cluster.wait_until(lambda: cluster.exit_code("second") is not None, limit_s=60)
    assert cluster.exit_code("second") == 2
    assert "already has a leader: orchestrator" in cluster.last_log_lines("second")
    assert cluster.health("a") == "serving" and cluster.client.status()["term"] == 1


def test_leader_that_stops_regularly_hands_over_at_once(cluster):
    cluster._processes["a"].terminate()
    cluster.wait_until(lambda: cluster.exit_code("a") == 0, limit_s=60)
    cluster.wait_until(lambda: cluster.health("b") == "serving", limit_s=60)
    assert cluster.client.status()["term"] == 2
