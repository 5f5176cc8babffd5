"""Serve the page for a run that has ended: the same calls as an orchestrator's, but read-only."""

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
from holdfast.ui.plugin import FEED_PARAMETERS, LOSS_PARAMETERS, answer_what_if, stream_frames

PLAYBACK_PARAMETERS = (
    QueryParameter("at_s", "number", 0, 10**9, None, "seconds after the start of the run; by default, the first output"),
    QueryParameter("speed", "number", 0, 1000, 1, "playback speed, relative to the run; 0 pauses"),
)


class PastRunApi:
    """Answers the page's calls from one run."""

    def __init__(self, run: PastRun) -> None:
        self.run = run

    def calls(self) -> list[Call]:
        feed_query, loss_query = (*FEED_PARAMETERS, *PLAYBACK_PARAMETERS), (*LOSS_PARAMETERS, *PLAYBACK_PARAMETERS)
        return [
            Call("GET", "/v1/feed", "Play the run back", self.feed, query=feed_query, media="text/event-stream"),
            Call("GET", "/v1/jobs/{id}/consequences", "What would have happened", self.consequences, query=loss_query),
        ]

    async def feed(self, request: ApiRequest) -> StreamedAnswer:
        return StreamedAnswer(self._frames(request), "text/event-stream")

    async def consequences(self, request: ApiRequest) -> ApiAnswer:
        if request.path["id"] != str(self.run.number):
            raise Refusal(404, f"this run has only job {self.run.number}")
        job = self.run.job
        playback = Playback(self.run, at_s=self._moment(request), speed=0.0)
        return ApiAnswer(answer_what_if(playback, self.run.number, request, contract=job.contract_of, policy=job.policy))

    async def _frames(self, request: ApiRequest) -> AsyncIterator[bytes]:
        playback = Playback(self.run, at_s=self._moment(request), speed=request.query["speed"])
        async for frame in stream_frames(playback, request, is_over=lambda: False):
            yield frame

    def _moment(self, request: ApiRequest) -> float:
        """Return the requested moment, in seconds after the start of the run."""
        at_s: float | None = request.query["at_s"]
        return self.run.opens_s if at_s is None else at_s


def build_application(run: PastRun, token: str) -> Starlette:
    """Return the server's application. Users authenticate with the token; no node can."""
    tokens = Tokens(user=token, node=f"none {token}")
    calls = PastRunApi(run).calls()
    return Starlette(routes=[*(Route(c.path, endpoint(c, tokens), methods=[c.method]) for c in calls), *page_routes()])


def serve_run(run: PastRun, token: str, listener: socket.socket) -> None:
    """Serve a run on a listening socket until Ctrl-C."""
    config = uvicorn.Config(build_application(run, token), log_level="critical", lifespan="off", timeout_graceful_shutdown=1)
    asyncio.run(uvicorn.Server(config).serve(sockets=[listener]))
