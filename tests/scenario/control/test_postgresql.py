"""The control plane on PostgreSQL, against a real server that the test starts, stops and starts again."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import select
from sqlalchemy.exc import DBAPIError

from holdfast.control.storage import stored_jobs
from holdfast.control.storage.database import Candidate, Database, Fenced
from holdfast.control.storage.engines import SESSION, database_engine, database_url
from holdfast.control.storage.schema import fence
from holdfast.documents.job import Job
from holdfast.protocol.client import ClientError, OrchestratorUnreachable, find_client
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


@pytest.mark.parametrize("fault", ["read-only", "restart", "terminated"])
def test_database_fault_pauses_work_and_cancels_nothing(fault, server, tmp_path):
    name = f"fault_{fault.replace('-', '_')}"
    with ProcessCluster(tmp_path, serve_options=("--database", server.database(name), "--lease", "2")) as cluster:
        cluster.start_orchestrator()
        cluster.start_node("n1")
        cluster.wait_for_nodes(1)
        client = cluster.client
        first = client.submit(JOB)
        client.wait_for(first, ("running",), limit_s=60)
        with ThreadPoolExecutor(2) as pool:
            if fault == "read-only":
                server.set_read_only(True)
            elif fault == "restart":
                server.stop()
            else:
                server.terminate_connections()
            try:
                calls = [pool.submit(until_accepted, lambda: client.submit(JOB.model_copy(update={"job": "b"})))]
                calls.append(pool.submit(until_accepted, lambda: client.cancel(first)))
                if fault != "terminated":  # longer than the lease: the leader steps down and becomes the leader again
                    cluster.wait_until(lambda: "steps down" in log(cluster), limit_s=60)
                    assert not any(call.done() for call in calls)
            finally:
                server.set_read_only(False) if fault == "read-only" else None
                server.start() if fault == "restart" else None
            for call in calls:
                call.result(60)
        client.wait_for(first, ("canceled",), limit_s=60)
        second = next(job for job in client.jobs() if job["name"] == "b")
        assert client.wait_for(second["id"], ("running",), limit_s=60)["reason"] == ""
        assert client.job(first)["reason"] == "canceled by a user"
        assert set(cluster.starts().values()) == {1}


def log(cluster):
    return (cluster.work / "orchestrator.log").read_text()


def until_accepted(call):
    """Repeat a call until the orchestrator accepts it. A repeated call may find its effect."""
    ends_s = time.monotonic() + 60
    while True:
        try:
            return call()
        except OrchestratorUnreachable:
            pass
        except ClientError as error:
            if error.status in (404, 409):
                return None
            if error.status != 503:
                raise
        assert time.monotonic() < ends_s
        time.sleep(0.1)


async def test_lock_of_a_silent_client_does_not_block_the_leader(server):
    url = server.database("silent_client")
    leader = Database(url, report=print)
    leader.open()
    silent = database_engine(database_url(url)).connect()
    silent.execute(select(fence).with_for_update())  # and never again: the server ends the transaction
    await asyncio.wait_for(leader.write(stored_jobs.set_draining("n1", True)), 60)
    assert leader.read_blocking(stored_jobs.draining_nodes) == ["n1"]
    leader.close()
    with pytest.raises(DBAPIError):
        silent.execute(select(fence))
    silent.invalidate()


async def test_commit_of_a_cut_off_leader_holds_no_lock(server):
    """The leader's transaction locks the fence only in its last message, which also commits it."""
    url = server.database("cut_off")
    old, new = (Database(url, report=print, candidate=Candidate("same")) for _ in range(2))
    old.open()
    with old._engine.connect() as cut, cut.begin():
        cut.execute(stored_jobs.set_draining("n1", True)[1].statement, [{"name": "n1", "draining": 1}])
        assert await asyncio.wait_for(asyncio.to_thread(new.open), 2) == 2
        with pytest.raises(Fenced):
            old._is_committed(cut, 1)
        cut.rollback()
    with pytest.raises(Fenced):
        await old.write(stored_jobs.set_draining("n2", True))
    old.close()
    new.close()


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


def test_server_is_told_the_limits_of_every_connection(server):
    """They end what a leader that was cut off, or a statement that hangs, would keep from its successor."""
    engine = database_engine(database_url(server.database("limits")))
    with engine.connect() as connection:
        assert {name: connection.exec_driver_sql(f"SHOW {name}").scalar() for name in SESSION} == SESSION
        connection.exec_driver_sql("SET statement_timeout = '50ms'")
        with pytest.raises(DBAPIError, match="statement timeout"):
            connection.exec_driver_sql("SELECT pg_sleep(60)")
        connection.rollback()
    engine.dispose()
