"""Compiles the algorithms before the first epoch arrives, by training and predicting on a small artificial stream."""

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
from holdfast.prediction.column_roles import classify_columns
from holdfast.prediction.epoch_predictor import EpochPredictor

EPOCHS, KEYS = 60, 3
"""Enough that every algorithm is trained, predicts the next epoch and later ones, and is judged."""
LOCK_LIMIT_S = 120.0
"""How long to wait for the lock: its holder may have been stopped, and a PE waits for protection."""
POLL_S = 0.1


def compile_predictors() -> None:
    """Compile holdfast's algorithms, or load their machine code if they were compiled before.

    Compiling takes about ten seconds, once per installation. A node starts the agents of all its PEs at the same moment, so they
    take turns until one of them has compiled. Then all others load its machine code at once.
    """
    with _one_process_at_a_time():
        predictor = EpochPredictor(classify_columns(_rows(0).schema, ["key"]))
        for epoch in range(EPOCHS):
            rows = _rows(epoch)
            predictor.input_predictor.echo.add_input(epoch, [rows])
            predictor.observe(epoch, rows)
            predictor.train()
        for ahead in (1, 2, 5):
            predictor.input_predictor.echo.add_input(EPOCHS - 1 + ahead, [_rows(EPOCHS)], exact=False)
            predictor.predict(EPOCHS - 1 + ahead, time_left_s=60.0)


def _rows(epoch: int) -> pa.Table:
    """Return an epoch whose numbers repeat, rise or are missing, with and without fractions."""
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
def _one_process_at_a_time() -> Iterator[None]:
    """Hold a lock of this user while compiling, unless some process has compiled this code. Write to the lock file that it is done.

    Continue without the lock if it cannot be had in time.
    """
    path = Path(tempfile.gettempdir()) / f"holdfast-rehearsal-{os.getuid()}.lock"
    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError:
        yield
        return
    try:
        if os.fstat(lock).st_uid == os.getuid():  # another user may hold the lock of their own file forever
            _acquire(lock, until_s=time.monotonic() + LOCK_LIMIT_S)
        yield
        with contextlib.suppress(OSError):
            os.pwrite(lock, _code_digest(), 0)
    finally:
        os.close(lock)


def _acquire(lock: int, *, until_s: float) -> None:
    """Wait for the lock, or until its file says that a process has compiled this code."""
    digest = _code_digest()
    while os.pread(lock, len(digest), 0) != digest and time.monotonic() < until_s:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(POLL_S)
        except OSError:
            return
        else:
            return


def _code_digest() -> bytes:
    """Return a digest of the compiled files and of the compiler: cached machine code is valid while it stays the same."""
    files = [Path(compiled.__file__), *sorted(Path(__file__).parent.rglob("*.py"))]
    stamps = [(str(file), file.stat().st_mtime_ns, file.stat().st_size) for file in files]
    return hashlib.sha256(repr((sys.version, numba.__version__, stamps)).encode()).hexdigest().encode()
