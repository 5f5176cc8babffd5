"""Kills of node controllers, PE hosts and the orchestrator, as real processes with light PEs."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from holdfast.documents.job import Job, LightPe, Policy
from holdfast.node.pe_hosts import living_host
from holdfast.protocol.node_files import PID, FailureRequest, request_failure
from holdfast.protocol.presence import PRESENCE, RETRY_S
from holdfast.trial.process_cluster import ProcessCluster
from holdfast_papers.system_s.recovery_study import cancel_all, recover, running, unsettled

LIMIT_S = 90
NODES = ("n1", "n2", "n3")


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    with ProcessCluster(tmp_path_factory.mktemp("killed"), serve_options=("--lost-after", "20")) as running:
        running.start_orchestrator()
        for name in NODES:
            running.start_node(name)
        yield running


@pytest.fixture
def cluster(processes: ProcessCluster) -> Iterator[ProcessCluster]:
    """An orchestrator and nodes without jobs. The jobs of the previous test are canceled."""
    processes.wait_for_nodes(len(NODES))
    yield processes
    cancel_all(processes.client)


def job(name: str, pes: int, *, lives_s: float | None = None) -> Job:
    light_pes = {f"pe{n:02}": LightPe(makes=(f"s{n}",), reads=(f"s{n - 1}",) if n else (), lives_s=lives_s) for n in range(pes)}
    return Job(job=name, host_kind="light", pes=light_pes, policy=Policy(backoff_s=0.1, give_up_after=50))


def incarnations(cluster: ProcessCluster, number: int) -> dict[str, int]:
    return {r["key"]: r["incarnation"] for task in cluster.client.job(number)["tasks"] for r in task["replicas"]}


def settled(cluster: ProcessCluster, jobs: int) -> bool:
    return len(running(cluster.client)) == jobs and not unsettled(cluster.client)


def once(cluster: ProcessCluster) -> bool:
    """Return whether no incarnation of any replica was started twice."""
    return all(count == 1 for count in cluster.starts().values())


def test_killed_controller_finds_its_host_again(cluster):
    number = cluster.client.submit(job("steady", 6))
    cluster.wait_until(lambda: settled(cluster, 1), limit_s=LIMIT_S)
    before = cluster.starts()
    for name in NODES:
        cluster.kill(name)
    request_failure(
        cluster.node_work("n1"), FailureRequest(keys=tuple(incarnations(cluster, number)), error="while nobody watched")
    )
    for name in NODES:
        cluster.start_node(name)
    cluster.wait_until(
        lambda: settled(cluster, 1) and 2 in incarnations(cluster, number).values(), limit_s=LIMIT_S, what="what failed restarted"
    )
    after = cluster.starts()
    failed = {key for key, incarnation in incarnations(cluster, number).items() if incarnation == 2}
    assert set(after) - set(before) == {(key, 2) for key in failed}
    assert once(cluster)


def test_killed_host_restarts_and_replicas_get_a_higher_incarnation(cluster):
    number = cluster.client.submit(job("steady", 6))
    cluster.wait_until(lambda: settled(cluster, 1), limit_s=LIMIT_S)
    on_n1 = {r["key"] for task in cluster.client.job(number)["tasks"] for r in task["replicas"] if r["node"] == "n1"}
    cluster.kill_host("n1")
    cluster.wait_until(
        lambda: settled(cluster, 1) and all(incarnations(cluster, number)[key] == 2 for key in on_n1),
        limit_s=LIMIT_S,
        what="replicas of n1 started anew",
    )
    assert {key for key, n in incarnations(cluster, number).items() if n == 2} == on_n1
    assert once(cluster)


def test_hung_host_is_killed_and_its_replicas_continue(cluster):
    cluster.kill("n1")
    cluster.start_node("n1", "--hung-after", "4")
    number = cluster.client.submit(job("steady", 6))
    cluster.wait_until(lambda: settled(cluster, 1), limit_s=LIMIT_S)
    on_n1 = {r["key"] for task in cluster.client.job(number)["tasks"] for r in task["replicas"] if r["node"] == "n1"}
    stopped = living_host(cluster.node_work("n1"))
    os.killpg(stopped, signal.SIGSTOP)
    cluster.wait_until(
        lambda: settled(cluster, 1) and all(incarnations(cluster, number)[key] == 2 for key in on_n1),
        limit_s=LIMIT_S,
        what="replicas of n1 started anew",
    )
    cluster.wait_until(lambda: living_host(cluster.node_work("n1")) not in (None, stopped), limit_s=LIMIT_S, what="another host")
    assert "s and was killed; starting it again" in cluster.last_log_lines("n1")
    assert once(cluster)
    cluster.wait_until(lambda: held(cluster, "n1"), limit_s=LIMIT_S, what="the new PE host's request is open")
    cluster.kill("n1")
    cluster.start_node("n1")


def test_finish_during_an_outage_is_reported_afterwards(cluster):
    number = cluster.client.submit(job("short", 5, lives_s=4.0))
    cluster.client.wait_for(number, ["running"], limit_s=LIMIT_S)
    cluster.kill_orchestrator()
    finished = {name: cluster.node_work(name) / "host.json" for name in NODES}
    cluster.wait_until(
        lambda: sum(path.read_text().count('"finished"') for path in finished.values()) == 5, limit_s=LIMIT_S, what="PEs finished"
    )
    cluster.start_orchestrator()
    story = cluster.client.wait_for(number, ["completed"], limit_s=LIMIT_S)
    assert story["state"] == "completed"
    assert once(cluster)
    assert all(incarnation == 1 for key, incarnation in cluster.starts() if key.startswith(f"{number}:"))


def test_random_kills_start_nothing_twice_and_lose_nothing(cluster):
    rng = random.Random(7)
    numbers = [cluster.client.submit(job(f"job{n}", 4)) for n in range(3)]
    for step in range(8):
        until = time.monotonic() + rng.uniform(0.0, 1.0)
        cluster.wait_until(lambda until=until: time.monotonic() >= until, limit_s=5)
        what, name = rng.choice(["controller", "host", "orchestrator"]), rng.choice(NODES)
        if what == "controller":
            cluster.kill(name)
            cluster.start_node(name)
        elif what == "host":
            cluster.kill_host(name)
        else:
            cluster.kill_orchestrator()
            cluster.start_orchestrator()
        if step == 4:
            cluster.wait_until(lambda: cluster.client.health(), limit_s=LIMIT_S)
            numbers.append(cluster.client.submit(job("late", 4)))
    cluster.wait_until(lambda: settled(cluster, len(numbers)), limit_s=LIMIT_S, what="all jobs running")
    assert once(cluster)
    now = {key: n for number in numbers for key, n in incarnations(cluster, number).items()}
    newest: dict[str, int] = {}
    for key, incarnation in cluster.starts():
        if int(key.partition(":")[0]) not in numbers:
            continue
        newest[key] = max(newest.get(key, 0), incarnation)
    assert newest == now, "what the orchestrator believes runs is what was started last"


def test_orchestrator_killed_in_steady_state_touches_no_pe(cluster):
    cluster.client.submit(job("steady", 6))
    cluster.wait_until(lambda: settled(cluster, 1), limit_s=LIMIT_S)
    before = cluster.starts()
    for _ in range(2):
        cluster.kill_orchestrator()
        recover(cluster, 1)
    assert settled(cluster, 1)
    assert cluster.starts() == before


def test_sigterm_ends_the_orchestrator_with_exit_code_0(tmp_path):
    with ProcessCluster(tmp_path) as cluster:
        cluster.start_orchestrator()
        cluster.wait_until(cluster.client.health, limit_s=LIMIT_S)
        os.kill(cluster.pid("orchestrator"), signal.SIGTERM)
        ends = time.monotonic() + LIMIT_S
        while cluster.exit_code("orchestrator") is None:
            assert time.monotonic() < ends
            time.sleep(0.01)
        assert cluster.exit_code("orchestrator") == 0


def test_serve_reports_an_unusable_work_folder(tmp_path):
    (tmp_path / "file").write_text("")
    command = [
        sys.executable,
        "-m",
        "holdfast.cli.main",
        "serve",
        "--work",
        str(tmp_path / "file" / "work"),
        "--port",
        "0",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 2
    assert "cannot be used" in done.stderr
    assert "Traceback" not in done.stderr


def events_of(cluster: ProcessCluster, name: str) -> list[str]:
    return [event["text"] for event in cluster.client.events()["events"] if event.get("node") == name]


def test_node_whose_processes_die_is_lost_at_once(cluster):
    cluster.wait_until(lambda: held(cluster, "n3"), limit_s=LIMIT_S, what="the PE host's request is open")
    cluster.kill("n3")
    cluster.start_node("n3")
    cluster.wait_for_nodes(len(NODES))
    assert not any("is lost" in text for text in events_of(cluster, "n3")), "its PE host lived"
    cluster.wait_until(lambda: held(cluster, "n3"), limit_s=LIMIT_S, what="the PE host's request is open")
    cluster.kill("n3")
    cluster.kill_host("n3")
    lost = "node n3 is lost: its processes closed their connections"  # beats would be missed after 20 s
    cluster.wait_until(lambda: lost in events_of(cluster, "n3"), limit_s=15, what=lost)
    cluster.start_node("n3")


def held(cluster: ProcessCluster, name: str) -> bool:
    """Return whether the PE host of a node has had the time to open its request: it looks for the file every second."""
    files = [cluster.node_work(name) / file for file in (PRESENCE, PID)]
    return all(file.exists() and time.time() - file.stat().st_mtime > 3 * RETRY_S for file in files)
