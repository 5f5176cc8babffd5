"""Many nodes in one process. Each has its own controller, registration, beats, reports and light PEs.

    python -m holdfast_papers.system_s.node_fleet --orchestrator DIR --nodes 90 --work DIR

It tests the orchestrator with more nodes than a machine can run as processes. Unlike real nodes, the controllers share a process
and a network address, a PE host is an object, and the HTTP client costs less CPU. Controllers and protocol are the real ones.
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
from holdfast.node import STARTS, LightPes, NodeController, NodeOffer, Reports
from holdfast.protocol import AssignedReplica, Assignment, HostStatus, NodeLink, OrchestratorAddress, locate_orchestrator
from holdfast.trial import ProcessCluster
from holdfast_papers.system_s.lean_http_client import LeanHttpClient


def node_name(number: int) -> str:
    return f"n{number:04}"


class InProcessHost:
    """A light PE host inside the controller's process. It never dies."""

    def __init__(self, started: Callable[[AssignedReplica], None]) -> None:
        self._pes = LightPes(started)
        self._started_s = time.time()
        self._alive = False
        self._changed = asyncio.Event()

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
        self._pes.start_new_replicas()
        self._changed.set()

    def has_begun(self) -> bool:
        return self._alive

    def fail(self, keys: tuple[str, ...], error: str) -> None:
        """Make replicas fail."""
        self._pes.fail(keys, error, time.monotonic())
        self._changed.set()

    def death(self) -> str:
        return "the PE host was stopped"

    def clean(self) -> None:
        pass

    async def changed(self) -> None:
        """Wait for the next change: an assignment, a failure, or a change of state that is due."""
        due_s = self._pes.due_s()
        try:
            async with asyncio.timeout(None if due_s is None else max(0.0, due_s - time.monotonic())):
                await self._changed.wait()
        except TimeoutError:
            self._pes.advance(time.monotonic())
        self._changed.clear()

    async def stop(self, grace_s: float) -> None:
        self._alive = False


class Fleet:
    """Nodes n0001 onwards, in racks of `rack` nodes. `starts` lists the key and the incarnation of every start of a replica."""

    def __init__(self, nodes: int, find: Callable[[], OrchestratorAddress], *, work: Path, rack: int = 10) -> None:
        self.starts: list[tuple[str, int]] = []
        self.hosts: dict[str, InProcessHost] = {}
        self.controllers: list[NodeController] = []
        for number in range(1, nodes + 1):
            name = node_name(number)
            self.hosts[name] = InProcessHost(lambda assigned: self.starts.append((assigned.key, assigned.incarnation)))
            self.controllers.append(
                NodeController(
                    NodeOffer(name, cores=64, memory_bytes=2**36, host_kind="light", labels={"rack": f"r{number // rack:03}"}),
                    NodeLink(name, find, LeanHttpClient()),
                    self.hosts[name],
                    reports=Reports(work / f"{name}.db", clock=time.time, synced=False),  # all nodes share one disk
                    log=lambda text, name=name: print(f"{name}: {text}", file=sys.stderr),  # type: ignore[misc]  # name is bound
                    rng=random.Random(number),
                    monotonic=time.monotonic,
                )
            )

    async def run(self, stop: asyncio.Event) -> None:
        await asyncio.gather(*(controller.run(stop) for controller in self.controllers))
        await asyncio.gather(*(controller.link.close() for controller in self.controllers))


def start_fleet(cluster: ProcessCluster, nodes: int) -> None:
    """Start a process with this many light nodes in a cluster."""
    work = cluster.node_work("fleet")
    work.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "holdfast_papers.system_s.node_fleet", "--orchestrator", str(cluster.folder)]
    cluster.start_process("fleet", [*command, "--nodes", str(nodes), "--work", str(work)])


async def serve(nodes: int, orchestrator: str, *, token: Path | None, work: Path) -> None:
    """Run a fleet until SIGTERM or SIGINT. Writes a line to `starts.log` for every start of a replica."""
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
    count = 0
    with path.open("a", buffering=1) as file:
        while True:
            new = fleet.starts[count:]
            file.writelines(f"{key} {incarnation}\n" for key, incarnation in new)
            count += len(new)
            await asyncio.sleep(0.1)


def main() -> None:
    parser = argparse.ArgumentParser(description="Many light nodes in one process.")
    parser.add_argument("--orchestrator", required=True, help="URL, or the work folder of an orchestrator on this machine")
    parser.add_argument("--token-file", type=Path)
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--work", type=Path, required=True)
    options = parser.parse_args()
    allow_connections()
    asyncio.run(serve(options.nodes, options.orchestrator, token=options.token_file, work=options.work))


if __name__ == "__main__":
    main()
