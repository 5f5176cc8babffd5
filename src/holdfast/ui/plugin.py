"""The orchestrator's plug-in for the page: it serves the page's files, its feed, and the answers to what-if questions."""

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
    from holdfast.ui.live_page_data import LivePageData
    from holdfast.ui.page_data import PageData

SAMPLE_INTERVAL_S = 1.0
MAX_FEEDS = 64
"""How many pages can follow at the same time."""

FEED_PARAMETERS = (
    QueryParameter("job", default=0, description="the job to show; 0 for the newest"),
    QueryParameter("every_s", "number", 1 / 60, 10, 0.1, "how often to look for changes"),
    QueryParameter("wait_s", "number", 0, 86_400, 0, "how long to continue after the first frame"),
    QueryParameter("after", default=0, description="the number of the last event received"),
)
LOSS_PARAMETERS = (
    QueryParameter("node", "string", description="a node that is lost"),
    QueryParameter("task", "string", description="a task that loses all its replicas, such as vwap/0"),
    QueryParameter("replica", "string", description="a replica that is lost, by its key such as 1:vwap/0.1"),
)


class Page(ApiPlugin):
    """Serves the page. Its errors never stop the orchestrator, and most of its modules load only after recovery."""

    def __init__(self, orchestrator: Any) -> None:
        super().__init__(orchestrator)
        self._feeds = 0
        self._sampler: asyncio.Task[None] | None = None

    @cached_property
    def page_data(self) -> LivePageData:
        from holdfast.ui.live_page_data import LivePageData

        return LivePageData(self.orchestrator)

    def begin(self) -> None:
        if self._sampler is None:
            self._sampler = asyncio.get_running_loop().create_task(self._take_samples())

    def routes(self) -> list[Route]:
        return page_routes()

    def calls(self) -> list[Call]:
        return [
            Call(
                "GET", "/v1/feed", "Follow a job: its picture, then what changes, as server-sent events", self.feed,
                query=FEED_PARAMETERS, statuses=(422, 503), tag="page", media="text/event-stream",
            ),
            Call(
                "GET", "/v1/jobs/{id}/consequences", "What would happen if replicas were lost now", self.consequences,
                query=LOSS_PARAMETERS, statuses=(404, 422), tag="page",
            ),
        ]  # fmt: skip

    async def feed(self, request: ApiRequest) -> StreamedAnswer:
        if self._feeds >= MAX_FEEDS:
            raise Refusal(503, f"{MAX_FEEDS} pages follow already; close one", headers={"Retry-After": "10"})
        return StreamedAnswer(self._frames(request), "text/event-stream")

    async def consequences(self, request: ApiRequest) -> ApiAnswer:
        number = request.path["id"]
        if not (number.isdecimal() and number.isascii() and int(number[:16]) in self.orchestrator.jobs):
            raise Refusal(404, f"job '{number[:60]}' is not running; 'holdfast jobs' lists the jobs that are")
        job = self.orchestrator.jobs[int(number)].document
        return ApiAnswer(answer_what_if(self.page_data, int(number), request, contract=job.contract_of, policy=job.policy))

    async def _frames(self, request: ApiRequest) -> AsyncIterator[bytes]:
        self._feeds += 1
        try:
            async for frame in stream_frames(self.page_data, request, is_over=lambda: self.orchestrator.stopping):
                yield frame
        finally:
            self._feeds -= 1

    async def _take_samples(self) -> None:
        """Take samples until the orchestrator stops. An error costs one sample and is reported once, not every second."""
        last_report = ""
        await self.orchestrator.recovered.wait()
        while not self.orchestrator.stopping:
            await asyncio.sleep(SAMPLE_INTERVAL_S)
            try:
                await self.page_data.sample()
            except Exception as error:
                report = f"the page lacks a sample: {type(error).__name__}: {error}"
                if report != last_report:
                    self.orchestrator.say(report)
                last_report = report


async def stream_frames(page_data: PageData, request: ApiRequest, *, is_over: Callable[[], bool]) -> AsyncIterator[bytes]:
    """Yield the encoded frames that a request for the feed asks for."""
    from holdfast.ui.feed import encode_frame, generate_frames

    query = request.query
    limits = {"every_s": query["every_s"], "for_s": query["wait_s"], "after": int(query["after"])}
    async for frame in generate_frames(page_data, int(query["job"]), **limits, is_over=is_over):
        yield encode_frame(frame)


def answer_what_if(
    page_data: PageData, job: int, request: ApiRequest, *, contract: Callable[[str], Contract], policy: Policy
) -> dict[str, Any]:
    """Return what would happen if the node, task or replica in the query were lost. Raises Refusal and HoldfastError."""
    from holdfast.ui.what_if import find_consequences

    node, task, replica = (request.query[name] for name in ("node", "task", "replica"))
    if sum(each is not None for each in (node, task, replica)) != 1:
        raise Refusal(422, "expected exactly one of 'node', 'task' and 'replica'; give the one that is lost")
    tasks = page_data.task_views(job)
    names = sorted(view.name for view in tasks)
    if task is not None and task not in names:
        raise Refusal(404, f"job {job} has no task '{task[:100]}'; it has: {', '.join(names)[:500]}")
    replicas = [(view.name, each) for view in tasks for each in view.replicas]
    if replica is not None and all(each.key != replica for _, each in replicas):
        raise Refusal(404, f"job {job} has no replica '{replica[:100]}'")
    lost = {each.key for name, each in replicas if task == name or each.key == replica or each.node == node}
    return find_consequences(tasks, lambda each: each.key in lost, contract=contract, policy=policy).document()
