"""Tests of the rehearsal: in a process of its own, since this one has compiled what tests before needed."""

import fcntl
import os
import subprocess
import sys
import tempfile
import threading
import time

import pytest

from holdfast.prediction import warm_up

PROGRAM = """
import sys

import pyarrow as pa

from numba.core.dispatcher import Dispatcher

from holdfast.prediction import PredictorSettings, EpochPredictor, columns_of
from holdfast.prediction.warm_up import rehearse


def compiled():
    modules = [module for name, module in sorted(sys.modules.items()) if name.startswith("holdfast.prediction")]
    kernels = {id(each): each for module in modules for each in vars(module).values() if isinstance(each, Dispatcher)}
    return {(each.py_func.__module__, each.py_func.__name__): len(each.signatures) for each in kernels.values()}


rehearse()
before = compiled()
assert sum(map(bool, before.values())) >= 10, before  # the others are part of those that call them

stand_in = None
for epoch in range(80):
    keys = [f"server {n}" for n in range(40) if (n + epoch) % 17]
    rows = pa.table({
        "seq": [1_000 * epoch + n for n in range(len(keys))], "server": keys,
        "cpu": [50.0 + (epoch * len(key)) % 7 for key in keys], "jobs": [epoch % 5 for key in keys],
    })
    if stand_in is None:
        stand_in = EpochPredictor(columns_of(rows.schema, ["server"]), settings=PredictorSettings(forget_after=10))
    stand_in.observe(epoch, rows)
    if epoch % 2:
        stand_in.learn()
for ahead in (1, 3, 9):
    assert stand_in.predict(79 + ahead, time_left_s=5.0).rows is not None
print({name: count for name, count in compiled().items() if count != before[name]})
"""


def test_nothing_is_left_to_compile_after_the_rehearsal(tmp_path):
    alone = {**os.environ, "TMPDIR": str(tmp_path)}  # takes turns with nobody
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=alone, timeout=600)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "{}"


@pytest.mark.parametrize("owner", ["own", "another's"])
def test_a_turn_that_never_ends_is_not_waited_for(tmp_path, monkeypatch, owner):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    if owner == "own":
        monkeypatch.setattr(warm_up, "TURN_S", 0.05)
    else:
        user = os.getuid()
        monkeypatch.setattr(os, "getuid", lambda: user + 1)
    with (tmp_path / f"holdfast-rehearsal-{os.getuid()}.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with warm_up._in_turn():
            pass


@pytest.fixture
def lock(tmp_path, monkeypatch):
    """The file that rehearsals take turns by, held by another process as far as they can tell."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    path = tmp_path / f"holdfast-rehearsal-{os.getuid()}.lock"
    with path.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield path


def entered(monkeypatch, *, limit_s):
    """Whether a rehearsal begins within so long, without having waited in vain."""
    monkeypatch.setattr(warm_up, "TURN_S", limit_s)
    began = time.monotonic()
    with warm_up._in_turn():
        return time.monotonic() - began < limit_s


def test_what_was_compiled_before_is_loaded_without_waiting_for_others_that_load_it(lock, monkeypatch):
    assert not entered(monkeypatch, limit_s=0.2)
    assert entered(monkeypatch, limit_s=30.0)  # the first one has left its mark


def test_whoever_waits_goes_on_when_another_has_compiled_though_it_still_has_its_turn(lock, monkeypatch):
    mark = threading.Timer(0.3, lambda: lock.write_bytes(warm_up._code()))
    mark.start()
    assert entered(monkeypatch, limit_s=30.0)
    mark.join()


def test_what_was_compiled_of_other_code_is_compiled_again_in_turn(lock, monkeypatch):
    lock.write_bytes(b"0" * 64)
    assert not entered(monkeypatch, limit_s=0.2)
