"""Faults that a node injects into its own processes when the orchestrator orders them."""

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from holdfast.errors import HoldfastError
from holdfast.node.injected_faults import inject_fault
from holdfast.protocol.messages import FaultOrder
from holdfast.protocol.node_files import FailureRequest, take_failure_request

HOST = """
import fcntl, os, pathlib, sys, time
work = pathlib.Path(sys.argv[1])
lock = (work / "host.lock").open("ab")
fcntl.flock(lock, fcntl.LOCK_EX)
(work / "host.pid").write_text(str(os.getpid()))
print("locked", flush=True)
time.sleep(600)
"""
NODE = """
import pathlib, sys
from holdfast.node.injected_faults import inject_fault
from holdfast.protocol.messages import FaultOrder
inject_fault(FaultOrder(number=1, kind=sys.argv[2]), pathlib.Path(sys.argv[1]), light=True)
"""


@pytest.fixture
def host(tmp_path):
    with subprocess.Popen([sys.executable, "-c", HOST, str(tmp_path)], stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout.readline() == b"locked\n"
        yield process
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.parametrize(
    ("kind", "host_dies", "controller_dies"),
    [("crash-host", True, False), ("crash-controller", False, True), ("crash-node", True, True)],
)
def test_crash_kills_the_ordered_processes_of_the_node(host, tmp_path, kind, host_dies, controller_dies):
    code = subprocess.run([sys.executable, "-c", NODE, str(tmp_path), kind], check=False, timeout=60).returncode
    assert code == (-signal.SIGKILL if controller_dies else 0)
    if host_dies:
        assert host.wait(60) == -signal.SIGKILL
    else:
        assert host.poll() is None


def test_stalled_host_continues_after_its_time(host, tmp_path):
    inject_fault(FaultOrder(number=1, kind="stall-host", for_s=0.3), tmp_path, light=True)
    wait_until(lambda: psutil.Process(host.pid).status() == psutil.STATUS_STOPPED)
    wait_until(lambda: psutil.Process(host.pid).status() != psutil.STATUS_STOPPED)


def test_replica_of_a_light_host_fails(host, tmp_path):
    inject_fault(FaultOrder(number=1, kind="crash-pe", target="3:x/0.1"), tmp_path, light=True)
    assert take_failure_request(tmp_path) == FailureRequest(keys=("3:x/0.1",))


def test_fault_of_a_node_without_pe_host_is_an_error(tmp_path):
    with pytest.raises(HoldfastError, match="fault crash-host: no PE host runs in"):
        inject_fault(FaultOrder(number=1, kind="crash-host"), tmp_path, light=True)


def wait_until(condition, limit_s=30.0):
    ends_s = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < ends_s
        time.sleep(0.01)
