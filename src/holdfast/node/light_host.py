"""A light PE host: its replicas only send beats and count. It replaces Spark in tests, and where thousands of replicas are needed.

    python -m holdfast.node.light_host --work DIR --node NAME

It keeps the contract of every PE host:

- It starts a replica once per incarnation, and reports it as `starting` before that.
- It leaves a replica alone if the assigned incarnation is not higher than the running one.
- Its status has the term and generation of the newest assignment that it has carried out.
- It writes `host.json` at every change, and at least twice a second.
- It ends on SIGTERM, and when its work folder is removed.

A light replica lives for the `lives_s` of its PE in the job's settings (`{"pes": {"name": {"lives_s": 3}}}`) and then finishes.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil

from holdfast.protocol.messages import AssignedReplica, Assignment, HostStatus, ReplicaStatus, State
from holdfast.protocol.node_files import ASSIGNMENT, WatchedFile, take_failure_request, write_status
from holdfast.protocol.presence import hold_presence

STARTS = "starts.log"
"""A log with one line per start of a replica: its key, its incarnation, the PE host's process number, the time."""

START_S = 0.05
EPOCH_S = 1.0
TICK_S = 0.05
BEAT_S = 0.4


@dataclass(frozen=True, slots=True)
class LightReplica:
    """A replica that counts its active seconds. The present state began at `since_s`; `done_s` is the count before it."""

    assigned: AssignedReplica
    lives_s: float | None
    state: State
    since_s: float
    done_s: float = 0.0
    error: str | None = None

    def active_s(self, now_s: float) -> float:
        """Return the seconds that it has been active."""
        return self.done_s + (now_s - self.since_s if self.state == "running" else 0.0)

    def in_state(self, state: State, now_s: float, error: str | None = None) -> LightReplica:
        """Return the replica in another state from now on."""
        return replace(self, state=state, since_s=now_s, done_s=self.active_s(now_s), error=error)

    def due_s(self) -> float | None:
        """Return when it next changes by itself, or None."""
        if self.state == "starting":
            return self.since_s + START_S
        if self.state == "running" and self.lives_s is not None:
            return self.since_s + max(0.0, self.lives_s - self.done_s)
        return None

    def advanced(self, now_s: float) -> LightReplica:
        """Return the replica as it is now."""
        due_s = self.due_s()
        if due_s is None or now_s < due_s:
            return self
        if self.state == "running":
            return self.in_state("finished", now_s)
        return self.in_state("running" if self.assigned.active else "idle", now_s)

    def status(self, now_s: float) -> ReplicaStatus:
        epochs = int(self.active_s(now_s) / EPOCH_S)
        return ReplicaStatus(
            key=self.assigned.key,
            incarnation=self.assigned.incarnation,
            state=self.state,
            error=self.error,
            live=epochs,
            clean=epochs,
            quality="exact",
            lag_s=0.0,
            caught_up=self.state == "running",
        )


class LightPes:
    """The replicas of one light PE host. No method reads a clock. `started` is called once the start of a replica is reported."""

    def __init__(self, started: Callable[[AssignedReplica], None]) -> None:
        self.replicas: dict[str, LightReplica] = {}
        self.assignment = Assignment()
        self._started = started
        self._unreported: list[AssignedReplica] = []

    def apply(self, assignment: Assignment, now_s: float) -> None:
        """Carry out an assignment: add new replicas as `starting`, drop those not assigned, and activate or idle the others."""
        assigned = {replica.key: replica for replica in assignment.replicas}
        self.replicas = {key: replica for key, replica in self.replicas.items() if key in assigned}
        for key, replica in assigned.items():
            running = self.replicas.get(key)
            if running is None or running.assigned.incarnation < replica.incarnation:
                lives_s = _lives_s(assignment.jobs.get(replica.job, {}), replica.pe)
                self.replicas[key] = LightReplica(replica, lives_s, "starting", now_s)
                self._unreported.append(replica)
            elif running.state == "running" and not replica.active:
                self.replicas[key] = replace(running.in_state("idle", now_s), assigned=replica)
            elif running.state == "idle" and replica.active:
                self.replicas[key] = replace(running.in_state("running", now_s), assigned=replica)
            elif running.assigned.incarnation == replica.incarnation:
                self.replicas[key] = replace(running, assigned=replica)
        self.assignment = assignment

    def start_new_replicas(self) -> None:
        """Start the new replicas. Call this after a status has reported them as `starting`."""
        for assigned in self._unreported:
            self._started(assigned)
        self._unreported.clear()

    def fail(self, keys: tuple[str, ...], error: str, now_s: float) -> None:
        """Let replicas fail."""
        for key in keys:
            if key in self.replicas and self.replicas[key].state not in ("finished", "failed"):
                self.replicas[key] = self.replicas[key].in_state("failed", now_s, error)

    def advance(self, now_s: float) -> bool:
        """Apply the changes that are due. Returns whether there were any."""
        changed = {key: after for key, before in self.replicas.items() if (after := before.advanced(now_s)) is not before}
        self.replicas.update(changed)
        return bool(changed)

    def due_s(self) -> float | None:
        """Return when a replica next changes by itself, or None."""
        return min((due_s for replica in self.replicas.values() if (due_s := replica.due_s()) is not None), default=None)

    def statuses(self, now_s: float) -> tuple[ReplicaStatus, ...]:
        return tuple(self.replicas[key].status(now_s) for key in sorted(self.replicas))


def _lives_s(settings: Mapping[str, Any], pe: str) -> float | None:
    lives_s = ((settings.get("pes") or {}).get(pe) or {}).get("lives_s")
    return None if lives_s is None else float(lives_s)


class LightHost:
    """The main loop of a light PE host."""

    def __init__(self, work: Path) -> None:
        self.work = work
        self.stop = threading.Event()
        self._started_s = time.time()
        self._process = psutil.Process()
        self._assignment = WatchedFile(work / ASSIGNMENT, Assignment)
        self._pes = LightPes(self._note_start)
        self._beat_at = 0.0

    def run(self) -> None:
        """Serve until `stop` is set or the work folder is removed."""
        threading.Thread(target=hold_presence, args=(self.work, self.stop), name="presence", daemon=True).start()
        while not self.stop.is_set():
            try:
                self._tick(time.monotonic())
            except FileNotFoundError:
                if self.work.exists():
                    raise
                return
            except OSError as error:  # such as a full disk: the next beat reports what this one could not
                self._log_error(error)
            self.stop.wait(TICK_S)

    def _tick(self, now_s: float) -> None:
        changed = self._pes.advance(now_s)
        assignment = self._assignment.read()
        if assignment is not None and assignment is not self._pes.assignment:
            self._pes.apply(assignment, now_s)
            changed = True
        if fail := take_failure_request(self.work):
            self._pes.fail(fail.keys, fail.error, now_s)
            changed = True
        if changed or now_s >= self._beat_at:
            write_status(self.work, self._status(now_s))
            self._pes.start_new_replicas()
            self._beat_at = now_s + BEAT_S

    def _log_error(self, error: OSError) -> None:
        with contextlib.suppress(OSError):
            print(f"cannot write the status: {error}; trying again", file=sys.stderr, flush=True)

    def _note_start(self, replica: AssignedReplica) -> None:
        with (self.work / STARTS).open("a") as file:
            file.write(f"{replica.key} {replica.incarnation} {os.getpid()} {time.time():.3f}\n")

    def _status(self, now_s: float) -> HostStatus:
        times = self._process.cpu_times()
        return HostStatus(
            pid=os.getpid(),
            started_s=self._started_s,
            beat_s=time.time(),
            ready=True,
            term=self._pes.assignment.term,
            generation=self._pes.assignment.generation,
            replicas=self._pes.statuses(now_s),
            cpu_s=times.user + times.system,
            memory_bytes=self._process.memory_info().rss,
            threads=self._process.num_threads(),
            files=self._process.num_fds(),
        )


def main() -> None:
    parser = argparse.ArgumentParser(description="A light PE host: its replicas only send beats and count.")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--node", required=True)
    parser.add_argument("--master", help="ignored; accepted because all host kinds have the same options")
    parser.add_argument("--cores", help="as --master")
    parser.add_argument("--memory", help="as --master")
    parser.add_argument("--ui", action="store_true", help="as --master")
    host = LightHost(parser.parse_args().work)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: host.stop.set())
    host.run()


if __name__ == "__main__":
    main()
