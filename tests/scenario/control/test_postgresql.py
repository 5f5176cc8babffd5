"""The control plane on PostgreSQL, against a real server that the test starts, stops and starts again."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from holdfast.control.storage.database import Database
from holdfast.documents.job import Job
from holdfast.protocol.client import find_client
from holdfast.trial.process_cluster import ProcessCluster

JOB = Job.model_validate({"job": "a", "host_kind": "light", "pes": {"x": {"makes": ["s"]}, "y": {"reads": ["s"]}}})


def test_postgresql_jobs_survive_orchestrator_and_server_outages(server, tmp_path):
    with ProcessCluster(tmp_path, serve_options=("--database", server.database("survivors"))) as cluster:
        cluster.start_orchestrator()
        cluster.start_node("n1")
        cluster.wait_for_nodes(1)
        client = cluster.client
        first = client.submit(JOB)
        client.wait_for(first, ("running",), limit_s=60)
        cluster.kill_orchestrator()
        cluster.start_orchestrator()
        cluster.wait_until(lambda: client.health()["state"] == "serving", limit_s=60)
        assert client.status()["term"] == 2
        client.wait_for(first, ("running",), limit_s=60)
        assert set(cluster.starts().values()) == {1}
        server.stop()
        with pytest.raises(Exception, match="is unreachable"):
            client.jobs()
        server.start()
        second = client.submit(JOB.model_copy(update={"job": "b"}))
        client.wait_for(second, ("running",), limit_s=60)
        client._call("POST", f"/v1/jobs/{first}/cancel", json={"cause": "a zero \0 byte, which PostgreSQL does not take"})
        client.wait_for(first, ("canceled",), limit_s=60)
        assert [(job["id"], job["state"]) for job in client.jobs()] == [(second, "running"), (first, "canceled")]
        assert [move["state"] for move in client.job(first)["history"]][-2:] == ["canceling", "canceled"]


def test_restarted_server_loses_and_duplicates_no_submission(server, tmp_path):
    names = [f"burst-{number}" for number in range(60)]
    with ProcessCluster(tmp_path, serve_options=("--database", server.database("burst"), "--capacity-wait", "60")) as cluster:
        cluster.start_orchestrator()
        cluster.wait_until(lambda: cluster.client.health(), limit_s=60)

        def submit(name: str) -> int:
            with find_client(str(cluster.folder)) as client:
                return client.submit(JOB.model_copy(update={"job": name}))

        with ThreadPoolExecutor(12) as pool:
            submitting = [pool.submit(submit, name) for name in names]
            for _ in range(2):
                server.stop()
                server.start()
            numbers = [each.result(60) for each in submitting]
        assert len(set(numbers)) == len(names)
        cluster.kill_orchestrator()
        cluster.start_orchestrator()
        cluster.wait_until(lambda: cluster.client.health()["state"] == "serving", limit_s=60)
        assert sorted(job["name"] for job in cluster.client.all_jobs()) == sorted(names)


def test_later_orchestrator_replaces_the_earlier_one(server, tmp_path):
    database = server.database("rivals")
    with ProcessCluster(tmp_path / "one", serve_options=("--database", database)) as old:
        old.start_orchestrator()
        assert old.client.status()["term"] == 1
        with ProcessCluster(tmp_path / "two", serve_options=("--database", database)) as new:
            new.start_orchestrator()
            assert new.client.status()["term"] == 2
            new.wait_until(lambda: old.exit_code("orchestrator") is not None, limit_s=30)
            assert "another orchestrator has taken over" in old.last_log_lines("orchestrator")


def test_simultaneous_first_starts_get_different_terms(server):
    url = server.database("empty")

    def taken(_: int) -> int:
        database = Database(url, report=print)
        try:
            return database.open()
        finally:
            database.close()

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(taken, range(4))) == [1, 2, 3, 4]
