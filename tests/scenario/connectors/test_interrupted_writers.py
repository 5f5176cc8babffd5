"""Writers that are killed, or stopped and continued after a successor, before and after each of their external calls."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("interrupted_writers.py")
LIMIT_S = 500
WRITTEN = [[1, 11], [2, 20]]
"""Epoch 1 with its correction, and epoch 2 with its first output. Both have the same key."""

LAST_CALLS = {"delta": "write_deltalake", "iceberg": "commit_table", "parquet": "rename", "sql": "commit", "upsert": "commit"}


def interrupt(kind, signal, folder, server):
    """Return the calls before which a process was interrupted, after checking what the target contained then."""
    url = server.database(f"{kind}_{signal}".lower()) if server is not None else ""
    command = [sys.executable, SCRIPT, kind, signal, folder, url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done.stderr
    cases = json.loads(done.stdout)
    assert [case for case in cases if case["content"] != (WRITTEN[1:] if kind == "upsert" else WRITTEN)] == []
    return [case["before"] for case in cases]


@pytest.mark.parametrize("signal", ["SIGKILL", pytest.param("SIGSTOP", marks=pytest.mark.long)])
@pytest.mark.parametrize(
    "kind", ["iceberg", "sql", *(pytest.param(kind, marks=pytest.mark.long) for kind in ("delta", "parquet", "upsert"))]
)
def test_interrupted_writer_loses_and_repeats_nothing(kind, signal, tmp_path, request):
    calls = interrupt(kind, signal, tmp_path, request.getfixturevalue("server") if kind in ("sql", "upsert") else None)
    assert calls.count(LAST_CALLS[kind]) >= (1 if kind == "parquet" else 3)
    assert calls.count("mark as done") == 3
