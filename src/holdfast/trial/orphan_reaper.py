"""A helper process that ends the processes of a command when the command itself was killed.

A command that dies by SIGKILL cannot end the processes it started, such as PE hosts, which have their own sessions. The command
therefore registers them with this process over a pipe, one per line: each process (`process PID`) and the work folder of each node
(`node PATH`). When the pipe closes, for any reason, this process kills those that still run.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import psutil

from holdfast.node.agent_processes import FOLDER
from holdfast.node.pe_hosts import living_host

POLLS, POLL_S = 10, 0.1
"""How often, and at which interval, to look for PE hosts. One may just be starting when its controller is killed."""


class OrphanReaper:
    """Starts the helper process of one command and registers the command's processes with it."""

    def __init__(self) -> None:
        command = (sys.executable, "-m", "holdfast.trial.orphan_reaper")
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)

    def register(self, line: str) -> None:
        """Register a process or a folder. No effect if the helper process was killed, because nothing else depends on it."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.write(f"{line}\n".encode())
            self._process.stdin.flush()

    def close(self) -> None:
        """Close the pipe and wait until the helper process has killed what still runs."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        self._process.wait()


def kill_hosts(folder: Path) -> None:
    """SIGKILL the PE host and the prediction agents of a node, with their process groups."""
    pids = (living_host(work) for work in (folder, *sorted((folder / FOLDER).glob("*"))))
    for pid in (pid for pid in pids if pid is not None):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)


def reap(lines: Iterable[str]) -> None:
    """Collect the registered processes and folders; after the last line, kill what still runs.

    Controllers are killed first, because they would start their PE hosts again.
    """
    processes: list[psutil.Process] = []
    folders: list[Path] = []
    for line in lines:
        kind, _, value = line.rstrip("\n").partition(" ")
        if kind == "node":
            folders.append(Path(value))
        else:
            with contextlib.suppress(psutil.NoSuchProcess):
                processes.append(psutil.Process(int(value)))
    running = [process for process in processes if process.is_running()]
    for process in running:
        with contextlib.suppress(psutil.NoSuchProcess):  # psutil does not kill a new process that has the same pid
            process.kill()
    for _ in range(POLLS if running else 1):
        for folder in folders:
            kill_hosts(folder)
        if running:
            time.sleep(POLL_S)


if __name__ == "__main__":
    reap(sys.stdin)
