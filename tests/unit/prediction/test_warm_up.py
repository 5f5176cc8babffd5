"""Warming up compiles all algorithms. It runs in a new process, because this one has compiled some for other tests."""

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

from holdfast.prediction import EpochPredictor, PredictorSettings, classify_columns
from holdfast.prediction.warm_up import compile_predictors


def compiled():
    modules = [module for name, module in sorted(sys.modules.items()) if name.startswith("holdfast.prediction")]
    kernels = {id(kernel): kernel for module in modules for kernel in vars(module).values() if isinstance(kernel, Dispatcher)}
    return {(kernel.py_func.__module__, kernel.py_func.__name__): len(kernel.signatures) for kernel in kernels.values()}


compile_predictors()
before = compiled()
assert sum(map(bool, before.values())) >= 10, before  # the others are inlined into their callers

predictor = None
for epoch in range(80):
    keys = [f"server {n}" for n in range(40) if (n + epoch) % 17]
    rows = pa.table({
        "seq": [1_000 * epoch + n for n in range(len(keys))], "server": keys,
        "cpu": [50.0 + (epoch * len(key)) % 7 for key in keys], "jobs": [epoch % 5 for key in keys],
    })
    if predictor is None:
        predictor = EpochPredictor(classify_columns(rows.schema, ["server"]), settings=PredictorSettings(forget_after=10))
    predictor.observe(epoch, rows)
    if epoch % 2:
        predictor.train()
for ahead in (1, 3, 9):
    assert predictor.predict(79 + ahead, time_left_s=5.0).rows is not None
print({name: count for name, count in compiled().items() if count != before[name]})
"""


def test_nothing_is_compiled_after_warming_up(tmp_path):
    alone = {**os.environ, "TMPDIR": str(tmp_path)}  # so that it waits for no other process
    process = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=alone, timeout=600)
    assert process.returncode == 0, process.stderr
    assert process.stdout.strip() == "{}"


@pytest.mark.parametrize("owner", ["own", "another's"])
def test_lock_that_is_never_released_is_not_waited_for(tmp_path, monkeypatch, owner):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    if owner == "own":
        monkeypatch.setattr(warm_up, "LOCK_LIMIT_S", 0.05)
    else:
        user = os.getuid()
        monkeypatch.setattr(os, "getuid", lambda: user + 1)
    with (tmp_path / f"holdfast-rehearsal-{os.getuid()}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with warm_up._one_process_at_a_time():
            pass


@pytest.fixture
def lock(tmp_path, monkeypatch):
    """Yield the lock file, locked as if by another process."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    path = tmp_path / f"holdfast-rehearsal-{os.getuid()}.lock"
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield path


def acquires(monkeypatch, *, limit_s):
    """Return whether warming up begins before the limit."""
    monkeypatch.setattr(warm_up, "LOCK_LIMIT_S", limit_s)
    began = time.monotonic()
    with warm_up._one_process_at_a_time():
        return time.monotonic() - began < limit_s


def test_compiled_code_is_loaded_without_waiting_for_the_lock(lock, monkeypatch):
    assert not acquires(monkeypatch, limit_s=0.2)
    assert acquires(monkeypatch, limit_s=30.0)  # the first one has written the digest


def test_waiting_ends_when_the_holder_has_compiled(lock, monkeypatch):
    timer = threading.Timer(0.3, lambda: lock.write_bytes(warm_up._code_digest()))
    timer.start()
    assert acquires(monkeypatch, limit_s=30.0)
    timer.join()


def test_digest_of_other_code_does_not_end_the_waiting(lock, monkeypatch):
    lock.write_bytes(b"0" * 64)
    assert not acquires(monkeypatch, limit_s=0.2)
