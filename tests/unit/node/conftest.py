"""An orchestrator in memory for tests of node controllers. A test can make it unreachable."""

import asyncio
import json
import random
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from holdfast.node.controller import NodeController, NodeOffer
from holdfast.node.reports import Reports
from holdfast.protocol.http_client import HttpResponse, NoResponse
from holdfast.protocol.messages import AssignedReplica, Assignment, Beat, BeatAnswer, Registration, Report
from holdfast.protocol.node_link import NodeLink, OrchestratorAddress
from holdfast.protocol.node_token import node_token
from holdfast_papers.system_s.node_fleet import InProcessHost


class Orchestrator:
    """Answers the three calls of a node. `reports` has all reports that it has taken, in order."""

    def __init__(self) -> None:
        self.term = 1
        self.assignment = Assignment(term=1, generation=0)
        self.unreachable = False
        self.recovering = False
        self.registrations: list[Registration] = []
        self.beats: list[Beat] = []
        self.reports: list[Report] = []
        self.acknowledged = 0
        self.lose_answers = 0
        self.known = False
        self.refused = 0
        self.answers: int | None = None

    def assign(self, *replicas: AssignedReplica, jobs: dict[int, dict[str, object]] | None = None) -> None:
        self.assignment = Assignment(term=self.term, generation=self.assignment.generation + 1, replicas=replicas, jobs=jobs or {})

    def replaced(self) -> None:
        """Another orchestrator takes over. It does not know any node yet."""
        self.term += 1
        self.known = False
        self.assignment = self.assignment.model_copy(update={"term": self.term, "generation": 1})

    async def call(self, method, url, *, headers, body=None, limit_s) -> HttpResponse:
        if self.unreachable:
            self.refused += 1
            raise NoResponse("connection refused")
        if headers["authorization"] != f"Bearer {node_token('secret', 'n1')}":
            return answer(401, error="wrong token")
        if self.answers is not None:
            return answer(self.answers, error="not now")
        split = urlsplit(url)
        if split.path == "/v1/nodes":
            assert headers["x-holdfast-node"] == "n1"
            self.registrations.append(Registration.model_validate_json(body))
            self.known = True
            return answer(200, term=self.term, generation=self.assignment.generation, every_s=0.05, acknowledged=self.acknowledged)
        if not self.known:
            return answer(409, error="not registered")
        if split.path.endswith("/beat"):
            return self.beaten(Beat.model_validate_json(body))
        query = parse_qs(split.query)
        return await self.held(int(query["term"][0]), int(query["generation"][0]))

    async def close(self) -> None:
        pass

    def beaten(self, beat: Beat) -> HttpResponse:
        if beat.term != self.term:
            return answer(409, error=f"term {self.term} now")
        if self.recovering and beat.reports:
            return answer(503, error="recovering")
        self.beats.append(beat)
        self.reports += [report for report in beat.reports if report.number > self.acknowledged]
        self.acknowledged = max([self.acknowledged, *(report.number for report in beat.reports)])
        if self.lose_answers and beat.reports:
            self.lose_answers -= 1
            raise NoResponse("connection reset")
        beaten = BeatAnswer(term=self.term, acknowledged=self.acknowledged, generation=0, every_s=0.05)
        return HttpResponse(200, beaten.model_dump_json().encode())

    async def held(self, term: int, generation: int) -> HttpResponse:
        while not self.known or (self.assignment.term, self.assignment.generation) <= (term, generation):
            await asyncio.sleep(0.01)
            if self.unreachable or not self.known:
                raise NoResponse("connection reset")
        return HttpResponse(200, self.assignment.model_dump_json().encode())


def answer(status: int, **document: object) -> HttpResponse:
    return HttpResponse(status, json.dumps(document).encode())


class Bench:
    """One controller with a light host, and its orchestrator."""

    def __init__(self, work: Path) -> None:
        self.work = work
        self.orchestrator = Orchestrator()
        self.starts: list[tuple[str, int]] = []
        self.log: list[str] = []
        self.host = InProcessHost(lambda assigned: self.starts.append((assigned.key, assigned.incarnation)))
        self.token = "secret"
        self.hung_after_s = 60.0

    def play(self, scenario: Callable[["Bench"], object], *, host: object = None) -> None:
        """Run the controller during a scenario, which is an async function of this bench."""

        async def run() -> None:
            self.controller = self.new_controller(host)
            stop = asyncio.Event()
            self.running = asyncio.create_task(self.controller.run(stop))
            try:
                async with asyncio.timeout(20):
                    await scenario(self)  # type: ignore[misc]
            finally:
                stop.set()
                await asyncio.wait_for(self.running, 20)

        asyncio.run(run())
        self.controller.reports.close()

    def new_controller(self, host: object = None) -> NodeController:
        return NodeController(
            NodeOffer("n1", cores=2, memory_bytes=2**30, host_kind="light"),
            NodeLink("n1", lambda: OrchestratorAddress(("http://orchestrator",), self.token), self.orchestrator),
            host or self.host,  # type: ignore[arg-type]
            reports=Reports(self.work / "reports.db", clock=time.time),
            log=self.log.append,
            rng=random.Random(1),
            monotonic=time.monotonic,
            hung_after_s=self.hung_after_s,
        )

    async def until(self, condition: Callable[[], object]) -> None:
        while not condition():
            await asyncio.sleep(0.01)

    def reported(self) -> list[tuple[str, int, str]]:
        return [(report.key, report.incarnation, report.state) for report in self.orchestrator.reports]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)
