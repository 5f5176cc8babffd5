"""The HTTP API: what users and nodes can ask of an orchestrator."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Coroutine, Iterator, Mapping
from functools import cache
from importlib import metadata
from typing import Any, TypeVar

from pydantic import Field
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from holdfast.control.api.api_documents import ended_job_document, job_line, live_job_document, node_line
from holdfast.control.api.calls import ApiAnswer, ApiRequest, Call, QueryParameter, Refusal, Tokens, endpoint, refused
from holdfast.control.api.guard import Guard
from holdfast.control.api.openapi import openapi
from holdfast.control.api.submission_checks import Conflict, NotFound, job_errors, offer_errors
from holdfast.control.jobs.state_machine import Event
from holdfast.control.nodes.resource_manager import TURNS, TURNS_S, UnknownNode
from holdfast.control.plugins import Plugin
from holdfast.control.storage import stored_jobs
from holdfast.control.storage.database import DatabaseUnreachable, Fenced
from holdfast.documents.document import FieldError, Part
from holdfast.documents.job import Job
from holdfast.protocol.messages import Assignment, Beat, BeatAnswer, Registration, RegistrationAnswer

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
    """A plug-in with calls and routes of its own: the API serves them beside its own."""

    def calls(self) -> list[Call]:
        """Calls, described and guarded by tokens as the API's are."""
        return []

    def routes(self) -> list[Route]:
        """What anybody may ask for, such as files."""
        return []

    def begin(self) -> None:
        """Called within the event loop when the application is made."""


class Api(Plugin):
    """Makes the application that a server serves."""

    def __init__(self, orchestrator: Any) -> None:
        super().__init__(orchestrator)
        self._unanswered: set[asyncio.Future[Any]] = set()

    def application(self, tokens: Tokens) -> Starlette:
        """The API for callers with these tokens."""
        calls = self.calls()
        document = lambda: openapi(calls, version=_version())  # noqa: E731 - made when first asked for
        routes = [Route(call.path, endpoint(call, tokens), methods=[call.method]) for call in calls]
        routes.append(Route("/openapi.json", _document(document), methods=["GET"]))
        for each in self._serving():
            routes.extend(each.routes())
            each.begin()
        app = Starlette(routes=routes, exception_handlers={404: _unknown, 405: _unknown, Exception: self._broken})
        app.add_middleware(Guard, faults=self.orchestrator.faults)
        return app

    def calls(self) -> list[Call]:
        """Every call there is."""
        seconds = QueryParameter("wait_s", "number", 0, 60, 0, "how long to wait for an event")
        page = (
            QueryParameter("state", "string", about="only jobs in this state; 'living' for all that have not ended"),
            QueryParameter("limit", "integer", 1, 1000, 100, "at most so many"),
            QueryParameter("after", "integer", 0, default=None, about="go on after this job; the list is newest first"),
        )
        poll = (
            QueryParameter("term", default=0, about="of the assignment that the node has"),
            QueryParameter("generation", default=0),
            QueryParameter("controller", "string", default="", about="which controller asks, as it said when it registered"),
        )
        return [
            Call("GET", "/v1/health", "Whether the orchestrator serves", self.health, token="none", tag="control"),
            Call("GET", "/v1/status", "Which orchestrator this is, and how much it has", self.status, tag="control"),
            Call(
                "POST", "/v1/jobs", "Submit a job", self.submit, body=Job, strict=True, also=self._job_errors, answer=Submitted,
                status=201, statuses=(409, 422, 503),
            ),
            Call("GET", "/v1/jobs", "List jobs, newest first", self.jobs, query=page, statuses=(422, 503)),
            Call("GET", "/v1/jobs/{id}", "The history of a job", self.job, statuses=(404, 503)),
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
                "POST", "/v1/nodes/{name}/drain", "Empty a node, or fill it again", self.drain, body=Drain, strict=True,
                status=202, statuses=(404, 503), tag="nodes",
            ),
            Call(
                "GET", "/v1/events", "What happened after a number", self.events, statuses=(422,), tag="control",
                query=(QueryParameter("after", default=0, about="the number of the last event seen"), seconds),
            ),
            Call(
                "POST", "/v1/nodes", "Register a node", self.register, token="node", body=Registration, answer=RegistrationAnswer,
                statuses=(409, 422, 429), tag="nodes",
            ),
            Call(
                "POST", "/v1/nodes/{name}/beat", "A node's beat and its reports", self.beat, token="node", body=Beat,
                answer=BeatAnswer, statuses=(409, 422, 429, 503), tag="nodes",
            ),
            Call(
                "GET", "/v1/nodes/{name}/assignment", "What should run on a node, once newer", self.assignment, token="node",
                query=poll, answer=Assignment, statuses=(204, 409, 422), tag="nodes",
            ),
            *self.orchestrator.faults.calls(),
            *self.orchestrator.agents.calls(),
            *(call for each in self._serving() for call in each.calls()),
        ]  # fmt: skip

    def _serving(self) -> list[ApiPlugin]:
        return [each for each in self.orchestrator.plugins.values() if isinstance(each, ApiPlugin)]

    async def health(self, asked: ApiRequest) -> ApiAnswer:
        """What anybody may know: nothing of what runs here, or how much of it."""
        return ApiAnswer({"state": self._state()})

    async def status(self, asked: ApiRequest) -> ApiAnswer:
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

    async def submit(self, asked: ApiRequest) -> ApiAnswer:
        try:
            number = await self._written(self.orchestrator.submit(asked.body))
        except Conflict as error:
            raise Refusal(409, str(error)) from None
        begins = self.orchestrator.machines[asked.body.type].begins
        return ApiAnswer({"id": number, "name": asked.body.job, "state": begins}, status=201)

    def _job_errors(self, data: object) -> Iterator[FieldError]:
        return job_errors(data, types=self.orchestrator.machines, bounds=self.orchestrator.settings.bounds)

    async def jobs(self, asked: ApiRequest) -> ApiAnswer:
        state, limit, after = asked.query["state"], asked.query["limit"], asked.query["after"]
        live, machines = self.orchestrator.jobs, self.orchestrator.machines.values()
        ends = {end for machine in machines for end in machine.ends()}
        states = list(dict.fromkeys(each for machine in machines for each in machine.states))
        if state is not None and state not in (*states, "living"):
            raise Refusal(422, f"there is no state '{state[:60]}'; states are: {', '.join(states)}; or 'living'")
        if state is not None and state not in ends:  # every job that has not ended is here, in states that are not all written
            fitting = (n for n, job in live.items() if state in ("living", job.lifecycle.state) and (after is None or n < after))
            numbers = sorted(fitting, reverse=True)[:limit]
            return ApiAnswer({"jobs": [job_line(live[n]) for n in numbers], "next": numbers[-1] if len(numbers) == limit else None})
        rows = await self._read(lambda connection: stored_jobs.jobs_page(connection, state=state, limit=limit, after=after))
        lines = [job_line(live[row["id"]]) if row["id"] in live else row for row in rows]
        return ApiAnswer({"jobs": lines, "next": rows[-1]["id"] if len(rows) == limit else None})

    async def job(self, asked: ApiRequest) -> ApiAnswer:
        number = _number(asked)
        if number in self.orchestrator.jobs:
            return ApiAnswer(live_job_document(self.orchestrator, self.orchestrator.jobs[number]))
        kept, history = await self._read(
            lambda connection: (stored_jobs.job_by_id(connection, number), stored_jobs.history_of(connection, number))
        )
        if kept is None:
            raise Refusal(404, f"job {number} does not exist; 'holdfast jobs' lists them")
        return ApiAnswer(ended_job_document(kept, history, document=json.loads(kept.document), term=self.orchestrator.term))

    async def cancel(self, asked: ApiRequest) -> ApiAnswer:
        number = _number(asked)
        await self._living(number)
        try:
            event = self.orchestrator.cancel(number, cause=asked.body.cause)
        except (Conflict, NotFound) as error:
            raise Refusal(409, str(error)) from None
        job = self.orchestrator.jobs[number]
        await self._done(event)
        return ApiAnswer({"id": number, "state": job.lifecycle.state}, status=202)

    async def activate(self, asked: ApiRequest) -> ApiAnswer:
        number = _number(asked)
        await self._living(number)
        try:
            event = self.orchestrator.activate(number, asked.body.active)
        except (Conflict, NotFound) as error:
            raise Refusal(409, str(error)) from None
        await self._done(event)
        return ApiAnswer({"id": number}, status=202)

    async def nodes(self, asked: ApiRequest) -> ApiAnswer:
        nodes = self.orchestrator.resources.nodes
        return ApiAnswer({"nodes": [node_line(self.orchestrator, nodes[name]) for name in sorted(nodes)]})

    async def drain(self, asked: ApiRequest) -> ApiAnswer:
        name = asked.path["name"]
        node = self.orchestrator.resources.nodes.get(name)
        if node is None:
            known = ", ".join(sorted(self.orchestrator.resources.nodes)) or "none"
            raise Refusal(404, f"node '{name}' does not exist; nodes are: {known}")
        await self._written(self.orchestrator.resources.drain(node, asked.body.drain))
        return ApiAnswer(node_line(self.orchestrator, node), status=202)

    async def events(self, asked: ApiRequest) -> ApiAnswer:
        found = await self.orchestrator.events.wait(asked.query["after"], for_s=asked.query["wait_s"])
        last = found[-1].number if found else max(asked.query["after"], 0)
        document = {"events": [each.document() for each in found], "last": last, "newest": self.orchestrator.events.last}
        return ApiAnswer(document)

    async def register(self, asked: ApiRequest) -> ApiAnswer:
        offer: Registration = asked.body
        if errors := list(offer_errors(offer)):
            raise Refusal(422, f"node '{offer.name[:100]}': {'; '.join(errors)}")
        known = self.orchestrator.resources.nodes.get(offer.name)
        if known is not None and not known.turns.take(self.orchestrator.time.monotonic_s(), rate=TURNS_S, burst=TURNS):
            raise Refusal(429, f"node '{offer.name}' registers too often; wait", headers={"Retry-After": "1"})
        try:
            node = self.orchestrator.resources.register(offer)
        except Conflict as error:
            raise Refusal(409, str(error)) from None
        return ApiAnswer(
            RegistrationAnswer(
                term=self.orchestrator.term,
                generation=node.generation,
                every_s=node.every_s,
                acknowledged=node.acknowledged,
            )
        )

    async def beat(self, asked: ApiRequest) -> ApiAnswer:
        beat: Beat = asked.body
        if len(beat.reports) > REPORTS_PER_BEAT:
            raise Refusal(422, f"a beat carries at most {REPORTS_PER_BEAT} reports, got {len(beat.reports)}")
        try:
            node = self.orchestrator.resources.mark_alive(asked.path["name"], beat)
        except UnknownNode as error:
            raise Refusal(409, str(error)) from None
        if beat.reports and self.orchestrator.recovering:
            raise Refusal(503, "the orchestrator is recovering and takes no reports; send them again", headers={"Retry-After": "1"})
        return ApiAnswer(self.orchestrator.resources.take_beat(node, beat))

    async def assignment(self, asked: ApiRequest) -> ApiAnswer:
        try:
            found = await self.orchestrator.resources.assignment(
                asked.path["name"],
                controller=asked.query["controller"],
                term=asked.query["term"],
                generation=asked.query["generation"],
                wait_s=POLL_S,
            )
        except UnknownNode as error:
            raise Refusal(409, str(error)) from None
        return ApiAnswer(found)

    async def _done(self, event: Event | None) -> None:
        """ApiAnswer when what was asked for is durable: a caller that got no answer asks again, one that got it need not."""
        if event is not None and not await self.orchestrator.wait_until_processed(event, within_s=DONE_S):
            raise Refusal(503, "this waits behind other work; ask again", headers={"Retry-After": "2"})

    async def _written(self, work: Coroutine[Any, Any, T]) -> T:
        """What comes of work that writes. If that takes too long the caller is told so, and it goes on all the same."""
        task = asyncio.ensure_future(work)
        self._unanswered.add(task)
        task.add_done_callback(self._unanswered.discard)
        done, _ = await asyncio.wait({task}, timeout=DONE_S)
        if not done:
            task.add_done_callback(lambda task: task.cancelled() or task.exception())  # nobody is left to be told
            raise Refusal(
                503,
                "the database does not answer: this waits for it, and is done when it is back; ask again",
                headers={"Retry-After": "2"},
            )
        try:
            return task.result()
        except (Fenced, DatabaseUnreachable) as error:
            raise Refusal(503, str(error), headers={"Retry-After": "2"}) from None

    async def _living(self, number: int) -> None:
        """Refuse calls about jobs that have ended, or never were."""
        if number in self.orchestrator.jobs:
            return
        kept = await self._read(lambda connection: stored_jobs.job_by_id(connection, number))
        if kept is None:
            raise Refusal(404, f"job {number} does not exist; 'holdfast jobs' lists them")
        raise Refusal(409, f"job {number} is {kept.state}: it has ended")

    async def _broken(self, request: Request, error: Exception) -> Response:
        self.orchestrator.say_error(f"{request.method} {request.url.path[:200]}", error)
        return refused(500, f"{type(error).__name__}: {error}")

    async def _read(self, question: Any) -> Any:
        try:
            return await self.orchestrator.persistence.database.read(question)
        except DatabaseUnreachable as error:
            raise Refusal(503, str(error), headers={"Retry-After": "2"}) from None


@cache  # read from a file, and asked for again and again
def _version() -> str:
    return metadata.version("holdfast")


def _number(asked: ApiRequest) -> int:
    text = asked.path["id"]
    if not (text.isdecimal() and text.isascii() and len(text) <= 15):
        raise Refusal(404, f"job '{text[:60]}' does not exist: jobs have numbers; 'holdfast jobs' lists them")
    return int(text)


def _document(make: Any) -> Any:
    made: list[Mapping[str, Any]] = []

    async def answer(request: Request) -> Response:
        if not made:
            made.append(await asyncio.to_thread(make))
        return Response(json.dumps(made[0]), media_type="application/json")

    return answer


async def _unknown(request: Request, error: Exception) -> Response:
    status = getattr(error, "status_code", 404)
    text = f"there is no {request.method} {request.url.path[:200]}; /openapi.json lists the calls"
    return refused(status, text, headers=getattr(error, "headers", None))
