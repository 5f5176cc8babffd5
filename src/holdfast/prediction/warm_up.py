"""The algorithms in machine code before the first epoch comes: a stand-in that learns and predicts a small made-up stream."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numba
import pyarrow as pa

from holdfast import compiled
from holdfast.prediction.column_roles import columns_of
from holdfast.prediction.epoch_predictor import EpochPredictor
from holdfast.prediction.settings import PredictorSettings

EPOCHS, KEYS = 60, 3
"""Enough for every algorithm to train, to forecast near and far, and to be judged."""
TURN_S = 120.0
"""How long another's turn is waited for: whoever has it may have been stopped, and a PE waits to be watched."""
LOOK_S = 0.1


def rehearse() -> None:
    """Let the algorithms that come with holdfast be compiled, or loaded where they were compiled before.

    Compiling takes some ten seconds once per installation. A node starts an agent for every PE at the same moment, so they take
    turns until one of them has compiled; then all load what it kept, none waiting for another.
    """
    with _in_turn():
        stand_in: EpochPredictor | None = None
        for epoch in range(EPOCHS):
            rows = _rows(epoch)
            if stand_in is None:
                stand_in = EpochPredictor(columns_of(rows.schema, ["key"]), settings=PredictorSettings())
            stand_in.from_input.echo.tell(epoch, [rows])
            stand_in.observe(epoch, rows)
            stand_in.learn()
        assert stand_in is not None
        for ahead in (1, 2, 5):
            stand_in.from_input.echo.tell(EPOCHS - 1 + ahead, [_rows(EPOCHS)], exact=False)
            stand_in.predict(EPOCHS - 1 + ahead, time_left_s=60.0)


def _rows(epoch: int) -> pa.Table:
    """An epoch with numbers that repeat, rise and are missing, in fractions and whole."""
    keys = range(KEYS)
    return pa.table(
        {
            "seq": pa.array([epoch * KEYS + key for key in keys], pa.int64()),
            "key": pa.array(list(keys), pa.int64()),
            "repeats": pa.array([float((epoch + key) % 6) for key in keys], pa.float64()),
            "rises": pa.array([None if (epoch + key) % 11 == 0 else 0.5 * epoch for key in keys], pa.float64()),
            "whole": pa.array([epoch // (key + 2) for key in keys], pa.int64()),
        }
    )


@contextlib.contextmanager
def _in_turn() -> Iterator[None]:
    """Wait until no other process of this user compiles, unless that was done; leave a mark that it was.

    Where no lock can be had, or not in time, go on without one.
    """
    path = Path(tempfile.gettempdir()) / f"holdfast-rehearsal-{os.getuid()}.lock"
    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError:
        yield
        return
    try:
        if os.fstat(lock).st_uid == os.getuid():  # another user's file may be held for ever
            _take(lock, until_s=time.monotonic() + TURN_S)
        yield
        with contextlib.suppress(OSError):
            os.pwrite(lock, _code(), 0)
    finally:
        os.close(lock)


def _take(lock: int, *, until_s: float) -> None:
    """Have the lock, or the mark of a process that has compiled this code."""
    code = _code()
    while os.pread(lock, len(code), 0) != code and time.monotonic() < until_s:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(LOOK_S)
        except OSError:
            return
        else:
            return


def _code() -> bytes:
    """A digest of what is compiled, and by what: kept machine code is good as long as all of it is the same."""
    files = [Path(compiled.__file__), *sorted(Path(__file__).parent.rglob("*.py"))]
    stamps = [(str(file), file.stat().st_mtime_ns, file.stat().st_size) for file in files]
    return hashlib.sha256(repr((sys.version, numba.__version__, stamps)).encode()).hexdigest().encode()
