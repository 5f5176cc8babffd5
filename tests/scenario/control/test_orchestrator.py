"""The orchestrator as a real process: killed, paused, replaced, without its database, and started with errors."""

import os
import random
import signal
import socket
import sqlite3
import stat
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from holdfast.control.faults.injection_tests import InjectionTest
from holdfast.control.jobs.machine_document import shipped_machines
from holdfast.control.plugins import shipped_actions
from holdfast.documents.job import Job
from holdfast.protocol.client import Client, find_client
from holdfast.trial.process_cluster import HOLDFAST, ProcessCluster
from holdfast_papers.system_s.injection.campaign import Campaign
from holdfast_papers.system_s.injection.generated_tests import generate_tests

JOB = Job.model_validate(
    {"job": "a", "host_kind": "light", "pes": {"x": {"makes": ["s"], "replicas": 2}, "y": {"reads": ["s"]}, "z": {"reads": ["s"]}}}
)


def test_control_plane_heals_when_killed_around_transitions(tmp_path):
    injections = [
        ("submitted", "parse", "before", "crash-orchestrator"),
        ("dispatching", "peStatusUpdate", "done", "crash-orchestrator"),
        ("running", "recover", "after", "crash-orchestrator"),
        ("running", "recover", "after", "crash-host"),
        ("canceling", "stopped", "before", "crash-orchestrator"),
        ("instantiating", "instantiated", "after", "database-away"),
    ]
    machines = shipped_machines(shipped_actions())
    every = [test for name in sorted(machines) for test in generate_tests(machines[name], {"crash-orchestrator": {}})]
    tests = [
        *(
            InjectionTest(state=state, transition=transition, moment=moment, fault=fault)
            for state, transition, moment, fault in injections
        ),
        *random.Random(5).sample(every, 3),
    ]
    verdicts = list(Campaign(tmp_path).run(tests))
    assert [(verdict.test.name, verdict.injected, verdict.errors) for verdict in verdicts] == [
        (test.name, True, ()) for test in tests
    ]


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    """An orchestrator with a short --lost-after, and two nodes that run a job."""
    with ProcessCluster(tmp_path_factory.mktemp("quick"), serve_options=("--beat", "0.1", "--lost-after", "1.5")) as cluster:
        cluster.start_orchestrator()
        cluster.start_node("n1")
        cluster.start_node("n2")
        cluster.wait_for_nodes(2)
        cluster.client.wait_for(cluster.client.submit(JOB), ("running",), limit_s=60)
        yield cluster


def test_paused_orchestrator_counts_no_node_as_lost(quick):
    after = quick.client.events()["last"]
    pid = quick.pid("orchestrator")
    os.kill(pid, signal.SIGSTOP)
    try:
        time.sleep(3.0)  # the fault: twice as long as --lost-after
    finally:
        os.kill(pid, signal.SIGCONT)
    quick.wait_until(lambda: quick.client.status()["nodes"] == 2, limit_s=30)
    assert not [event["text"] for event in quick.client.events(after=after)["events"] if "lost" in event["text"]]
    assert set(quick.starts().values()) == {1}


def test_writes_wait_for_a_full_disk(quick):
    process = psutil.Process(quick.pid("orchestrator"))
    before = process.rlimit(psutil.RLIMIT_FSIZE)
    process.rlimit(psutil.RLIMIT_FSIZE, (0, before[1]))  # neither its database nor its log can be written any more
    taken: list[int] = []
    submitting = threading.Thread(target=lambda: taken.append(quick.client.submit(JOB.model_copy(update={"job": "late"}))))
    submitting.start()
    try:
        submitting.join(1.0)
        assert submitting.is_alive(), "no answer before the job is written"
        with find_client(str(quick.folder)) as other:
            assert other.status()["replica_states"] == {"running": 4}
    finally:
        process.rlimit(psutil.RLIMIT_FSIZE, before)
        submitting.join(60)
    quick.client.wait_for(taken[0], ("running",), limit_s=60)
    assert "answers again" in quick.last_log_lines("orchestrator")
    assert set(quick.starts().values()) == {1}


def test_replaced_orchestrator_ends_when_it_wakes(tmp_path):
    with ProcessCluster(tmp_path / "one") as old, ProcessCluster(tmp_path / "two") as new:
        old.start_orchestrator("--lease", "2")
        assert old.client.status()["term"] == 1
        os.kill(old.pid("orchestrator"), signal.SIGSTOP)
        database = f"sqlite:///{tmp_path / 'one' / 'orchestrator' / 'jobs.db'}"
        new.start_orchestrator("--database", database, "--standby", "--lease", "2")
        new.wait_until(lambda: new.client.health()["state"] == "serving", limit_s=60)
        assert new.client.status()["term"] == 2
        os.kill(old.pid("orchestrator"), signal.SIGCONT)
        new.wait_until(lambda: old.exit_code("orchestrator") is not None, limit_s=30)
        assert old.exit_code("orchestrator") == 2
        assert "another orchestrator has taken over (term 2, this one has 1)" in old.last_log_lines("orchestrator")


def serve(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*HOLDFAST, "serve", *map(str, words)], capture_output=True, text=True, timeout=60, check=False)


def test_errors_at_the_start_exit_with_code_2(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = serve("--work", tmp_path / "w", "--port", port)
    assert done.returncode == 2
    assert f"holdfast: cannot listen at 127.0.0.1:{port}: Address already in use; another process uses it" in done.stderr
    assert "Traceback" not in done.stderr
    with sqlite3.connect(tmp_path / "new.db") as new:
        new.execute("CREATE TABLE holdfast_schema (version INTEGER)")
        new.execute("INSERT INTO holdfast_schema VALUES (99)")
    new.close()
    done = serve("--work", tmp_path / "w", "--port", 0, "--database", f"sqlite:///{tmp_path / 'new.db'}")
    assert (done.returncode, "the database has version 99 and this holdfast knows versions up to" in done.stderr) == (2, True)
    (tmp_path / "diary.db").write_text("Dear diary, " * 100)
    done = serve("--work", tmp_path / "w", "--port", 0, "--database", f"sqlite:///{tmp_path / 'diary.db'}")
    assert (done.returncode, "cannot be used: file is not a database; fix that, or give another" in done.stderr) == (2, True)
    done = serve("--work", tmp_path / "w", "--port", 0, "--plugin", "dataflow=nowhere:Graph")
    assert done.returncode == 2
    assert "plug-in 'dataflow' of --plugin cannot be loaded from 'nowhere:Graph': No module named 'nowhere'" in done.stderr
    (tmp_path / "odd.toml").write_text('machine = "odd"\nbegins = "x"\n[states.y]\nnumber = 1\n')
    done = serve("--work", tmp_path / "w", "--port", 0, "--machine", tmp_path / "odd.toml")
    assert (done.returncode, "odd.toml has 2 errors" in done.stderr) == (2, True), done.stderr


def test_orchestrator_without_database_logs_it_and_can_be_stopped(tmp_path):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # bound but not listening
        url = f"postgresql://nobody@127.0.0.1:{closed.getsockname()[1]}/none"
        words = ["serve", "--work", str(tmp_path), "--port", "0", "--database", url]
        process = subprocess.Popen([*HOLDFAST, *words], stderr=subprocess.PIPE, text=True)
        try:
            assert process.stderr is not None
            line = process.stderr.readline()
            assert "is unreachable: connection" in line
            assert line.endswith("waiting for it\n")
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 0
            assert "Traceback" not in process.stderr.read()
        finally:
            process.kill()
            process.wait()
            process.stderr.close()


def test_tokens_are_private_and_tls_works(tmp_path):
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    result = subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate],
        capture_output=True, check=False,
    )  # fmt: skip
    if result.returncode:
        pytest.skip("needs openssl to make a certificate: apt-get install openssl")
    with ProcessCluster(tmp_path, serve_options=("--certificate", str(certificate), "--key", str(key))) as cluster:
        cluster.start_orchestrator()
        folder: Path = cluster.folder
        cluster.wait_until(lambda: (folder / "address").exists(), limit_s=60)
        modes = [stat.S_IMODE((folder / name).stat().st_mode) for name in ("user.token", "node.token")]
        assert modes == [0o600, 0o600]
        url = (folder / "address").read_text().strip()
        assert url.startswith("https://127.0.0.1:")
        with Client(url, (folder / "user.token").read_text().strip(), certificate=certificate) as client:
            cluster.wait_until(lambda: client.health()["state"] == "serving", limit_s=30)
            assert client.jobs() == []
            cluster.start_node("n1", "--certificate", str(certificate))
            cluster.wait_until(lambda: [node["state"] for node in client.nodes()] == ["up"], limit_s=60)
