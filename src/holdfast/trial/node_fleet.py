"""Many nodes in one process: each with its own controller, registration, beats and reports, and light PEs beside it.

    python -m holdfast.trial.node_fleet --orchestrator DIR --nodes 90 --work DIR

It stands for a cluster that no machine here has. What differs from real nodes: the controllers share a process and a
network address, a PE host is an object and no process, and the HTTP client costs less CPU. Controllers and protocol are the real
ones.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from holdfast.control import allow_connections
from holdfast.node.controller import NodeController, NodeOffer
from holdfast.node.light_host import STARTS, LightPes
from holdfast.node.reports import Reports
from holdfast.protocol.messages import AssignedReplica, Assignment, HostStatus
from holdfast.protocol.node_link import NodeLink, OrchestratorAddress, locate_orchestrator
from holdfast.trial.lean_http_client import LeanHttpClient


class InnerHost:
    """A light PE host within the controller's own process. It never dies."""

    def __init__(self, started: Callable[[AssignedReplica], None]) -> None:
        self._pes = LightPes(started)
        self._started_s = time.time()
        self._alive = False
        self._news = asyncio.Event()

    def alive(self) -> bool:
        return self._alive

    def has_work_folder(self) -> bool:
        return True

    def status(self) -> HostStatus | None:
        if not self._alive:
            return None
        return HostStatus(
            pid=os.getpid(),
            started_s=self._started_s,
            beat_s=time.time(),
            ready=True,
            term=self._pes.assignment.term,
            generation=self._pes.assignment.generation,
            replicas=self._pes.statuses(time.monotonic()),
        )

    def start(self, assignment: Assignment) -> None:
        self._alive = True
        self.assign(assignment)

    def assign(self, assignment: Assignment) -> None:
        self._pes.apply(assignment, time.monotonic())
        self._pes.start_reported()
        self._news.set()

    def has_begun(self) -> bool:
        return self._alive

    def fail(self, keys: tuple[str, ...], error: str) -> None:
        """Let replicas fail."""
        self._pes.fail(keys, error, time.monotonic())
        self._news.set()

    def death(self) -> str:
        return "the PE host was stopped"

    def clean(self) -> None:
        pass

    async def changed(self) -> None:
        """Return at the next change: one that was made from outside, or one that is due by itself."""
        due_s = self._pes.due_s()
        try:
            async with asyncio.timeout(None if due_s is None else max(0.0, due_s - time.monotonic())):
                await self._news.wait()
        except TimeoutError:
            self._pes.advance(time.monotonic())
        self._news.clear()

    async def stop(self, grace_s: float) -> None:
        self._alive = False


class Fleet:
    """So many nodes, n0001 onwards, in racks of `rack` nodes. `starts` counts how often each replica was started."""

    def __init__(self, nodes: int, find: Callable[[], OrchestratorAddress], *, work: Path, rack: int = 10) -> None:
        self.starts: list[tuple[str, int]] = []
        self.hosts: dict[str, InnerHost] = {}
        self.controllers: list[NodeController] = []
        for number in range(1, nodes + 1):
            name = f"n{number:04}"
            self.hosts[name] = InnerHost(lambda assigned: self.starts.append((assigned.key, assigned.incarnation)))
            self.controllers.append(
                NodeController(
                    NodeOffer(name, cores=64, memory_bytes=2**36, host_kind="light", labels={"rack": f"r{number // rack:03}"}),
                    NodeLink(name, find, LeanHttpClient()),
                    self.hosts[name],
                    reports=Reports(work / f"{name}.db", clock=time.time, synced=False),  # one disk here stands for many
                    log=lambda text, name=name: print(f"{name}: {text}", file=sys.stderr),  # type: ignore[misc]  # name is bound
                    rng=random.Random(number),
                    monotonic=time.monotonic,
                )
            )

    async def run(self, stop: asyncio.Event) -> None:
        await asyncio.gather(*(controller.run(stop) for controller in self.controllers))
        await asyncio.gather(*(controller.link.close() for controller in self.controllers))


async def serve(nodes: int, orchestrator: str, *, token: Path | None, work: Path) -> None:
    """Run a fleet until SIGTERM; every start of a replica is a line in `starts.log`."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    fleet = Fleet(nodes, locate_orchestrator(orchestrator, token), work=work)
    writing = asyncio.create_task(_write_starts(fleet, work / STARTS))
    try:
        await fleet.run(stop)
    finally:
        writing.cancel()


async def _write_starts(fleet: Fleet, path: Path) -> None:
    written = 0
    with path.open("a", buffering=1) as file:
        while True:
            new = fleet.starts[written:]
            file.writelines(f"{key} {incarnation}\n" for key, incarnation in new)
            written += len(new)
            await asyncio.sleep(0.1)


def main() -> None:
    parser = argparse.ArgumentParser(description="Many light nodes in one process.")
    parser.add_argument("--orchestrator", required=True, help="URL, or the work folder of an orchestrator on this machine")
    parser.add_argument("--token-file", type=Path)
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--work", type=Path, required=True)
    given = parser.parse_args()
    allow_connections()
    asyncio.run(serve(given.nodes, given.orchestrator, token=given.token_file, work=given.work))


if __name__ == "__main__":
    main()
