"""Commands that are killed while they run, as real processes."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
HOLDFAST = [sys.executable, "-m", "holdfast.cli.main"]


def wait_until(condition: Callable[[], object], *, limit_s: float) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {limit_s} s"
        time.sleep(0.02)


def kill_when(arguments: list[str], condition: Callable[[], object], *, limit_s: float) -> None:
    """Start a command in its own process group and kill the group when the condition holds."""
    process = subprocess.Popen(
        [*HOLDFAST, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        wait_until(lambda: condition() or process.poll() is not None, limit_s=limit_s)
        assert process.poll() is None, f"the command ended before it could be killed, with {process.returncode}"
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_killed_trace_command_leaves_no_file(tmp_path: Path) -> None:
    out = tmp_path / "market.parquet"
    arguments = ["trace", "market", "--events", "30000000", "--seed", "1", "--out", str(out)]
    kill_when(arguments, lambda: any(file.stat().st_size > 0 for file in tmp_path.iterdir()), limit_s=120)
    assert not out.exists()


@pytest.fixture
def market(tmp_path: Path) -> Path:
    path = tmp_path / "market.parquet"
    subprocess.run(
        [*HOLDFAST, "trace", "market", "--events", "20000", "--seed", "1", "--out", str(path)], check=True, capture_output=True
    )
    return path


def test_replay_succeeds_after_a_killed_one(tmp_path: Path, market: Path) -> None:
    out = tmp_path / "rows"
    replay = ["replay", str(EXAMPLES / "bargain_discovery.py"), "--trace", str(market), "--by-epoch", "1", "--out", str(out)]
    kill_when(replay, lambda: list(tmp_path.glob(".rows.*.partial/bargains.parquet")), limit_s=240)
    assert not out.exists()
    whole = ["replay", str(EXAMPLES / "bargain_discovery.py"), "--trace", str(market), "--out", str(out), "--json"]
    process = subprocess.run([*HOLDFAST, *whole], capture_output=True, text=True, timeout=300, check=False)
    assert process.returncode == 0, process.stderr
    assert (out / "bargains.parquet").exists()
    assert not list(tmp_path.glob(".rows.*.partial"))


def test_error_ends_with_code_2_without_traceback(tmp_path: Path) -> None:
    process = subprocess.run([*HOLDFAST, "replay", "nowhere.py", "--trace", "none"], capture_output=True, text=True, check=False)
    assert process.returncode == 2
    assert "application file 'nowhere.py' does not exist" in process.stderr
    assert "Traceback" not in process.stderr
    assert process.stdout == ""
