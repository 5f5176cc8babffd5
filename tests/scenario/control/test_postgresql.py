"""The control plane on PostgreSQL, against a real server that the test starts, stops and starts again."""

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from holdfast.control.storage.database import Database
from holdfast.documents.job import Job
from holdfast.protocol.client import find_client
from holdfast.trial.process_cluster import ProcessCluster

JOB = Job.model_validate({"job": "a", "host_kind": "light", "pes": {"x": {"makes": ["s"]}, "y": {"reads": ["s"]}}})


class Server:
    """A PostgreSQL server with its own folder, on loopback."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self.programs, self.folder = programs, folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.run("initdb", "-D", folder / "data", "-U", "holdfast", "--auth=trust", "--no-sync", "-E", "UTF8")
        self.start()

    def database(self, name: str) -> str:
        """Create a database and return its URL."""
        self.run("createdb", "-h", "127.0.0.1", "-p", self.port, "-U", "holdfast", name)
        return f"postgresql://holdfast@127.0.0.1:{self.port}/{name}"

    def start(self) -> None:
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c fsync=off"
        self.run("pg_ctl", "-D", self.folder / "data", "-l", self.folder / "log", "-w", "-o", options, "start")

    def stop(self) -> None:
        self.run("pg_ctl", "-D", self.folder / "data", "-m", "immediate", "-w", "stop")

    def run(self, program: str, *words: object) -> None:
        as_user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
        command = [*as_user, str(self.programs / program), *map(str, words)]
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=90, cwd="/", check=False
        )
        assert done.returncode == 0, done.stdout


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    found = shutil.which("pg_ctl")
    programs = max(Path("/usr/lib/postgresql").glob("*/bin"), default=Path(found).resolve().parent if found else None)
    if programs is None:
        pytest.skip("needs a PostgreSQL server: apt-get install postgresql")
    folder = Path(tempfile.mkdtemp(prefix="holdfast-postgresql-"))
    if os.geteuid() == 0:
        shutil.chown(folder, "postgres")
    made = None
    try:
        made = Server(programs, folder)
        yield made
    finally:
        if made is not None and (folder / "data" / "postmaster.pid").exists():
            made.stop()
        shutil.rmtree(folder, ignore_errors=True)


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
