"""Tests of the rehearsal: in a process of its own, since this one has compiled what tests before needed."""

import fcntl
import os
import subprocess
import sys
import tempfile

import pytest

from holdfast.predict import rehearsal

PROGRAM = """
import sys

import pyarrow as pa

from numba.core.dispatcher import Dispatcher

from holdfast.predict import Settings, StandIn, columns_of
from holdfast.predict.rehearsal import rehearse


def compiled():
    modules = [module for name, module in sorted(sys.modules.items()) if name.startswith("holdfast.predict")]
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
        stand_in = StandIn(columns_of(rows.schema, ["server"]), settings=Settings(forget_after=10))
    stand_in.observe(epoch, rows)
    if epoch % 2:
        stand_in.learn()
for ahead in (1, 3, 9):
    assert stand_in.predict(79 + ahead, time_left_s=5.0).rows is not None
print({name: count for name, count in compiled().items() if count != before[name]})
"""


def test_nothing_is_left_to_compile_after_the_rehearsal():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=os.environ, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "{}"


@pytest.mark.parametrize("owner", ["own", "another's"])
def test_a_turn_that_never_ends_is_not_waited_for(tmp_path, monkeypatch, owner):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    if owner == "own":
        monkeypatch.setattr(rehearsal, "TURN_S", 0.05)
    else:
        user = os.getuid()
        monkeypatch.setattr(os, "getuid", lambda: user + 1)
    with (tmp_path / f"holdfast-rehearsal-{os.getuid()}.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with rehearsal._in_turn():
            pass
