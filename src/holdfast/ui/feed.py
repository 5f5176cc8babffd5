"""The stream of what changed, as server-sent events: a whole picture first, then only rows that differ from the last ones sent."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

from holdfast.ui.scene import Scene, TaskRow

LIST_S = 1.0
QUIET_S = 5.0
SHARE = 0.05
"""At most so much of a core goes into one feed: where looking takes long, it is done less often."""


async def frames(
    scene: Scene, job: int, *, every_s: float, for_s: float, after: int, over: Callable[[], bool]
) -> AsyncIterator[dict[str, Any]]:
    """What to show, until `for_s` has passed or it is `over`; the first frame holds everything. `job` 0: whichever is newest."""
    sent = _Sent(after)
    ends = time.monotonic() + for_s
    yield {"hello": scene.hello(), **await _changes(scene, job, sent)}
    while not over():
        began = time.thread_time()  # what it costs, not what a busy machine makes of it
        frame = await _changes(scene, job, sent)
        took_s = time.thread_time() - began
        if frame:
            yield frame
        left_s = ends - time.monotonic()
        if left_s <= 0:
            return
        await asyncio.sleep(min(left_s, max(every_s, took_s / SHARE)))


def encoded(frame: dict[str, Any]) -> bytes:
    """A frame as a server-sent event."""
    return b"data: " + json.dumps(frame, separators=(",", ":"), ensure_ascii=False).encode() + b"\n\n"


class _Sent:
    """What one page has been told."""

    def __init__(self, after: int) -> None:
        self.jobs: list[dict[str, Any]] | None = None
        self.nodes: dict[str, dict[str, Any]] = {}
        self.mark: Any = None
        self.rows: list[TaskRow] = []
        self.event = after
        self.sampled_s = 0.0
        self.listed_s = self.spoke_s = float("-inf")


async def _changes(scene: Scene, asked: int, sent: _Sent) -> dict[str, Any]:
    """What differs from what was sent; noted as sent. Empty where nothing does, save for a sign of life now and then."""
    found: dict[str, Any] = {}
    now_s = time.monotonic()
    if now_s - sent.listed_s >= LIST_S:  # lists are long and change seldom
        sent.listed_s = now_s
        jobs = scene.jobs()
        if jobs != sent.jobs:
            found["jobs"] = sent.jobs = jobs
        nodes = {node["name"]: node for node in scene.nodes()}
        changed = [node for name, node in nodes.items() if sent.nodes.get(name) != node]
        if changed or nodes.keys() != sent.nodes.keys():
            found["nodes"] = {"changed": changed, "names": list(nodes)}
            sent.nodes = nodes
    job = asked or (sent.jobs[0]["id"] if sent.jobs else 0)
    mark = scene.mark(job)
    if mark is not None and mark != sent.mark:
        found["picture"] = await scene.picture(job)
        sent.mark, sent.rows, sent.sampled_s = mark, [], 0.0
    elif mark is None and sent.mark is not None:
        sent.mark, sent.rows = None, []
        found["gone"] = True  # it has ended: what was shown of it stays on the page
    if mark is not None:
        rows = list(scene.tasks(job))
        before = sent.rows
        differing = {index: row for index, row in enumerate(rows) if index >= len(before) or row != before[index]}
        if differing:
            found["tasks"] = differing
        sent.rows = rows
        samples = scene.samples(job, sent.sampled_s)
        if samples:
            found["samples"] = samples
            sent.sampled_s = samples[-1][0]
    events, last = scene.events(sent.event)
    if events:
        found["events"] = events
    sent.event = last
    if found or now_s - sent.spoke_s >= QUIET_S:
        sent.spoke_s = now_s
        found["at_s"] = round(scene.now_s(), 3)
    return found
