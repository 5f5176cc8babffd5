"""Functions called in processes of their own."""

import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from holdfast.errors import HoldfastError
from holdfast.planning.laar import FTSearch, NodeCrash
from holdfast.planning.solver_processes import Call, call_in_process, map_in_processes, race

FOREVER = 3600.0


def test_a_call_is_made_in_another_process_which_is_kept_for_the_next():
    first = call_in_process(os.getpid)
    assert first != os.getpid()
    assert call_in_process(os.getpid) == first


def test_the_first_answer_that_settles_the_matter_ends_the_others():
    calls = [Call(time.sleep, (FOREVER,)), Call(math.sqrt, (9.0,))]
    assert race(calls, settles=lambda answer: answer is not None, until=float("inf")) == [None, 3.0]


def test_without_a_settling_answer_all_are_waited_for():
    calls = [Call(math.sqrt, (4.0,)), Call(math.sqrt, (9.0,))]
    assert race(calls, settles=lambda answer: False, until=float("inf")) == [2.0, 3.0]


def test_a_later_call_is_not_made_once_the_matter_is_settled():
    calls = [Call(math.sqrt, (4.0,)), Call(time.sleep, (FOREVER,), after_s=FOREVER)]
    assert race(calls, settles=lambda answer: True, until=float("inf")) == [2.0, None]


def test_a_later_call_need_not_wait_when_nothing_else_is_tried():
    calls = [Call(math.sqrt, (4.0,)), Call(math.sqrt, (9.0,), after_s=FOREVER)]
    assert race(calls, settles=lambda answer: False, until=float("inf")) == [2.0, 3.0]


def test_a_race_ends_in_time():
    assert race([Call(time.sleep, (FOREVER,))], settles=lambda _: True, until=time.monotonic() + 0.05) == [None]


def test_a_mistake_is_told_as_it_would_be_here():
    with pytest.raises(HoldfastError, match="FT-Search wants at least 1 worker, got 0"):
        call_in_process(FTSearch, 0)


def test_a_failure_is_told_on_one_line_and_its_story_kept():
    with pytest.raises(HoldfastError, match=r"^a solver failed unexpectedly: ValueError: .*; the traceback is in") as caught:
        call_in_process(math.sqrt, -1.0)
    assert "\n" not in str(caught.value)
    kept = Path(str(caught.value).split("'")[1])
    assert "Traceback" in kept.read_text()
    kept.unlink()


def test_a_process_that_dies_is_told_and_replaced():
    with pytest.raises(HoldfastError, match=r"ended with exit code -9 and no answer"):
        call_in_process(os.kill, call_in_process(os.getpid), signal.SIGKILL)
    assert call_in_process(math.sqrt, 4.0) == 2.0


def test_one_death_does_not_fail_the_race():
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


def test_workers_of_a_killed_parent_end_by_themselves(tmp_path):
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


def test_tasks_made_side_by_side_come_as_they_end_each_once():
    assert sorted(map_in_processes(math.sqrt, [float(n * n) for n in range(7)], workers=2)) == [float(n) for n in range(7)]
    assert list(map_in_processes(math.sqrt, [], workers=2)) == []


def test_tasks_that_still_run_are_ended_when_no_more_are_wanted():
    made = map_in_processes(time.sleep, [0.0, FOREVER], workers=2)
    assert next(made) is None
    made.close()
    assert list(made) == []


def test_a_task_that_fails_is_told():
    with pytest.raises(HoldfastError, match="ValueError") as caught:
        list(map_in_processes(math.sqrt, [-1.0], workers=1))
    Path(str(caught.value).split("'")[1]).unlink()
