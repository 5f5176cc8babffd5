"""Send the page's data as server-sent events: first a complete frame, then frames with only what has changed."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

from holdfast.ui.page_data import PageData, TaskRow

LIST_INTERVAL_S = 1.0
KEEPALIVE_S = 5.0
CPU_SHARE = 0.05
"""The largest share of a core that one feed may use. If a frame is expensive to compute, frames are computed less often."""


async def generate_frames(
    page_data: PageData, job: int, *, every_s: float, for_s: float, after: int, is_over: Callable[[], bool]
) -> AsyncIterator[dict[str, Any]]:
    """Yield frames until `for_s` seconds have passed or `is_over` returns true. The first frame is complete.

    `job` 0 selects the newest job. `after` is the number of the last event that the page has already received.
    """
    sent = _SentState(after)
    end_s = time.monotonic() + for_s
    yield {"hello": page_data.hello(), **await _find_changes(page_data, job, sent)}
    while not is_over():
        start_s = time.thread_time()  # CPU time, because wall time also grows when other processes are busy
        frame = await _find_changes(page_data, job, sent)
        cost_s = time.thread_time() - start_s
        if frame:
            yield frame
        remaining_s = end_s - time.monotonic()
        if remaining_s <= 0:
            return
        await asyncio.sleep(min(remaining_s, max(every_s, cost_s / CPU_SHARE)))


def encode_frame(frame: dict[str, Any]) -> bytes:
    """Return a frame as a server-sent event."""
    return b"data: " + json.dumps(frame, separators=(",", ":"), ensure_ascii=False).encode() + b"\n\n"


class _SentState:
    """What has been sent to one page so far."""

    def __init__(self, after: int) -> None:
        self.jobs: list[dict[str, Any]] | None = None
        self.nodes: dict[str, dict[str, Any]] = {}
        self.picture_version: Any = None
        self.rows: list[TaskRow] = []
        self.event = after
        self.sampled_s = 0.0
        self.listed_s = self.frame_s = float("-inf")


async def _find_changes(page_data: PageData, requested_job: int, sent: _SentState) -> dict[str, Any]:
    """Return what differs from `sent`, and record it there. If nothing differs, return {}, or a keepalive if one is due."""
    frame: dict[str, Any] = {}
    now_s = time.monotonic()
    if now_s - sent.listed_s >= LIST_INTERVAL_S:  # lists are long and change seldom
        sent.listed_s = now_s
        jobs = page_data.jobs()
        if jobs != sent.jobs:
            frame["jobs"] = sent.jobs = jobs
        nodes = {node["name"]: node for node in page_data.nodes()}
        changed = [node for name, node in nodes.items() if sent.nodes.get(name) != node]
        if changed or nodes.keys() != sent.nodes.keys():
            frame["nodes"] = {"changed": changed, "names": list(nodes)}
            sent.nodes = nodes
    job = requested_job or (sent.jobs[0]["id"] if sent.jobs else 0)
    version = page_data.picture_version(job)
    if version is not None and version != sent.picture_version:
        frame["picture"] = await page_data.picture(job)
        sent.picture_version, sent.rows, sent.sampled_s = version, [], 0.0
    elif version is None and sent.picture_version is not None:
        sent.picture_version, sent.rows = None, []
        frame["gone"] = True  # the job has ended; the page continues to show its last state
    if version is not None:
        rows, previous = list(page_data.tasks(job)), sent.rows
        changed_rows = {index: row for index, row in enumerate(rows) if index >= len(previous) or row != previous[index]}
        if changed_rows:
            frame["tasks"] = changed_rows
        sent.rows = rows
        samples = page_data.samples(job, sent.sampled_s)
        if samples:
            frame["samples"] = samples
            sent.sampled_s = samples[-1][0]
    events, sent.event = page_data.events(sent.event)
    if events:
        frame["events"] = events
    if frame or now_s - sent.frame_s >= KEEPALIVE_S:
        sent.frame_s = now_s
        frame["at_s"] = round(page_data.now_s(), 3)
    return frame
