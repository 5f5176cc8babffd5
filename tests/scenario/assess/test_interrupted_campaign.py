"""A campaign that is interrupted from the keyboard, then killed, then left to end: real processes, one results folder."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[3] / "examples"
HOLDFAST = [sys.executable, "-m", "holdfast.cli.main"]
LIMIT_S = 240


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    """8 trials, each a Spark job of its own, into the folder `results`."""
    trace = tmp_path / "market.parquet"
    arguments = ["trace", "market", "--events", "3000", "--seed", "1", "--out", str(trace)]
    subprocess.run([*HOLDFAST, *arguments], check=True, capture_output=True)
    return [
        *HOLDFAST,
        *("assess", str(EXAMPLES / "bargain_discovery.py"), "--trace", str(trace), "--out", str(tmp_path / "results")),
        *("--target", "quote_filter", "--target", "vwap", "--offset", "500", "--offset", "1500", "--rate", "average"),
        *("--outage", "0.2", "--outage", "0.4", "--repetitions", "1", "--section", "100"),
        *("--way", "slow", "--no-check", "--parallel", "1", "--master", "local[2]", "--memory", "1g"),
    ]


def outcome_files(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in (folder / "outcomes").glob("[0-9]*.jsonl")}


def stopped(
    command: list[str], folder: Path, *, files: int, by: signal.Signals, before: Callable[[], None] = lambda: None
) -> tuple[int, str]:
    """Send a signal to the command and its children, as a terminal does, when there are `files` outcome files.

    The command is stopped while `before` runs. Return its exit code and stderr.
    """
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True)
    ends = time.monotonic() + LIMIT_S
    try:
        while len(list((folder / "outcomes").glob("[0-9]*.jsonl"))) < files:
            assert process.poll() is None, f"it ended by itself: {process.stderr.read() if process.stderr else ''}"
            assert time.monotonic() < ends, f"there were no {files} files within {LIMIT_S} s"
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGSTOP)
        before()
        os.killpg(process.pid, signal.SIGCONT)
        os.killpg(process.pid, by)
        _, stderr = process.communicate(timeout=LIMIT_S)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return process.returncode, stderr


def test_interrupted_and_killed_campaign_resumes(tmp_path: Path, command: list[str]) -> None:
    folder = tmp_path / "results"
    code, stderr = stopped(command, folder, files=2, by=signal.SIGINT)
    assert code == 130, stderr
    assert "of 8 trials are done; run the same command again to continue" in stderr
    assert "Traceback" not in stderr
    after_interrupt = outcome_files(folder)

    def second_process() -> None:
        rival = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        assert rival.returncode == 2, rival.stderr
        assert f"another process is running a campaign in folder '{folder}'" in rival.stderr

    code, _ = stopped(command, folder, files=len(after_interrupt) + 3, by=signal.SIGKILL, before=second_process)
    assert code == -signal.SIGKILL
    after_kill = outcome_files(folder)
    assert after_interrupt.items() <= after_kill.items()

    resumed = subprocess.run([*command, "--json"], capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert resumed.returncode == 0, resumed.stderr
    whole = outcome_files(folder)
    assert after_kill.items() <= whole.items()
    trials = [tuple(json.loads(line)["trial"]) for text in whole.values() for line in text.splitlines()]
    assert len(trials) == len(set(trials)) == 8
    assert json.loads(resumed.stdout)["trials"] == 8
