"""The processes of a cluster end with it, even if its end is interrupted, and restart if others kill them."""

import signal
import subprocess
import sys
import time

import psutil
import pytest

from holdfast.errors import HoldfastError
from holdfast.node.pe_hosts import living_host
from holdfast.trial.local_cluster import LocalCluster
from holdfast.trial.process_cluster import ProcessCluster

DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); open({!r}, 'w').close(); time.sleep(600)"


@pytest.mark.parametrize("kind", [ProcessCluster, LocalCluster])
def test_interrupted_close_kills_processes_that_ignore_sigterm(tmp_path, kind):
    cluster, deaf = kind(tmp_path), tmp_path / "deaf"
    cluster.start_process("n1", [sys.executable, "-c", DEAF.format(str(deaf))])
    ends = time.monotonic() + 20
    while not deaf.exists() and time.monotonic() < ends:
        time.sleep(0.01)
    process = psutil.Process(cluster.pid("n1"))

    def interrupted(number, frame):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupted)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with pytest.raises(KeyboardInterrupt):
            cluster.close()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert not process.is_running()


STARTS_AND_WAITS = """
import sys, time
from pathlib import Path
from holdfast.errors import HoldfastError
from holdfast.trial.process_cluster import ProcessCluster
from holdfast.node.pe_hosts import living_host
from holdfast.node.pe_hosts import HostProcess
from holdfast.protocol.messages import Assignment

work = Path(sys.argv[1])
cluster = ProcessCluster(work)
cluster.start_process("n1", [sys.executable, "-c", "import time; time.sleep(600)"])
(work / "n1").mkdir()
HostProcess(work / "n1", [sys.executable, "-c", "import time; time.sleep(600)"], log=print).start(Assignment())
print(cluster.pid("n1"), flush=True)
time.sleep(600)
"""


def test_processes_of_a_killed_command_are_killed(tmp_path):
    command = [sys.executable, "-c", STARTS_AND_WAITS, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        controller = psutil.Process(int(process.stdout.readline()))
        wait_until(lambda: living_host(tmp_path / "n1") is not None)
        process.kill()
    wait_until(lambda: not controller.is_running() and living_host(tmp_path / "n1") is None)


def wait_until(condition, *, limit_s=60):
    ends = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < ends, f"not within {limit_s} s"
        time.sleep(0.02)


def test_only_processes_killed_by_others_are_restarted(tmp_path, monkeypatch):
    monkeypatch.setattr("holdfast.trial.local_cluster.RESTART_INTERVAL_S", 600.0)
    cluster = LocalCluster(tmp_path, nodes=2)
    sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
    monkeypatch.setattr(cluster, "start_node", lambda name: cluster.start_process(name, sleep))
    with cluster:
        for name in cluster.names:
            cluster.start_node(name)
        killed_pid = cluster.pid("n1")
        psutil.Process(killed_pid).kill()
        cluster.kill("n2")
        wait_until(lambda: not cluster.runs("n1"))
        cluster.restart_killed()
        assert cluster.pid("n1") != killed_pid
        assert not cluster.runs("n2")
        psutil.Process(cluster.pid("n1")).kill()
        wait_until(lambda: not cluster.runs("n1"))
        cluster.restart_killed()
        assert not cluster.runs("n1"), "a process that ends again and again must not restart at once"


def test_node_that_ends_before_it_is_ready_is_an_error(tmp_path, monkeypatch):
    cluster = LocalCluster(tmp_path, nodes=1)
    with cluster:
        cluster.start_process("n1", [sys.executable, "-c", "import sys; sys.exit('no cores')"])
        with pytest.raises(HoldfastError, match=r"node 'n1' ended before it was ready; the last lines of n1.log: \n  no cores"):
            cluster._wait_ready()
