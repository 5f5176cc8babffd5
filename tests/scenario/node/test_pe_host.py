"""A PE host as a process: it starts once, the next controller finds it, and it ends with all its children."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from holdfast.node.light_host import STARTS
from holdfast.node.pe_hosts import HostProcess, living_host
from holdfast.protocol.messages import AssignedReplica, Assignment
from holdfast.protocol.node_files import FailureRequest, request_failure

LIMIT_S = 30
A = AssignedReplica(job=1, pe="a", task=0, replica=0)
ONE = Assignment(term=1, generation=1, replicas=(A,))


def wait_until(condition: Callable[[], object], *, limit_s: float = LIMIT_S) -> None:
    ends = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < ends, f"not within {limit_s} s"
        time.sleep(0.01)


LIGHT = (sys.executable, "-m", "holdfast.node.light_host", "--node", "n1", "--work")


class Hosts:
    """Creates handles of the host in a folder, and ends all processes at the end."""

    def __init__(self) -> None:
        self.started: list[HostProcess] = []
        self.log_lines: list[str] = []

    def __call__(self, work: Path, *command: str) -> HostProcess:
        host = HostProcess(work, command or (*LIGHT, str(work)), log=self.log_lines.append)
        self.started.append(host)
        return host

    def end(self) -> None:
        for host in self.started:
            if host.work.exists():
                asyncio.run(host.stop(5))


@pytest.fixture
def work(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    started = Hosts()
    yield started
    started.end()


def state(host: HostProcess) -> str | None:
    status = host.status()
    return status.replicas[0].state if status is not None and status.replicas else None


def test_living_host_is_found_again_and_not_started_twice(work, hosts):
    first = hosts(work)
    first.start(ONE)
    wait_until(lambda: state(first) == "running")
    pid = living_host(work)
    second = hosts(work)
    assert second.alive()
    second.start(ONE)
    assert living_host(work) == pid
    assert state(second) == "running"
    assert len((work / STARTS).read_text().splitlines()) == 1
    asyncio.run(second.stop(10))
    assert not second.alive()
    assert living_host(work) is None
    wait_until(lambda: not first.alive())
    assert first.death() == f"the PE host ended with exit code 0; see {work / 'host.log'}"


STARTER = """
import os, sys
from pathlib import Path
from holdfast.node.pe_hosts import HostProcess
from holdfast.protocol.messages import Assignment
work = Path(sys.argv[1])
command = (sys.executable, "-m", "holdfast.node.light_host", "--work", str(work), "--node", "n1")
HostProcess(work, command, log=print).start(Assignment())
os.kill(os.getpid(), 9)
"""


def test_host_of_a_controller_killed_at_once_is_found(work, hosts):
    subprocess.run([sys.executable, "-c", STARTER, str(work)], check=False)
    host = hosts(work)
    assert host.alive()
    host.start(ONE)
    wait_until(lambda: host.status() is not None)
    status = host.status()
    assert status is not None
    assert living_host(work) == status.pid
    assert status.replicas == ()


def test_killed_host_reports_its_signal_and_stale_pid_is_ignored(work, hosts):
    host = hosts(work)
    host.start(ONE)
    wait_until(lambda: state(host) == "running")
    pid = living_host(work)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not host.alive())
    assert host.death() == "the PE host was killed by SIGKILL"
    (work / "host.pid").write_text(f"{os.getpid()} 1\n")  # as if another process had this number now
    assert living_host(work) is None
    host.start(ONE)  # kills what the dead host left, and must not take this process for it
    wait_until(lambda: state(host) == "running")


def test_leftover_processes_of_a_dead_host_are_killed(work, hosts):
    script = "import subprocess, sys, time; subprocess.Popen(['sleep', '600']); time.sleep(600)"
    host = hosts(work, sys.executable, "-c", script)
    host.start(ONE)
    wait_until(lambda: living_host(work) is not None and psutil.Process(living_host(work)).children())
    pid = living_host(work)
    assert pid is not None
    (child,) = psutil.Process(pid).children()
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not host.alive())
    assert child.is_running()
    host.start(ONE)
    wait_until(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE)


def test_host_that_ignores_sigterm_is_killed_with_its_group(work, hosts):
    script = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(600)"
    host = hosts(work, sys.executable, "-c", script)
    host.start(ONE)
    wait_until(lambda: (work / "host.log").read_text() == "deaf\n")
    asyncio.run(host.stop(0.3))
    assert not host.alive()
    assert hosts.log_lines == ["the PE host did not stop within 0.3 s and is killed"]


def test_failure_request_file_fails_a_replica(work, hosts):
    host = hosts(work)
    host.start(ONE)
    wait_until(lambda: state(host) == "running")
    request_failure(work, FailureRequest(keys=(A.key,), error="a fault"))
    wait_until(lambda: state(host) == "failed")
    status = host.status()
    assert status is not None
    assert status.replicas[0].error == "a fault"


def test_host_ends_when_its_work_folder_is_removed(work, hosts):
    inner = work / "node"
    inner.mkdir()
    host = hosts(inner)
    host.start(ONE)
    wait_until(lambda: state(host) == "running")
    pid = living_host(inner)
    assert pid is not None
    process = psutil.Process(pid)
    inner.rename(work / "gone")
    wait_until(lambda: not process.is_running() or process.status() == psutil.STATUS_ZOMBIE)
    (work / "gone").rename(inner)
