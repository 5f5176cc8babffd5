"""The page as a plug-in of the orchestrator: its files, the feed it follows, and the question what would happen if."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from starlette.routing import Route

from holdfast.control.api.calls import ApiAnswer, ApiRequest, Call, QueryParameter, Refusal, StreamedAnswer
from holdfast.control.api.routes import ApiPlugin
from holdfast.documents.job import Contract, Policy
from holdfast.ui.page_files import page_routes

if TYPE_CHECKING:
    from holdfast.ui.live_scene import LiveScene
    from holdfast.ui.scene import Scene
    from holdfast.ui.what_if import ReplicaAt

SAMPLE_S = 1.0
FEEDS = 64
"""Pages that may follow at once."""

FOLLOW = (
    QueryParameter("job", default=0, description="the job to show; 0 for the newest"),
    QueryParameter("every_s", "number", 1 / 60, 10, 0.1, "how often to look for changes"),
    QueryParameter("wait_s", "number", 0, 86_400, 0, "how long to go on after the first frame"),
    QueryParameter("after", default=0, description="the number of the last event seen"),
)
LOSS = (
    QueryParameter("node", "string", description="a node that is lost"),
    QueryParameter("task", "string", description="a task that loses all its replicas, such as vwap/0"),
    QueryParameter("replica", "string", description="a replica that is lost, by its key such as 1:vwap/0.1"),
)


class Page(ApiPlugin):
    """Serves the page. Nothing that goes wrong here reaches the orchestrator; most of it is loaded when that has recovered."""

    def __init__(self, orchestrator: Any) -> None:
        super().__init__(orchestrator)
        self._feeds = 0
        self._sampling: asyncio.Task[None] | None = None

    @cached_property
    def scene(self) -> LiveScene:
        from holdfast.ui.live_scene import LiveScene

        return LiveScene(self.orchestrator)

    def begin(self) -> None:
        if self._sampling is None:
            self._sampling = asyncio.get_running_loop().create_task(self._sample())

    def routes(self) -> list[Route]:
        return page_routes()

    def calls(self) -> list[Call]:
        return [
            Call(
                "GET", "/v1/feed", "Follow a job: its picture, then what changes, as server-sent events", self.feed, query=FOLLOW,
                statuses=(422, 503), tag="page", media="text/event-stream",
            ),
            Call(
                "GET", "/v1/jobs/{id}/consequences", "What would follow if replicas were lost now", self.consequences, query=LOSS,
                statuses=(404, 422), tag="page",
            ),
        ]  # fmt: skip

    async def feed(self, asked: ApiRequest) -> StreamedAnswer:
        if self._feeds >= FEEDS:
            raise Refusal(503, f"{FEEDS} pages follow already; close one", headers={"Retry-After": "10"})
        return StreamedAnswer(self._frames(asked), "text/event-stream")

    async def consequences(self, asked: ApiRequest) -> ApiAnswer:
        number = asked.path["id"]
        if not (number.isdecimal() and number.isascii() and int(number[:16]) in self.orchestrator.jobs):
            raise Refusal(404, f"job '{number[:60]}' does not run here; 'holdfast jobs' lists those that do")
        document = self.orchestrator.jobs[int(number)].document
        return ApiAnswer(what_if(self.scene, int(number), asked, contract=document.contract_of, policy=document.policy))

    async def _frames(self, asked: ApiRequest) -> AsyncIterator[bytes]:
        self._feeds += 1
        try:
            async for frame in followed(self.scene, asked, over=lambda: self.orchestrator.stopping):
                yield frame
        finally:
            self._feeds -= 1

    async def _sample(self) -> None:
        """Take samples for ever. An error is told once and costs one sample: a page must never cost an orchestrator."""
        told = ""
        await self.orchestrator.recovered.wait()
        while not self.orchestrator.stopping:
            await asyncio.sleep(SAMPLE_S)
            try:
                await self.scene.sample()
            except Exception as error:
                text = f"the page lacks a sample: {type(error).__name__}: {error}"
                if text != told:
                    self.orchestrator.say(text)
                told = text


async def followed(scene: Scene, asked: ApiRequest, *, over: Callable[[], bool]) -> AsyncIterator[bytes]:
    """The feed of a scene, as it is sent."""
    from holdfast.ui.feed import encoded, frames

    query = asked.query
    found = frames(scene, int(query["job"]), every_s=query["every_s"], for_s=query["wait_s"], after=int(query["after"]), over=over)
    async for frame in found:
        yield encoded(frame)


def what_if(scene: Scene, job: int, asked: ApiRequest, *, contract: Callable[[str], Contract], policy: Policy) -> dict[str, Any]:
    """The answer to what would follow if what the query names were lost. Raises Refusal and HoldfastError."""
    from holdfast.ui.what_if import consequences

    node, task, replica = (asked.query[name] for name in ("node", "task", "replica"))
    if sum(each is not None for each in (node, task, replica)) != 1:
        raise Refusal(422, "wanted one of 'node', 'task' and 'replica'; give the one whose loss is meant")
    tasks = scene.views(job)
    named = {each.name for each in tasks}
    keys = {each.key: view.name for view in tasks for each in view.replicas}
    if task is not None and task not in named:
        raise Refusal(404, f"job {job} has no task '{task[:100]}'; it has: {', '.join(sorted(named))[:500]}")
    if replica is not None and replica not in keys:
        raise Refusal(404, f"job {job} has no replica '{replica[:100]}'")
    struck = {each.key for view in tasks if view.name == task for each in view.replicas}

    def gone(each: ReplicaAt) -> bool:
        return each.node == node if node is not None else each.key == replica if replica is not None else each.key in struck

    return consequences(tasks, gone, contract=contract, policy=policy).document()
