"""PE hosts: which kinds there are, and the process of one, started, found again, watched and stopped.

A PE host holds a lock on `host.lock` for as long as it lives: it inherits the locked file from the controller that starts it. So a
controller that was killed, even between starting a host and noting its number, can tell a living host from a dead one, whatever
process numbers were reused meanwhile, and never starts a second one beside it.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from holdfast.entry_points import installed_entry_points
from holdfast.errors import HoldfastError
from holdfast.protocol.messages import Assignment, HostStatus
from holdfast.protocol.node_files import CONTROLLER_LOCK, LOCK, LOG, PID, STATUS, Watched, write_assignment

GROUP = "holdfast.hosts"
KINDS: dict[str, tuple[str, ...]] = {
    "spark": (sys.executable, "-m", "holdfast.runtime.pe_host"),
    "light": (sys.executable, "-m", "holdfast.node.light_host"),
}
AGENTS: dict[str, tuple[str, ...]] = {"spark": (sys.executable, "-m", "holdfast.prediction.agent.process")}
"""How a prediction agent is started, per kind of PE host that has them."""
LOG_BYTES = 16 * 2**20
POLL_S = 0.1
NOTE_AND_BECOME = 'echo "$$ $(cut -d" " -f22 "/proc/$$/stat" 2>/dev/null)" >"$0"; exec "$@"'
"""A shell that notes its process number and start time and then becomes the host, under the same number."""


def host_command(kind: str) -> tuple[str, ...]:
    """How a kind of PE host is started. Packages add kinds by the entry-point group `holdfast.hosts`: a command as a list."""
    if kind in KINDS:
        return KINDS[kind]
    found = installed_entry_points(GROUP)
    for entry in found:
        if entry.name == kind:
            return tuple(entry.load())
    names = sorted({*KINDS, *found.names})
    raise HoldfastError(f"PE host '{kind}' is not known; kinds are: {', '.join(names)}")


def living_host(work: Path) -> int | None:
    """The process number of the node's PE host, if it lives; it leads a process group and a session of its own."""
    return _noted(work / PID) if _locked(work / LOCK) else None


def living_controller(work: Path) -> int | None:
    """The process number of the controller of the node in this folder, if it lives."""
    lock = work / CONTROLLER_LOCK
    return _noted(lock) if _locked(lock) else None


def _locked(lock: Path) -> bool:
    """Whether a living process holds a lock."""
    try:
        with lock.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def _noted(path: Path) -> int | None:
    """The process number in a file; None where it holds none, as may be after a power failure."""
    try:
        words = path.read_bytes().split()
    except FileNotFoundError:
        return None
    return int(words[0]) if words and words[0].isdigit() else None


class Host(Protocol):
    """What a controller needs of a PE host, be it a process or in this one."""

    def alive(self) -> bool:
        """Whether it runs. What it said last is still to be read when it does not."""

    def has_place(self) -> bool:
        """Whether what it is spoken to through, such as its folder, is there."""

    def status(self) -> HostStatus | None:
        """What it said last; None as long as it has said nothing."""

    def start(self, assignment: Assignment) -> None:
        """Start it, with an assignment that it finds when it looks first. Does nothing where one lives."""

    def assign(self, assignment: Assignment) -> None:
        """Give it another assignment; returns at once."""

    def has_begun(self) -> bool:
        """Whether it may run anything of an assignment before the newest: not before it has, ready for the first, looked at one."""

    def death(self) -> str:
        """How it died, in words."""

    def clean(self) -> None:
        """Keep what it leaves behind, such as its log, within bounds."""

    async def changed(self) -> None:
        """Return when there may be something new in it, within a moment anyway."""

    async def stop(self, grace_s: float) -> None:
        """End it: asked first, killed when it has not gone after so many seconds."""


class HostProcess:
    """A PE host as a process in a session of its own, spoken to through files in the work folder."""

    def __init__(
        self, work: Path, command: Sequence[str], *, log: Callable[[str], None], clock: Callable[[], float] = time.time
    ) -> None:
        self.work, self.command, self._log, self._clock = work, tuple(command), log, clock
        self._assigned_s = clock()
        self._status = Watched(work / STATUS, HostStatus)
        self._child: subprocess.Popen[bytes] | None = None
        self._told: str | None = None

    def alive(self) -> bool:
        if self._child is not None:
            self._child.poll()  # a child that ended must be waited for, or it stays in the table of processes
        return _locked(self.work / LOCK)

    def has_place(self) -> bool:
        return self.work.is_dir()

    def status(self) -> HostStatus | None:
        status = self._status.read()
        if self._status.error != self._told:
            self._told = self._status.error
            if self._told:
                self._log(f"what the PE host wrote is left aside: {self._told}")
        return status

    def start(self, assignment: Assignment) -> None:
        with (self.work / LOCK).open("ab") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return
            self._reap()
            self._sweep()
            for name in (PID, STATUS):
                (self.work / name).unlink(missing_ok=True)
            self.assign(assignment)
            with (self.work / LOG).open("ab") as log:
                self._child = subprocess.Popen(
                    ["/bin/sh", "-c", NOTE_AND_BECOME, str(self.work / PID), *self.command],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    pass_fds=[lock.fileno()],
                )

    def assign(self, assignment: Assignment) -> None:
        write_assignment(self.work, assignment)
        self._assigned_s = self._clock()

    def has_begun(self) -> bool:
        if not self.alive():
            return False
        status = self._status.read()
        # what it said after the newest assignment was there for it, and not being ready, it said before it looked at any
        return status is None or status.ready or bool(status.replicas) or status.beat_s <= self._assigned_s

    def death(self) -> str:
        code = self._child.poll() if self._child is not None else None
        status = self._status.read()
        if status is not None and status.error:
            return f"the PE host ended: {status.error}"
        if code is None:
            return "the PE host ended while nobody watched"
        if code < 0:
            return f"the PE host was killed by {signal.Signals(-code).name}"
        return f"the PE host ended with exit code {code}; see {self.work / LOG}"

    def clean(self) -> None:
        log = self.work / LOG
        if log.exists() and log.stat().st_size > LOG_BYTES:
            shutil.copyfile(log, log.with_suffix(".log.1"))
            os.truncate(log, 0)  # the host appends, so it goes on at the new end

    async def changed(self) -> None:
        await asyncio.sleep(POLL_S)

    async def stop(self, grace_s: float) -> None:
        await self._end(signal.SIGTERM, grace_s)
        if self.alive():
            self._log(f"the PE host did not stop within {grace_s:g} s and is killed")
            await self._end(signal.SIGKILL, grace_s)
        self._reap()
        self._sweep()

    async def _end(self, how: signal.Signals, limit_s: float) -> None:
        """Send the host a signal (SIGKILL: its whole group) and wait until it is gone, within a limit."""
        ends = asyncio.get_running_loop().time() + limit_s
        sent = False
        while self.alive() and asyncio.get_running_loop().time() < ends:
            pid = living_host(self.work)  # none for the moment between its start and its note
            if pid is not None and not sent:
                sent = True
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(pid, how) if how is signal.SIGKILL else os.kill(pid, how)
            await asyncio.sleep(0.02)

    def _reap(self) -> None:
        """Wait for a child that has let go of its lock, which it does in ending."""
        if self._child is not None and not _locked(self.work / LOCK):
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._child.wait(1.0)

    def _sweep(self) -> None:
        """Kill what a dead host left of its process group, such as a JVM. Its number cannot be another's while the group lasts."""
        pid = _noted(self.work / PID)
        if pid is None or _runs(pid):
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)


def _runs(pid: int) -> bool:
    """Whether a process of this number runs; one that ended and was not waited for does not."""
    import psutil

    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
