"""A light PE host: replicas that beat and count, and stand for real ones where thousands are needed or Spark is not.

    python -m holdfast.node.light_host --work DIR --node NAME

It keeps every promise of a real PE host, which are these. It starts a replica once per incarnation, and says so (`starting`) before
it does. It leaves a replica alone whose incarnation is not higher than what it has. What it says has the order (term, generation)
of the newest assignment that it has carried out. It writes `host.json` at every change and at least twice a second. It ends on
SIGTERM, and when its work folder is gone.

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

STARTS = "starts.log"
"""One line per start of a replica, appended: its key, its incarnation, the host's process number, the time."""

START_S = 0.05
EPOCH_S = 1.0
TICK_S = 0.05
BEAT_S = 0.4


@dataclass(frozen=True, slots=True)
class LightReplica:
    """A replica that counts seconds of activity. `since_s` is when the present state began, `done_s` its activity before."""

    assigned: AssignedReplica
    lives_s: float | None
    state: State
    since_s: float
    done_s: float = 0.0
    error: str | None = None

    def active_s(self, now_s: float) -> float:
        """Seconds it has been active so far."""
        return self.done_s + (now_s - self.since_s if self.state == "running" else 0.0)

    def moved(self, state: State, now_s: float, error: str | None = None) -> LightReplica:
        """It, in another state from now on."""
        return replace(self, state=state, since_s=now_s, done_s=self.active_s(now_s), error=error)

    def due_s(self) -> float | None:
        """When it next changes by itself, on the clock that it was started with."""
        if self.state == "starting":
            return self.since_s + START_S
        if self.state == "running" and self.lives_s is not None:
            return self.since_s + max(0.0, self.lives_s - self.done_s)
        return None

    def advanced(self, now_s: float) -> LightReplica:
        """It, as it is now."""
        due_s = self.due_s()
        if due_s is None or now_s < due_s:
            return self
        if self.state == "running":
            return self.moved("finished", now_s)
        return self.moved("running" if self.assigned.active else "idle", now_s)

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
    """The replicas of one light host. No method reads a clock; `started` hears of each replica once it is listed."""

    def __init__(self, started: Callable[[AssignedReplica], None]) -> None:
        self.replicas: dict[str, LightReplica] = {}
        self.assignment = Assignment()
        self._started = started
        self._unsaid: list[AssignedReplica] = []

    def apply(self, assignment: Assignment, now_s: float) -> None:
        """Carry out an assignment: list what is new as starting, drop what is no longer wanted, wake and idle the rest."""
        wanted = {replica.key: replica for replica in assignment.replicas}
        self.replicas = {key: replica for key, replica in self.replicas.items() if key in wanted}
        for key, asked in wanted.items():
            has = self.replicas.get(key)
            if has is None or has.assigned.incarnation < asked.incarnation:
                lives_s = _lives_s(assignment.jobs.get(asked.job, {}), asked.pe)
                self.replicas[key] = LightReplica(asked, lives_s, "starting", now_s)
                self._unsaid.append(asked)
            elif has.state == "running" and not asked.active:
                self.replicas[key] = replace(has.moved("idle", now_s), assigned=asked)
            elif has.state == "idle" and asked.active:
                self.replicas[key] = replace(has.moved("running", now_s), assigned=asked)
            elif has.assigned.incarnation == asked.incarnation:
                self.replicas[key] = replace(has, assigned=asked)
        self.assignment = assignment

    def said(self) -> None:
        """What is listed has been told: now the new ones really start."""
        for assigned in self._unsaid:
            self._started(assigned)
        self._unsaid.clear()

    def fail(self, keys: tuple[str, ...], error: str, now_s: float) -> None:
        """Let replicas fail, as a PE that gives up does."""
        for key in keys:
            if key in self.replicas and self.replicas[key].state not in ("finished", "failed"):
                self.replicas[key] = self.replicas[key].moved("failed", now_s, error)

    def advance(self, now_s: float) -> bool:
        """Let time pass; whether anything changed."""
        moved = {key: after for key, before in self.replicas.items() if (after := before.advanced(now_s)) is not before}
        self.replicas.update(moved)
        return bool(moved)

    def due_s(self) -> float | None:
        """When something next changes by itself."""
        return min((due_s for replica in self.replicas.values() if (due_s := replica.due_s()) is not None), default=None)

    def statuses(self, now_s: float) -> tuple[ReplicaStatus, ...]:
        return tuple(self.replicas[key].status(now_s) for key in sorted(self.replicas))


def _lives_s(settings: Mapping[str, Any], pe: str) -> float | None:
    lives_s = ((settings.get("pes") or {}).get(pe) or {}).get("lives_s")
    return None if lives_s is None else float(lives_s)


class LightHost:
    """The loop of a light host as a process."""

    def __init__(self, work: Path) -> None:
        self.work = work
        self.stop = threading.Event()
        self._started_s = time.time()
        self._process = psutil.Process()
        self._assignment = WatchedFile(work / ASSIGNMENT, Assignment)
        self._pes = LightPes(self._note_start)
        self._beat_at = 0.0

    def run(self) -> None:
        """Serve until told to stop or the work folder is gone."""
        while not self.stop.is_set():
            try:
                self._tick(time.monotonic())
            except FileNotFoundError:
                if self.work.exists():
                    raise
                return
            except OSError as error:  # a full disk, say: what could not be told is told with the next beat
                self._complain(error)
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
            self._pes.said()
            self._beat_at = now_s + BEAT_S

    def _complain(self, error: OSError) -> None:
        with contextlib.suppress(OSError):
            print(f"cannot say how it goes: {error}; trying again", file=sys.stderr, flush=True)

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
    parser = argparse.ArgumentParser(description="A light PE host: replicas that beat and count.")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--node", required=True)
    parser.add_argument("--master", help="taken for the sake of one command line for all hosts; not used")
    parser.add_argument("--cores", help="as --master")
    parser.add_argument("--memory", help="as --master")
    parser.add_argument("--ui", action="store_true", help="as --master")
    host = LightHost(parser.parse_args().work)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: host.stop.set())
    host.run()


if __name__ == "__main__":
    main()
