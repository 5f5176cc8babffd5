"""A server for a run that is over: the same page, the same calls, and nothing that could change anything."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator

import uvicorn
from starlette.applications import Starlette
from starlette.routing import Route

from holdfast.control.api.calls import ApiAnswer, ApiRequest, Call, QueryParameter, Refusal, StreamedAnswer, Tokens, endpoint
from holdfast.ui.page_files import page_routes
from holdfast.ui.past_run import PastRun
from holdfast.ui.playback import Playback
from holdfast.ui.plugin import FOLLOW, LOSS, followed, what_if

PLAY = (
    QueryParameter("at_s", "number", 0, 10**9, None, "seconds after the run's beginning; without it the first output"),
    QueryParameter("speed", "number", 0, 1000, 1, "how many times faster than it was; 0 stands still"),
)


class Reading:
    """The calls of the page, answered from one run."""

    def __init__(self, run: PastRun) -> None:
        self.run = run

    def calls(self) -> list[Call]:
        return [
            Call("GET", "/v1/feed", "Play the run back", self.feed, query=(*FOLLOW, *PLAY), media="text/event-stream"),
            Call("GET", "/v1/jobs/{id}/consequences", "What would have followed", self.consequences, query=(*LOSS, *PLAY)),
        ]

    async def feed(self, asked: ApiRequest) -> StreamedAnswer:
        return StreamedAnswer(self._frames(asked), "text/event-stream")

    async def consequences(self, asked: ApiRequest) -> ApiAnswer:
        if asked.path["id"] != str(self.run.number):
            raise Refusal(404, f"this run has job {self.run.number} alone")
        job = self.run.job
        scene = Playback(self.run, at_s=self._moment(asked), speed=0.0)
        return ApiAnswer(what_if(scene, self.run.number, asked, contract=job.contract_of, policy=job.policy))

    async def _frames(self, asked: ApiRequest) -> AsyncIterator[bytes]:
        scene = Playback(self.run, at_s=self._moment(asked), speed=asked.query["speed"])
        async for frame in followed(scene, asked, over=lambda: False):
            yield frame

    def _moment(self, asked: ApiRequest) -> float:
        """Where in the run it is asked for, in seconds after its beginning."""
        at_s: float | None = asked.query["at_s"]
        return self.run.opens_s if at_s is None else at_s


def application(run: PastRun, token: str) -> Starlette:
    """The server's application. Users have the token; nodes are not known here."""
    tokens = Tokens(user=token, node=f"none {token}")
    calls = Reading(run).calls()
    return Starlette(routes=[*(Route(c.path, endpoint(c, tokens), methods=[c.method]) for c in calls), *page_routes()])


def serve_run(run: PastRun, token: str, bound: socket.socket) -> None:
    """Serve a run on a socket that listens, until Ctrl-C."""
    config = uvicorn.Config(application(run, token), log_level="critical", lifespan="off", timeout_graceful_shutdown=1)
    asyncio.run(uvicorn.Server(config).serve(sockets=[bound]))
