"""Functions called in processes of their own."""

import math
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from holdfast.errors import HoldfastError
from holdfast.planning.laar import Milp, NodeCrash
from holdfast.planning.solver_processes import Call, call_in_process, map_in_processes, race

FOREVER = 3600.0


def test_process_is_reused_for_the_next_call():
    first = call_in_process(os.getpid)
    assert first != os.getpid()
    assert call_in_process(os.getpid) == first


def test_first_settling_answer_ends_the_race():
    calls = [Call(time.sleep, (FOREVER,)), Call(math.sqrt, (9.0,))]
    assert race(calls, settles=lambda answer: answer is not None, until=float("inf")) == [None, 3.0]


def test_race_without_settling_answer_waits_for_all():
    calls = [Call(math.sqrt, (4.0,)), Call(math.sqrt, (9.0,))]
    assert race(calls, settles=lambda answer: False, until=float("inf")) == [2.0, 3.0]


def test_settled_race_starts_no_later_call():
    calls = [Call(math.sqrt, (4.0,)), Call(time.sleep, (FOREVER,), after_s=FOREVER)]
    assert race(calls, settles=lambda answer: True, until=float("inf")) == [2.0, None]


def test_later_call_starts_early_if_nothing_else_runs():
    calls = [Call(math.sqrt, (4.0,)), Call(math.sqrt, (9.0,), after_s=FOREVER)]
    assert race(calls, settles=lambda answer: False, until=float("inf")) == [2.0, 3.0]


def test_race_ends_at_its_deadline():
    assert race([Call(time.sleep, (FOREVER,))], settles=lambda _: True, until=time.monotonic() + 0.05) == [None]


def test_error_is_raised_in_the_caller():
    with pytest.raises(HoldfastError, match="the exact solver runs in 1 or 2 processes, got 0"):
        call_in_process(partial(Milp, workers=0))


def test_unexpected_failure_is_one_line_with_saved_traceback():
    with pytest.raises(HoldfastError, match=r"^a solver failed unexpectedly: ValueError: .*; the traceback is in") as caught:
        call_in_process(math.sqrt, -1.0)
    assert "\n" not in str(caught.value)
    kept = Path(str(caught.value).split("'")[1])
    assert "Traceback" in kept.read_text()
    kept.unlink()


def test_dead_process_is_reported_and_replaced():
    with pytest.raises(HoldfastError, match=r"ended with exit code -9 and no answer"):
        call_in_process(os.kill, call_in_process(os.getpid), signal.SIGKILL)
    assert call_in_process(math.sqrt, 4.0) == 2.0


def test_race_survives_one_dead_process():
    calls = [Call(os._exit, (3,)), Call(NodeCrash, ("h1",))]
    assert race(calls, settles=lambda answer: answer is not None, until=float("inf"))[1] == NodeCrash("h1")


WORKERS = """
import os, sys, time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from holdfast.planning.solver_processes import end_with_parent

if __name__ == "__main__":
    pool = ProcessPoolExecutor(1, mp_context=get_context("spawn"), initializer=end_with_parent, initargs=(os.getpid(),))
    print(pool.submit(os.getpid).result(), flush=True)
    pool.submit(time.sleep, 3600)
    time.sleep(3600)
"""


def test_workers_end_after_their_parent_is_killed(tmp_path):
    script = tmp_path / "parent.py"
    script.write_text(WORKERS)
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        worker = int(parent.stdout.readline())
        parent.kill()
    limit = time.monotonic() + 60
    while Path(f"/proc/{worker}").exists() and "Z" not in Path(f"/proc/{worker}/stat").read_text().split()[2]:
        assert time.monotonic() < limit, "the worker outlived its parent"
        time.sleep(0.05)


def test_parallel_tasks_are_yielded_once_in_order_of_completion():
    assert sorted(map_in_processes(math.sqrt, [float(n * n) for n in range(7)], workers=2)) == [float(n) for n in range(7)]
    assert list(map_in_processes(math.sqrt, [], workers=2)) == []


def test_closing_the_iterator_ends_running_tasks():
    results = map_in_processes(time.sleep, [0.0, FOREVER], workers=2)
    assert next(results) is None
    results.close()
    assert list(results) == []


def test_failed_task_raises():
    with pytest.raises(HoldfastError, match="ValueError") as caught:
        list(map_in_processes(math.sqrt, [-1.0], workers=1))
    Path(str(caught.value).split("'")[1]).unlink()
