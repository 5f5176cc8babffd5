"""An orchestrator in the test's process, called through its real API, and nodes that the test simulates."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from holdfast.control.api.calls import Tokens
from holdfast.control.orchestrator import Orchestrator
from holdfast.control.settings import OrchestratorSettings
from holdfast.protocol.node_token import node_token

TOKENS = Tokens(user="user-secret", node="node-secret")


class Control:
    """A running orchestrator, a client of its API, and the lines that it has printed."""

    def __init__(self, orchestrator: Orchestrator) -> None:
        self.orchestrator = orchestrator
        self.printed: list[str] = []
        transport = httpx.ASGITransport(orchestrator.api.application(TOKENS), raise_app_exceptions=False)
        self.http = httpx.AsyncClient(transport=transport, base_url="http://orchestrator")

    async def call(self, method: str, path: str, *, token: str = "user", **options: Any) -> httpx.Response:
        secret = f"{token}-secret"
        if token == "node":
            secret = node_token(secret, path.split("/")[3] if path.count("/") == 4 else _registering(options))
        headers = {"authorization": f"Bearer {secret}", **options.pop("headers", {})}
        return await self.http.request(method, path, headers=headers, **options)

    async def submit(self, name: str = "a", **fields: Any) -> int:
        pes = fields.pop("pes", {"x": {}})
        answer = await self.call("POST", "/v1/jobs", json={"job": name, "host_kind": "light", "pes": pes, **fields})
        assert answer.status_code == 201, answer.text
        return int(answer.json()["id"])

    async def job(self, number: int) -> dict[str, Any]:
        answer = await self.call("GET", f"/v1/jobs/{number}")
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    async def until(self, condition: Callable[[], Awaitable[object]], *, limit_s: float = 120.0) -> None:
        async with asyncio.timeout(limit_s):
            while not await condition():
                await asyncio.sleep(0.01)

    async def reaches(self, number: int, state: str) -> dict[str, Any]:
        job: dict[str, Any] = {}

        async def is_reached() -> bool:
            nonlocal job
            job = await self.job(number)
            return job["state"] == state

        try:
            await self.until(is_reached)
        except TimeoutError:
            raise AssertionError(f"job {number} is {job['state']}, not {state}: {job['reason']}") from None
        return job

    async def events(self) -> list[str]:
        return [event["text"] for event in (await self.call("GET", "/v1/events")).json()["events"]]


def _registering(options: dict[str, Any]) -> str:
    """Return the name of the node that a registration is for."""
    with suppress(ValueError, KeyError, TypeError, RecursionError):
        return str((options.get("json") or json.loads(options["content"]))["name"])
    return "a"


class SimulatedNode:
    """A simulated node. It carries out its assignment when the test calls `fetch`, or always with `live`; `state_of` decides which
    state a started replica reports. `has` has the status of each replica."""

    def __init__(self, control: Control, name: str, **offer: Any) -> None:
        self.control, self.name = control, name
        self.offer = {"cores": 4, "memory_bytes": 1, "host_kind": "light", **offer}
        self.has: dict[str, dict[str, Any]] = {}
        self.starts: list[tuple[str, int]] = []
        self.number = 0
        self.unacknowledged: list[dict[str, Any]] = []
        self.term = self.generation = 0
        self.assigned_term = 0
        self.state_of: Callable[[str], str] = lambda key: "running"
        self.faults: list[dict[str, Any]] = []
        self.takes_faults = True

    async def register(self) -> httpx.Response:
        replicas = [{"key": key, "incarnation": r["incarnation"], "state": r["state"]} for key, r in self.has.items()]
        answer = await self.control.call(
            "POST", "/v1/nodes", token="node", json={"name": self.name, **self.offer, "replicas": replicas}
        )
        if answer.status_code == 200:
            self.term = answer.json()["term"]
        return answer

    async def beat(self, **more: Any) -> httpx.Response:
        host = {
            "pid": 1, "started_s": 0, "beat_s": 0, "term": self.assigned_term, "generation": self.generation,
            "replicas": [{"key": key, **replica} for key, replica in self.has.items()],
        }  # fmt: skip
        body = {
            "term": self.term,
            "controller": self.offer.get("controller", ""),
            "reports": self.unacknowledged,
            "host": host,
            "fault": self.faults[-1]["number"] if self.faults else 0,
            **more,
        }
        answer = await self.control.call("POST", f"/v1/nodes/{self.name}/beat", token="node", json=body)
        if answer.status_code == 200:
            last = answer.json()["acknowledged"]
            self.unacknowledged = [report for report in self.unacknowledged if report["number"] > last]
        return answer

    def report(self, key: str, state: str, error: str | None = None) -> None:
        self.number += 1
        self.has[key]["state"] = state
        self.unacknowledged.append(
            {
                "number": self.number,
                "at_s": 0,
                "key": key,
                "incarnation": self.has[key]["incarnation"],
                "state": state,
                "error": error,
            }
        )

    async def fetch(self) -> bool:
        """Carry out the newest assignment, if there is a new one; return whether there was."""
        query = f"term={self.assigned_term}&generation={self.generation}&controller={self.offer.get('controller', '')}"
        path = f"/v1/nodes/{self.name}/assignment?{query}"
        node = self.control.orchestrator.resources.nodes[self.name]
        if (self.assigned_term, self.generation) >= (self.control.orchestrator.term, node.generation):
            return False
        answer = await self.control.call("GET", path, token="node")
        if answer.status_code == 409:
            return False  # it counts as lost, and registers again with the next beat
        assignment = answer.json()
        self.assigned_term, self.generation = assignment["term"], assignment["generation"]
        if self.takes_faults:
            self.faults += [order for order in assignment["faults"] if order not in self.faults]
        assigned = {f"{r['job']}:{r['pe']}/{r['task']}.{r['replica']}": r for r in assignment["replicas"]}
        for key in [key for key in self.has if key not in assigned]:
            self.report(key, "stopped")
            del self.has[key]
        for key, replica in assigned.items():
            if key not in self.has or self.has[key]["incarnation"] < replica["incarnation"]:
                self.has[key] = {"incarnation": replica["incarnation"], "state": "starting"}
                self.starts.append((key, replica["incarnation"]))
                self.report(key, self.state_of(key))
        return True

    async def live(self) -> None:
        """Fetch assignments and send beats until cancelled; register again when the orchestrator asks for it."""
        while True:
            if self.name in self.control.orchestrator.resources.nodes and not self.control.orchestrator.recovering:
                await self.fetch()
            if (await self.beat()).status_code == 409:
                await self.register()
            await asyncio.sleep(0.02)


@pytest.fixture
def settings(tmp_path: Path) -> OrchestratorSettings:
    return OrchestratorSettings(
        tmp_path, f"sqlite:///{tmp_path / 'jobs.db'}", capacity_wait_s=0.0, recovery_wait_s=5.0, faults=True
    )


@asynccontextmanager
async def running(settings: OrchestratorSettings) -> AsyncIterator[Control]:
    """Run an orchestrator during the block; it ends as if it had been killed."""
    printed: list[str] = []
    orchestrator = Orchestrator(settings, say=printed.append)
    await orchestrator.begin()
    control = Control(orchestrator)
    control.printed = printed
    task = asyncio.create_task(orchestrator.run())
    try:
        yield control
    finally:
        orchestrator.stop()
        await asyncio.gather(task, return_exceptions=True)
        await control.http.aclose()


@asynccontextmanager
async def cluster(settings: OrchestratorSettings, *names: str) -> AsyncIterator[tuple[Any, ...]]:
    """Run an orchestrator with live nodes of these names; yield its control and the nodes."""
    async with running(settings) as control:
        nodes = [SimulatedNode(control, name) for name in names]
        async with alive(*nodes):
            yield control, *nodes


@asynccontextmanager
async def alive(*nodes: SimulatedNode) -> AsyncIterator[None]:
    """Register nodes and keep them alive during the block."""
    for node in nodes:
        assert (await node.register()).status_code == 200
    tasks = [asyncio.create_task(node.live()) for node in nodes]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
