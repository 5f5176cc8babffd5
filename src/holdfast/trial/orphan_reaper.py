"""Ends what a command has started when the command was killed: a process of its own that waits for the end of a pipe.

A command that dies by SIGKILL can end nothing, and what it started, PE hosts in sessions of their own above all, would go on for
ever. So it tells this process, a line each, of the processes that it starts (`process NUMBER`) and of the folders that nodes work
in (`node PATH`). When the pipe ends, however that comes about, whatever of them still lives is killed.
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

LOOKS, LOOK_S = 10, 0.1
"""How often, and after how long, it is looked for PE hosts: one may just be starting when its controller is killed."""


class OrphanReaper:
    """The keeper of one command: told what is started, and let go when all of it has been ended in order."""

    def __init__(self) -> None:
        command = (sys.executable, "-m", "holdfast.trial.orphan_reaper")
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)

    def tell(self, what: str) -> None:
        """Tell it of a process or a folder. One that was killed itself hears nothing, and nothing depends on it."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.write(f"{what}\n".encode())
            self._process.stdin.flush()

    def close(self) -> None:
        """Let it kill what is left, and wait until it has."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        self._process.wait()


def hosts_in(folder: Path) -> list[int]:
    """The process numbers of a node's PE host and prediction agents that live; each leads a group of its own."""
    found = (living_host(each) for each in (folder, *sorted((folder / FOLDER).glob("*"))))
    return [pid for pid in found if pid is not None]


def kill_hosts(folder: Path) -> None:
    """SIGKILL to all that a node runs, with whatever that has started."""
    for pid in hosts_in(folder):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)


def keep(lines: Iterable[str]) -> None:
    """Take note of what is told; at the end, kill what lives of it: controllers first, which would start their hosts again."""
    processes: list[psutil.Process] = []
    folders: list[Path] = []
    for line in lines:
        kind, _, named = line.rstrip("\n").partition(" ")
        if kind == "node":
            folders.append(Path(named))
        else:
            with contextlib.suppress(psutil.NoSuchProcess):
                processes.append(psutil.Process(int(named)))
    living = [process for process in processes if process.is_running()]
    for process in living:
        with contextlib.suppress(psutil.NoSuchProcess):  # nor is one killed that has got the number since
            process.kill()
    for _ in range(LOOKS if living else 1):
        for folder in folders:
            kill_hosts(folder)
        if living:
            time.sleep(LOOK_S)


if __name__ == "__main__":
    keep(sys.stdin)
