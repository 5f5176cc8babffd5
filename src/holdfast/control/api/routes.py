"""The HTTP API of the orchestrator: its calls and their handlers."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from functools import cache
from importlib import metadata
from typing import Any, TypeVar

from pydantic import Field
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from holdfast.control.api.api_documents import ended_job_document, job_line, live_job_document, node_line
from holdfast.control.api.calls import ApiAnswer, ApiRequest, Call, QueryParameter, Refusal, Tokens, endpoint, error_response
from holdfast.control.api.guard import Guard
from holdfast.control.api.openapi import openapi
from holdfast.control.api.submission_checks import job_errors, offer_errors
from holdfast.control.jobs.state_machine import Event
from holdfast.control.nodes.resource_manager import HOLDERS, REGISTRATION_BURST, REGISTRATIONS_PER_S
from holdfast.control.plugins import Plugin
from holdfast.control.storage import stored_jobs
from holdfast.documents.document import FieldError, Part
from holdfast.documents.job import Job
from holdfast.protocol.messages import PROTOCOL, Assignment, Beat, BeatAnswer, Registration, RegistrationAnswer

T = TypeVar("T")

POLL_S = 20.0
DONE_S = 15.0
REPORTS_PER_BEAT = 10_000


class Activation(Part):
    """Per task, the replicas that should be active."""

    active: dict[str, tuple[int, ...]] = Field(min_length=1, max_length=10_000)


class Drain(Part):
    """Whether a node should be emptied, or take replicas again."""

    drain: bool = True


class Cancel(Part):
    """Why a job is canceled."""

    cause: str = Field(default="canceled by a user", max_length=1000)


class Submitted(Part):
    id: int
    name: str
    state: str


class ApiPlugin(Plugin):
    """A plug-in that adds calls and routes to the API."""

    def calls(self) -> list[Call]:
        """Return further calls. They are documented and protected by tokens like the others."""
        return []

    def routes(self) -> list[Route]:
        """Return routes that need no token, such as static files."""
        return []

    def begin(self) -> None:
        """Start. Called in the event loop when the application is created."""


class Api(Plugin):
    """Builds the ASGI application and handles its calls."""

    def __init__(self, orchestrator: Any) -> None:
        super().__init__(orchestrator)
        self._writes: set[asyncio.Future[Any]] = set()

    def application(self, tokens: Tokens) -> Starlette:
        """Return the ASGI application for callers with these tokens."""
        calls = self.calls()
        routes = [Route(call.path, endpoint(call, tokens), methods=[call.method]) for call in calls]
        routes.append(Route("/openapi.json", _openapi_endpoint(calls), methods=["GET"]))
        for plugin in self._plugins():
            routes.extend(plugin.routes())
            plugin.begin()
        app = Starlette(routes=routes, exception_handlers={404: _no_such_call, 405: _no_such_call, Exception: self._internal_error})
        app.add_middleware(Guard, orchestrator=self.orchestrator)
        return app

    def calls(self) -> list[Call]:
        """Return all calls, including those of plug-ins."""
        seconds = QueryParameter("wait_s", "number", 0, 60, 0, "how long to wait for an event")
        page = (
            QueryParameter("state", "string", description="only jobs in this state; 'living' for all that have not ended"),
            QueryParameter("limit", "integer", 1, 1000, 100, "how many jobs to list at most"),
            QueryParameter("after", "integer", 0, default=None, description="list only jobs older than this one"),
        )
        poll = (
            QueryParameter("term", default=0, description="the term of the node's present assignment"),
            QueryParameter("generation", default=0, description="the generation of the node's present assignment"),
            QueryParameter("controller", "string", default="", description="the identity that the controller registered with"),
        )
        return [
            Call("GET", "/v1/health", "Return whether the orchestrator serves", self.health, token="none", tag="control"),
            Call("GET", "/v1/status", "Return the term, the version, and counts of jobs and nodes", self.status, tag="control"),
            Call(
                "POST", "/v1/jobs", "Submit a job", self.submit, body=Job, strict=True, also=self._job_errors, answer=Submitted,
                status=201, statuses=(409, 422, 503),
            ),
            Call("GET", "/v1/jobs", "List jobs, newest first", self.jobs, query=page, statuses=(422, 503)),
            Call("GET", "/v1/jobs/{id}", "Return a job with its tasks and history", self.job, statuses=(404, 503)),
            Call(
                "POST", "/v1/jobs/{id}/cancel", "Cancel a job", self.cancel, body=Cancel, strict=True, status=202,
                statuses=(404, 409, 503),
            ),
            Call(
                "POST",
                "/v1/jobs/{id}/activation",
                "Activate and idle replicas",
                self.activate,
                body=Activation,
                strict=True,
                status=202,
                statuses=(404, 409, 503),
            ),
            Call("GET", "/v1/nodes", "List nodes", self.nodes, tag="nodes"),
            Call(
                "POST", "/v1/nodes/{name}/drain", "Drain a node, or end its drain", self.drain, body=Drain, strict=True,
                status=202, statuses=(404, 503), tag="nodes",
            ),
            Call(
                "GET", "/v1/events", "List the events after a number", self.events, statuses=(422,), tag="control",
                query=(QueryParameter("after", default=0, description="the number of the last event seen"), seconds),
            ),
            Call(
                "POST", "/v1/nodes", "Register a node", self.register, token="node", body=Registration, answer=RegistrationAnswer,
                statuses=(409, 422, 429, 503), tag="nodes",
            ),
            Call(
                "POST", "/v1/nodes/{name}/beat", "Take a node's beat and its reports", self.beat, token="node", body=Beat,
                answer=BeatAnswer, statuses=(409, 422, 429, 503), tag="nodes",
            ),
            Call(
                "GET", "/v1/nodes/{name}/assignment", "Wait for a newer assignment of a node", self.assignment, token="node",
                query=poll, answer=Assignment, statuses=(204, 409, 422), tag="nodes",
            ),
            Call(
                "GET", "/v1/nodes/{name}/presence", "Stay open as long as a process of a node lives", self.presence, token="node",
                query=(QueryParameter("holder", "string", default="host", description="the process: controller or host"),),
                status=204, statuses=(422,), tag="nodes",
            ),
            *self.orchestrator.faults.calls(),
            *self.orchestrator.agents.calls(),
            *(call for plugin in self._plugins() for call in plugin.calls()),
        ]  # fmt: skip

    def _plugins(self) -> list[ApiPlugin]:
        return [plugin for plugin in self.orchestrator.plugins.values() if isinstance(plugin, ApiPlugin)]

    async def health(self, request: ApiRequest) -> ApiAnswer:
        """Return the state only, because this call needs no token."""
        return ApiAnswer({"state": self._state()})

    async def status(self, request: ApiRequest) -> ApiAnswer:
        orchestrator = self.orchestrator
        return ApiAnswer(
            {
                "state": self._state(),
                "term": orchestrator.term,
                "version": _version(),
                "jobs": len(orchestrator.jobs),
                "nodes": sum(node.state == "up" for node in orchestrator.resources.nodes.values()),
                "replicas": len(orchestrator.replicas),
                "replica_states": dict(Counter(replica.state for replica in orchestrator.replicas)),
                "recovery_s": orchestrator.recovery.took_s,
            }
        )

    def _state(self) -> str:
        return "recovering" if self.orchestrator.recovering else "serving"

    async def submit(self, request: ApiRequest) -> ApiAnswer:
        number = await self._write(self.orchestrator.submit(request.body))
        begins = self.orchestrator.machines[request.body.type].begins
        return ApiAnswer({"id": number, "name": request.body.job, "state": begins}, status=201)

    def _job_errors(self, data: object) -> Iterator[FieldError]:
        return job_errors(data, types=self.orchestrator.machines, bounds=self.orchestrator.settings.bounds)

    async def jobs(self, request: ApiRequest) -> ApiAnswer:
        state, limit, after = request.query["state"], request.query["limit"], request.query["after"]
        live, machines = self.orchestrator.jobs, self.orchestrator.machines.values()
        ends = {end for machine in machines for end in machine.ends()}
        states = list(dict.fromkeys(name for machine in machines for name in machine.states))
        if state is not None and state not in (*states, "living"):
            raise Refusal(422, f"there is no state '{state[:60]}'; states are: {', '.join(states)}; or 'living'")
        if state is not None and state not in ends:  # the database does not have every state of live jobs
            matching = (n for n, job in live.items() if state in ("living", job.lifecycle.state) and (after is None or n < after))
            numbers = sorted(matching, reverse=True)[:limit]
            return ApiAnswer({"jobs": [job_line(live[n]) for n in numbers], "next": numbers[-1] if len(numbers) == limit else None})
        rows = await self._read(lambda connection: stored_jobs.jobs_page(connection, state=state, limit=limit, after=after))
        lines = [job_line(live[row["id"]]) if row["id"] in live else row for row in rows]
        return ApiAnswer({"jobs": lines, "next": rows[-1]["id"] if len(rows) == limit else None})

    async def job(self, request: ApiRequest) -> ApiAnswer:
        number = _number(request)
        if number in self.orchestrator.jobs:
            return ApiAnswer(live_job_document(self.orchestrator, self.orchestrator.jobs[number]))
        stored, history = await self._read(
            lambda connection: (stored_jobs.job_by_id(connection, number), stored_jobs.history_of(connection, number))
        )
        if stored is None:
            raise Refusal(404, f"job {number} does not exist; 'holdfast jobs' lists them")
        return ApiAnswer(ended_job_document(stored, history, document=json.loads(stored.document), term=self.orchestrator.term))

    async def cancel(self, request: ApiRequest) -> ApiAnswer:
        number = _number(request)
        await self._check_not_ended(number)
        event = self.orchestrator.cancel(number, cause=request.body.cause)
        job = self.orchestrator.jobs[number]
        await self._wait_until_durable(event)
        return ApiAnswer({"id": number, "state": job.lifecycle.state}, status=202)

    async def activate(self, request: ApiRequest) -> ApiAnswer:
        number = _number(request)
        await self._check_not_ended(number)
        event = self.orchestrator.activate(number, request.body.active)
        await self._wait_until_durable(event)
        return ApiAnswer({"id": number}, status=202)

    async def nodes(self, request: ApiRequest) -> ApiAnswer:
        nodes = self.orchestrator.resources.nodes
        return ApiAnswer({"nodes": [node_line(self.orchestrator, nodes[name]) for name in sorted(nodes)]})

    async def drain(self, request: ApiRequest) -> ApiAnswer:
        name = request.path["name"]
        node = self.orchestrator.resources.nodes.get(name)
        if node is None:
            names = ", ".join(sorted(self.orchestrator.resources.nodes)) or "none"
            raise Refusal(404, f"node '{name}' does not exist; nodes are: {names}")
        await self._write(self.orchestrator.resources.drain(node, request.body.drain))
        return ApiAnswer(node_line(self.orchestrator, node), status=202)

    async def events(self, request: ApiRequest) -> ApiAnswer:
        events = await self.orchestrator.events.wait(request.query["after"], for_s=request.query["wait_s"])
        last = events[-1].number if events else max(request.query["after"], 0)
        return ApiAnswer({"events": [event.document() for event in events], "last": last, "newest": self.orchestrator.events.last})

    async def register(self, request: ApiRequest) -> ApiAnswer:
        offer: Registration = request.body
        if errors := list(offer_errors(offer)):
            raise Refusal(422, f"node '{offer.name[:100]}': {'; '.join(errors)}")
        if offer.name != request.node:
            raise Refusal(403, f"this is the token of node '{request.node}', which may not register as node '{offer.name}'")
        previous = self.orchestrator.resources.nodes.get(offer.name)
        if previous is not None and not previous.registrations.take(
            self.orchestrator.time.monotonic_s(), rate=REGISTRATIONS_PER_S, burst=REGISTRATION_BURST
        ):
            raise Refusal(429, f"node '{offer.name}' registers too often; wait", headers={"Retry-After": "1"})
        node = self.orchestrator.resources.register(offer)
        await self._until_stored()
        return ApiAnswer(
            RegistrationAnswer(
                protocol=PROTOCOL,
                term=self.orchestrator.term,
                generation=node.generation,
                every_s=node.every_s,
                acknowledged=node.acknowledged,
            )
        )

    async def beat(self, request: ApiRequest) -> ApiAnswer:
        beat: Beat = request.body
        if len(beat.reports) > REPORTS_PER_BEAT:
            raise Refusal(422, f"a beat carries at most {REPORTS_PER_BEAT} reports, got {len(beat.reports)}")
        node = self.orchestrator.resources.mark_alive(request.path["name"], beat)
        if beat.reports and self.orchestrator.recovering:
            raise Refusal(503, "the orchestrator is recovering and takes no reports; send them again", headers={"Retry-After": "1"})
        answer = self.orchestrator.resources.take_beat(node, beat)
        await self._until_stored()
        return ApiAnswer(answer)

    async def _until_stored(self) -> None:
        """Wait until what nodes have reported is stored, because only then it is acknowledged. Raises Refusal after DONE_S."""
        if unstored := self.orchestrator.restart_policy.unstored:
            _, waiting = await asyncio.wait(set(unstored), timeout=DONE_S)
            if waiting or self.orchestrator.stopping:
                raise Refusal(503, "the reports are not stored yet; send them again", headers={"Retry-After": "1"})

    async def assignment(self, request: ApiRequest) -> ApiAnswer:
        newer = await self.orchestrator.resources.assignment(
            request.path["name"],
            controller=request.query["controller"],
            term=request.query["term"],
            generation=request.query["generation"],
            wait_s=POLL_S,
        )
        return ApiAnswer(newer)

    async def presence(self, request: ApiRequest) -> ApiAnswer:
        """Hold the request until its caller disconnects or the orchestrator stops."""
        holder = request.query["holder"]
        if holder not in HOLDERS:
            raise Refusal(422, f"there is no holder '{holder[:60]}'; holders are: {', '.join(HOLDERS)}")
        assert request.until_disconnected is not None
        disconnected = asyncio.create_task(request.until_disconnected())
        with self.orchestrator.resources.presence(request.path["name"], holder):
            try:
                await asyncio.wait({disconnected, self.orchestrator.ended}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                disconnected.cancel()
        return ApiAnswer(None, status=204)

    async def _wait_until_durable(self, event: Event | None) -> None:
        """Wait until an event is processed and stored. A caller that gets no answer must repeat its call."""
        if event is not None and not await self.orchestrator.wait_until_processed(event, within_s=DONE_S):
            raise Refusal(503, "the call was not carried out in time and still waits; repeat it", headers={"Retry-After": "2"})

    async def _write(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of work that writes to the database. Raises Refusal if that takes too long; the work continues."""
        task = asyncio.ensure_future(work)
        self._writes.add(task)
        task.add_done_callback(self._writes.discard)
        done, _ = await asyncio.wait({task}, timeout=DONE_S)
        if not done:
            task.add_done_callback(lambda task: task.cancelled() or task.exception())  # the caller has already got an answer
            raise Refusal(
                503,
                "the database does not answer; the call is carried out when it answers again: repeat the call",
                headers={"Retry-After": "2"},
            )
        return task.result()

    async def _check_not_ended(self, number: int) -> None:
        """Raise Refusal if a job has ended or does not exist."""
        if number in self.orchestrator.jobs:
            return
        stored = await self._read(lambda connection: stored_jobs.job_by_id(connection, number))
        if stored is None:
            raise Refusal(404, f"job {number} does not exist; 'holdfast jobs' lists them")
        raise Refusal(409, f"job {number} is {stored.state}: it has ended")

    async def _internal_error(self, request: Request, error: Exception) -> Response:
        self.orchestrator.say_error(f"{request.method} {request.url.path[:200]}", error)
        return error_response(500, f"{type(error).__name__} in the orchestrator; its log has the details")

    async def _read(self, query: Any) -> Any:
        return await self.orchestrator.persistence.database.read(query)


@cache  # metadata.version reads a file
def _version() -> str:
    return metadata.version("holdfast")


def _number(request: ApiRequest) -> int:
    text = request.path["id"]
    if not (text.isdecimal() and text.isascii() and len(text) <= 15):
        raise Refusal(404, f"job '{text[:60]}' does not exist: jobs have numbers; 'holdfast jobs' lists them")
    return int(text)


def _openapi_endpoint(calls: Sequence[Call]) -> Callable[[Request], Awaitable[Response]]:
    """Return an endpoint that builds the OpenAPI document at the first request, because that takes too long for the start."""
    document = cache(lambda: json.dumps(openapi(calls, version=_version())))

    async def answer(request: Request) -> Response:
        return Response(await asyncio.to_thread(document), media_type="application/json")

    return answer


async def _no_such_call(request: Request, error: Exception) -> Response:
    status = getattr(error, "status_code", 404)
    text = f"there is no {request.method} {request.url.path[:200]}; /openapi.json lists the calls"
    return error_response(status, text, headers=getattr(error, "headers", None))
