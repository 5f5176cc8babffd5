"""The kinds of PE hosts, and the process of one: start it, find it again, watch it and stop it.

A PE host holds a lock on `host.lock` while it lives: it inherits the locked file from the controller that starts it. A controller
that was killed, even between starting a PE host and noting its process number, can therefore tell a living PE host from a dead one.
It never starts a second one, and reused process numbers do not mislead it. `controller.py` decides what to do about a dead one.
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
from holdfast.protocol.node_files import LOCK, LOG, PID, STATUS, WatchedFile, write_assignment

GROUP = "holdfast.hosts"
KINDS: dict[str, tuple[str, ...]] = {
    "spark": (sys.executable, "-m", "holdfast.runtime.pe_host"),
    "light": (sys.executable, "-m", "holdfast.node.light_host"),
}
AGENTS: dict[str, tuple[str, ...]] = {"spark": (sys.executable, "-m", "holdfast.prediction.agent.process")}
"""The command of a prediction agent, for each host kind that has agents."""
LOG_BYTES = 16 * 2**20
POLL_S = 0.1
NOTE_AND_BECOME = 'echo "$$ $(cut -d" " -f22 "/proc/$$/stat" 2>/dev/null)" >"$0"; exec "$@"'
"""A shell script that writes its process number and start time to a file and then becomes the PE host, under the same number."""


def host_command(kind: str) -> tuple[str, ...]:
    """Return the command of a host kind. Packages add kinds through the entry-point group `holdfast.hosts`: a command as a list."""
    if kind in KINDS:
        return KINDS[kind]
    installed = installed_entry_points(GROUP)
    for entry in installed:
        if entry.name == kind:
            return tuple(entry.load())
    names = sorted({*KINDS, *installed.names})
    raise HoldfastError(f"PE host '{kind}' is not known; kinds are: {', '.join(names)}")


def living_host(work: Path) -> int | None:
    """Return the process number of the node's PE host, or None if it is dead. It leads its own process group and session."""
    return _read_pid(work / PID) if _is_locked(work / LOCK) else None


def _is_locked(lock: Path) -> bool:
    """Return whether a living process holds the lock."""
    try:
        with lock.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def _read_pid(path: Path) -> int | None:
    """Return the process number in a file, or None if it contains none, as may happen after a power failure."""
    try:
        words = path.read_bytes().split()
    except FileNotFoundError:
        return None
    return int(words[0]) if words and words[0].isdigit() else None


class PeHost(Protocol):
    """A PE host as its controller sees it: another process, or an object in this one."""

    def alive(self) -> bool:
        """Return whether it runs. The last status of a dead one can still be read."""

    def has_work_folder(self) -> bool:
        """Return whether the folder through which it communicates exists."""

    def status(self) -> HostStatus | None:
        """Return its last status, or None before the first."""

    def start(self, assignment: Assignment) -> None:
        """Start it with its first assignment. Does nothing if it already runs."""

    def assign(self, assignment: Assignment) -> None:
        """Give it another assignment. Returns at once."""

    def has_begun(self) -> bool:
        """Return whether it may run replicas of an assignment before the newest. Until it is ready, it runs none."""

    def death(self) -> str:
        """Return a text that says how it died."""

    def clean(self) -> None:
        """Limit the size of its log."""

    async def changed(self) -> None:
        """Wait until its status may have changed, and no longer than a fraction of a second."""

    async def stop(self, grace_s: float) -> None:
        """End it: ask it first, and kill it if it has not ended after `grace_s`."""


class HostProcess:
    """A PE host that is a process in its own session and communicates through files in the work folder."""

    def __init__(
        self, work: Path, command: Sequence[str], *, log: Callable[[str], None], clock: Callable[[], float] = time.time
    ) -> None:
        self.work, self.command, self._log, self._clock = work, tuple(command), log, clock
        self._assigned_s = clock()
        self._status = WatchedFile(work / STATUS, HostStatus)
        self._child: subprocess.Popen[bytes] | None = None
        self._logged_error: str | None = None

    def alive(self) -> bool:
        if self._child is not None:
            self._child.poll()  # reaps a child that has ended
        return _is_locked(self.work / LOCK)

    def has_work_folder(self) -> bool:
        return self.work.is_dir()

    def status(self) -> HostStatus | None:
        status = self._status.read()
        if self._status.error != self._logged_error:
            self._logged_error = self._status.error
            if self._logged_error:
                self._log(f"the PE host's status is ignored: {self._logged_error}")
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
        # a status that is newer than the assignment and not ready was written before the PE host read any assignment
        return status is None or status.ready or bool(status.replicas) or status.beat_s <= self._assigned_s

    def death(self) -> str:
        code = self._child.poll() if self._child is not None else None
        status = self._status.read()
        if status is not None and status.error:
            return f"the PE host ended: {status.error}"
        if code is None:
            return "the PE host ended while no controller watched it"
        if code < 0:
            return f"the PE host was killed by {signal.Signals(-code).name}"
        return f"the PE host ended with exit code {code}; see {self.work / LOG}"

    def clean(self) -> None:
        log = self.work / LOG
        if log.exists() and log.stat().st_size > LOG_BYTES:
            shutil.copyfile(log, log.with_suffix(".log.1"))
            os.truncate(log, 0)  # the PE host appends, so it continues at the new end

    async def changed(self) -> None:
        await asyncio.sleep(POLL_S)

    async def stop(self, grace_s: float) -> None:
        await self._end(signal.SIGTERM, grace_s)
        if self.alive():
            self._log(f"the PE host did not stop within {grace_s:g} s and is killed")
            await self._end(signal.SIGKILL, grace_s)
        self._reap()
        self._sweep()

    async def _end(self, signal_number: signal.Signals, limit_s: float) -> None:
        """Send a signal to the PE host (SIGKILL goes to its process group) and wait until it has ended, at most `limit_s`."""
        ends = asyncio.get_running_loop().time() + limit_s
        is_signalled = False
        while self.alive() and asyncio.get_running_loop().time() < ends:
            pid = living_host(self.work)  # None until the started process has noted its number
            if pid is not None and not is_signalled:
                is_signalled = True
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(pid, signal_number) if signal_number is signal.SIGKILL else os.kill(pid, signal_number)
            await asyncio.sleep(0.02)

    def _reap(self) -> None:
        """Wait for a child that has released its lock, which it does when it ends."""
        if self._child is not None and not _is_locked(self.work / LOCK):
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._child.wait(1.0)

    def _sweep(self) -> None:
        """Kill what remains of a dead PE host's process group, such as a JVM. A group's number is not reused until it is empty."""
        pid = _read_pid(self.work / PID)
        if pid is None or _runs(pid):
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)


def _runs(pid: int) -> bool:
    """Return whether a process with this number runs. A zombie does not."""
    import psutil

    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
