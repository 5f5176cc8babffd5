"""How the page bears a thousand PEs that change sixty times a second, in Debian's Chromium.

    python benchmarks/page.py --seconds 60
    python benchmarks/page.py --orchestrator --seconds 20

The feed is synthetic: a server of its own sends every PE's row in every frame, which no orchestrator does (it sends what changed),
and with every frame a sample and an event, so that an hour's worth of what a page keeps goes by in a minute. The page and its
files are the real ones. Told are the times between animation frames, the browser's own list of long tasks, and the heap after a
collection.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import psutil
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

from holdfast.manage.client import Client
from holdfast.manage.cluster import Cluster
from holdfast.model.job import Job, Layout, LightPe, Reading, Task
from holdfast.ui.files import page_routes
from holdfast.ui.picture import edges_of, picture_of
from holdfast.ui.reasons import plan_of

NODES = 20
WATCH = """() => {
  window.gaps = []; window.long = [];
  let last = performance.now();
  const frame = (at) => { window.gaps.push(at - last); last = at; requestAnimationFrame(frame); };
  requestAnimationFrame(frame);
  const note = (list) => window.long.push(...list.getEntries().map((entry) => entry.duration));
  new PerformanceObserver(note).observe({ entryTypes: ["longtask"] });
}"""
TAKE = (
    "() => { const found = [window.gaps, window.long, holdfast.store.frames]; window.gaps = []; window.long = []; return found; }"
)


def picture(pes: int, layers: int) -> dict[str, Any]:
    """A graph of so many PEs in layers, each reading two of the layer before."""
    rng = random.Random(0)
    width = -(-pes // layers)
    tasks = []
    for number in range(pes):
        before = range(max(0, (number // width - 1) * width), (number // width) * width)
        reads = tuple(Reading(stream=f"s{k}") for k in sorted(rng.sample(before, min(2, len(before)))))
        tasks.append(Task(pe=f"pe{number:04}", kind="light", reads=reads, makes=(f"s{number}",)))
    job = Job(job="thousand", host="light", pes={"x": LightPe()})
    layout = Layout(application="thousand", tasks=tuple(tasks))
    return picture_of(1, job, layout, edges=edges_of(tasks), plan=plan_of(job, tasks), epoch_s=1 / 60)


class Feed:
    """Frames for one page: every PE's row anew, with a change of quality now and then."""

    def __init__(self, pes: int, rate: float, layers: int) -> None:
        self.pes, self.rate, self.picture = pes, rate, picture(pes, layers)
        self._rng = random.Random(1)
        self.sent = 0

    async def answer(self, request: Request) -> StreamingResponse:
        return StreamingResponse(self._frames(), media_type="text/event-stream")

    async def _frames(self) -> AsyncIterator[bytes]:
        nodes = [
            {"name": f"n{k:02}", "state": "up", "cores": 8, "cpu": 1.0, "labels": {}, "memory_bytes": 1 << 30} for k in range(NODES)
        ]
        hello = {"version": "synthetic", "term": 1, "faults": False, "past": None}
        line = {"id": 1, "name": "thousand", "state": "running"}
        first = {
            "hello": hello,
            "jobs": [line],
            "picture": self.picture,
            "nodes": {"changed": nodes, "names": [n["name"] for n in nodes]},
        }
        yield b"data: " + json.dumps(first).encode() + b"\n\n"
        due = time.monotonic()
        for number in range(10**9):
            yield self._frame(number)
            self.sent += 1
            due += 1 / self.rate
            await asyncio.sleep(max(0.0, due - time.monotonic()))

    def _frame(self, number: int) -> bytes:
        bad = {self._rng.randrange(self.pes): self._rng.choice(("tentative", "predicted", "absent")) for _ in range(self.pes // 20)}
        rows = ",".join(
            f'"{k}":["running","{bad.get(k, "exact")}",{number},{number - (k in bad)},{number % 7 / 10},{900 + (number + k) % 100},'
            f'0.{k % 9 + 1},[[0,"n{k % NODES:02}","running",0,true,1,0,null,{number},0.1],'
            f'[1,"n{(k + 7) % NODES:02}","running",1,true,1,0,null,{number},0.2]]]'
            for k in range(self.pes)
        )
        at_s = time.time()
        cpu = json.dumps({f"n{k:02}": 0.5 + k / 40 for k in range(6)})
        sample = f'[{at_s:.3f},0.4,{900 * self.pes},{300 * self.pes},0.6,"exact",[950,20,15,15],{cpu}]'
        state = ("failed", "running")[number % 2]
        event = {"number": number + 1, "at_s": at_s, "kind": "replica", "text": state, "job": 1, "node": "n01",
                 "replica": f"1:pe{number // 2 % self.pes:04}/0.0", "data": {"state": state}}  # fmt: skip
        return f'data: {{"at_s":{at_s:.3f},"tasks":{{{rows}}},"samples":[{sample}],"events":[{json.dumps(event)}]}}\n\n'.encode()


def serve(feed: Feed) -> tuple[uvicorn.Server, str]:
    """The feed and the page's files on a free port, in a thread."""
    bound = socket.create_server(("127.0.0.1", 0))
    app = Starlette(routes=[Route("/v1/feed", feed.answer), *page_routes()])
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="off", timeout_graceful_shutdown=1))
    server.capture_signals = threading.Lock  # type: ignore[method-assign]  # a context that does nothing: signals are the main thread's
    threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[bound])), daemon=True).start()
    return server, f"http://127.0.0.1:{bound.getsockname()[1]}/ui/#token=synthetic"


def heap(session: Any) -> tuple[float, int]:
    """The JavaScript heap in MiB after a collection, and the page's DOM nodes."""
    session.send("HeapProfiler.collectGarbage")
    found = {each["name"]: each["value"] for each in session.send("Performance.getMetrics")["metrics"]}
    return found["JSHeapUsedSize"] / (1 << 20), int(found["Nodes"])


def measure(*, pes: int, rate: float, seconds: float, layers: int, shot: str | None) -> dict[str, Any]:
    from playwright.sync_api import sync_playwright

    feed = Feed(pes, rate, layers)
    server, url = serve(feed)
    with sync_playwright() as driver:
        path = shutil.which("chromium") or shutil.which("chromium-browser")
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox", "--enable-precise-memory-info"])
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        session = page.context.new_cdp_session(page)
        session.send("Performance.enable")
        page.goto(url)
        page.locator("#tasks [role=option]").first.wait_for()
        time.sleep(min(20.0, seconds / 3))  # until every list that is bounded is full, and code is compiled
        heaps = [heap(session)]
        page.evaluate(WATCH)
        page.evaluate(TAKE)
        time.sleep(0.5)
        page.evaluate(TAKE)
        began, before = time.monotonic(), page.evaluate("() => holdfast.store.frames")
        time.sleep(seconds)
        took = time.monotonic() - began
        gaps, long, frames = page.evaluate(TAKE)
        heaps.append(heap(session))
        if shot:
            page.screenshot(path=shot)
        browser.close()
    server.should_exit = True
    ordered = sorted(gaps)
    middle, high = ordered[len(ordered) // 2], ordered[int(0.99 * len(ordered))]
    return {
        "synthetic": True,
        "pes": pes,
        "rate": rate,
        "seconds": round(took, 1),
        "updates_taken_a_second": round((frames - before) / took, 1),
        "frames_a_second": round(len(gaps) / took, 1),
        "frame_ms": {"median": round(middle, 1), "p99": round(high, 1), "longest": round(ordered[-1], 1)},
        "long_tasks": {
            "count": len(long),
            "longest_ms": round(max(long, default=0.0), 1),
            "share": round(sum(long) / 1000 / took, 4),
        },
        "heap_mib": [round(size, 2) for size, _ in heaps],
        "grown_mib": [round(b - a, 2) for (a, _), (b, _) in pairwise(heaps)],
        "dom_nodes": [count for _, count in heaps],
    }


def follow(*, pes: int, seconds: float) -> dict[str, Any]:
    """What following costs a real orchestrator of so many light PEs: its CPU without a page and with one that asks often."""
    with tempfile.TemporaryDirectory() as work, Cluster(Path(work)) as cluster:
        cluster.start_orchestrator()
        cluster.start_fleet(10)
        cluster.wait_for_nodes(10)
        rng = random.Random(0)
        light = {
            f"pe{k:04}": LightPe(reads=(f"s{rng.randrange(k)}",) if k > pes // 10 else (), makes=(f"s{k}",)) for k in range(pes)
        }
        number = cluster.client.submit(Job(job="thousand", host="light", pes=light))
        cluster.client.wait_for(number, ["running"], limit_s=120)
        orchestrator = psutil.Process(cluster.pid("orchestrator"))
        alone = _cpu_share(orchestrator, lambda: time.sleep(seconds))
        found: dict[str, Any] = {}
        followed = _cpu_share(orchestrator, lambda: found.update(_read_feed(cluster.client, seconds)))
    return {"pes": pes, "seconds": seconds, "cores_alone": alone, "cores_followed": followed, **found}


def _cpu_share(process: psutil.Process, during: Callable[[], object]) -> float:
    before, began = sum(process.cpu_times()[:2]), time.monotonic()
    during()
    return round((sum(process.cpu_times()[:2]) - before) / (time.monotonic() - began), 3)


def _read_feed(client: Client, seconds: float) -> dict[str, Any]:
    query = {"every_s": 1 / 60 + 1e-4, "wait_s": seconds}
    size = frames = rows = 0
    with httpx.stream(
        "GET", f"{client.url}/v1/feed", params=query, headers={"authorization": f"Bearer {client.token}"}, timeout=60
    ) as feed:
        for line in feed.iter_lines():
            if line.startswith("data: "):
                frames, size, rows = frames + 1, size + len(line), rows + len(json.loads(line[6:]).get("tasks", ()))
    each = {"frames_a_second": frames, "rows_a_second": rows, "kib_a_second": size / 1024}
    return {name: round(value / seconds, 1) for name, value in each.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pes", type=int, default=1000)
    parser.add_argument("--rate", type=float, default=60.0, help="frames a second")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--layers", type=int, default=10)
    parser.add_argument("--shot", help="where to put a picture of the page")
    parser.add_argument("--orchestrator", action="store_true", help="measure what following costs a real orchestrator instead")
    given = parser.parse_args()
    if given.orchestrator:
        print(json.dumps(follow(pes=given.pes, seconds=given.seconds), indent=2))
        return
    result = measure(pes=given.pes, rate=given.rate, seconds=given.seconds, layers=given.layers, shot=given.shot)
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
