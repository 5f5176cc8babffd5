"""Stopping a planner also ends its solver processes, at once."""

import signal
import subprocess
import sys
import time

import psutil
import pytest

LIMIT_S = 60.0
WORKING = """
import os, time
from holdfast.planning.solver_processes import call_in_process
print(call_in_process(os.getpid), flush=True)
call_in_process(time.sleep, 3600.0)
"""


@pytest.fixture
def planner():
    process = subprocess.Popen([sys.executable, "-c", WORKING], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    yield process
    process.kill()
    process.communicate()


def ends(pid: int) -> bool:
    """Return whether the process ends within the time limit."""
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGKILL])
def test_solver_ends_with_its_planner(planner, by):
    solver = int(planner.stdout.readline())
    planner.send_signal(by)
    assert planner.wait(LIMIT_S) == -by
    assert ends(solver)


@pytest.fixture
def study(tmp_path):
    words = ["reproduce", "laar-search", "--applications", "40", "--seconds", "3600", "--out", str(tmp_path)]
    process = subprocess.Popen(
        [sys.executable, "-m", "holdfast.cli.main", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    yield process
    process.kill()
    process.communicate()


def working_processes(pid: int) -> list[int]:
    """Wait until two processes of a study have worked for a second, and return all its processes."""
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        below = psutil.Process(pid).children(recursive=True)
        if sum(one.cpu_times().user > 1.0 for one in below) >= 2:
            return [one.pid for one in below]
        time.sleep(0.05)
    raise AssertionError("the study did not start its workers")


@pytest.mark.parametrize(("by", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, -signal.SIGTERM)])
def test_interrupted_study_ends_its_workers(study, by, code):
    workers = working_processes(study.pid)
    study.send_signal(by)
    assert study.wait(LIMIT_S) == code
    assert all(map(ends, workers))
