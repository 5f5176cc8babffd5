"""Measure the page in Debian's Chromium: 1,000 PEs at 60 updates per second, and the memory of an hour of updates.

    python benchmarks/page.py --seconds 60
    python benchmarks/page.py --hour
    python benchmarks/page.py --orchestrator --seconds 20

The page and its files are the real ones, but the feed is synthetic. Its server sends the row of every PE, a sample and an event in
each frame; an orchestrator sends only what has changed. The benchmark reports the times between animation frames, the browser's
list of long tasks, and the heap after a garbage collection. It compares with an empty page in the same browser.

`--hour` sends an hour of updates as fast as the page accepts them: 216,000 frames, 60 per second of the hour. Each PE finishes an
epoch per second, each second has a sample and the CPU of the nodes, and every five seconds a PE fails and recovers. So every list
reaches its full length before half of the hour is over. Every ten minutes of the hour the connection ends and the page reconnects,
and a simulated user selects tasks, asks what-if questions, opens dialogs and switches the theme. Then the benchmark reports the
heap, the DOM nodes, the listeners and the memory of the browser's process, after garbage collections. It compares with the heap
after the first ten minutes.

`--orchestrator` measures the CPU that one page costs a real orchestrator, compared with no page.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import shutil
import socket
import sys
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
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route

from holdfast.documents.job import Job, Layout, LightPe, Reading, Task
from holdfast.protocol.client import Client
from holdfast.trial.process_cluster import ProcessCluster
from holdfast.ui.job_picture import build_picture, find_edges
from holdfast.ui.page_files import page_routes
from holdfast.ui.replica_reasons import describe_plan
from holdfast_papers.system_s.node_fleet import start_fleet

NODES = 20
MIN_FRAME_SHARE, FREEZE_MS, MAX_GROWTH, MAX_CORES = 0.8, 500.0, 1.1, 0.5
WATCH = """() => {
  window.gaps = []; window.long = [];
  let last = performance.now();
  const frame = (at) => { window.gaps.push(at - last); last = at; requestAnimationFrame(frame); };
  requestAnimationFrame(frame);
  const note = (list) => window.long.push(...list.getEntries().map((entry) => entry.duration));
  new PerformanceObserver(note).observe({ entryTypes: ["longtask"] });
}"""
TAKE = (
    "() => { const taken = [window.gaps, window.long, holdfast.store.frames]; window.gaps = []; window.long = []; return taken; }"
)


def picture(pes: int, layers: int) -> dict[str, Any]:
    """Return the picture of a layered graph in which each PE reads two PEs of the previous layer."""
    rng = random.Random(0)
    width = -(-pes // layers)
    tasks = []
    for number in range(pes):
        before = range(max(0, (number // width - 1) * width), (number // width) * width)
        reads = tuple(Reading(stream=f"s{k}") for k in sorted(rng.sample(before, min(2, len(before)))))
        tasks.append(Task(pe=f"pe{number:04}", kind="light", reads=reads, makes=(f"s{number}",)))
    job = Job(job="thousand", host_kind="light", pes={"x": LightPe()})
    layout = Layout(application="thousand", tasks=tuple(tasks))
    return build_picture(1, job, layout, edges=find_edges(tasks), plan=describe_plan(job, tasks), epoch_s=1 / 60)


class Feed:
    """Sends frames with the rows of all PEs. In each frame some PEs are not exact."""

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


class Hour(Feed):
    """Sends an hour of frames as fast as the page accepts them. Each connection receives ten minutes of the hour."""

    frames, a_second, part = 3600 * 60, 60, 600 * 60

    def __init__(self, pes: int, layers: int) -> None:
        super().__init__(pes, 0.0, layers)
        self._began_s = time.time()
        self.measured = -1

    async def _frames(self) -> AsyncIterator[bytes]:
        yield b"data: " + json.dumps(self._first()).encode() + b"\n\n"
        while self.measured < self.sent // self.part:  # keepalives until the benchmark has measured
            yield b'data: {"at_s":%.3f}\n\n' % (self._began_s + self.sent / self.a_second)
            await asyncio.sleep(1)
        while self.sent < self.frames:
            yield self._frame(self.sent)
            self.sent += 1
            if self.sent % self.part == 0:
                return

    def _first(self) -> dict[str, Any]:
        return {
            "hello": {"version": "synthetic", "term": 1, "faults": True, "past": None},
            "at_s": self._began_s + self.sent / self.a_second,
            "jobs": [{"id": 1, "name": "thousand", "state": "running", "quality": "exact"}],
            "picture": self.picture,
            "nodes": {"changed": self._nodes(self.sent), "names": [f"n{k:02}" for k in range(NODES)]},
            "tasks": {k: self._row(k, self.sent) for k in range(self.pes)},
        }

    def _nodes(self, number: int) -> list[dict[str, Any]]:
        same = {"state": "up", "cores": 8, "labels": {}, "memory_bytes": 1 << 30}
        return [{"name": f"n{k:02}", "cpu": (number // 60 * 7 + k) % 100 / 25, **same} for k in range(NODES)]

    def _row(self, pe: int, number: int) -> list[Any]:
        epoch = number // self.a_second + 1
        quality = ("tentative", "predicted", "absent")[(pe + epoch) % 3] if (pe * 31 + epoch) % 20 == 0 else "exact"
        replicas = [[k, f"n{(pe + 7 * k) % NODES:02}", "running", k, True, 1, 0, None, epoch, 0.1] for k in (0, 1)]
        return ["running", quality, epoch, epoch - (quality != "exact"), epoch % 7 / 10, 900 + (epoch + pe) % 100, 0.2, replicas]

    def _frame(self, number: int) -> bytes:
        at_s = round(self._began_s + number / self.a_second, 3)
        frame: dict[str, Any] = {"at_s": at_s, "tasks": {k: self._row(k, number) for k in range(number % 60, self.pes, 60)}}
        second, within = divmod(number, self.a_second)
        if within == 0:
            cpu = {f"n{k:02}": (second + k) % 100 / 25 for k in range(NODES)}
            frame["samples"] = [
                [at_s, second % 9 / 10, 900.0 * self.pes, 300.0 * self.pes, second % 5 / 9, "exact", [950, 20, 15, 15], cpu]
            ]
            frame["nodes"] = {"changed": self._nodes(number), "names": [f"n{k:02}" for k in range(NODES)]}
            if second % 5 < 3:
                kind, state = (("fault", "crash-pe"), ("replica", "failed"), ("replica", "running"))[second % 5]
                frame["events"] = [
                    {"number": second + 1, "at_s": at_s, "kind": kind, "text": state, "job": 1, "node": "n01",
                     "replica": f"1:pe{second // 5 % self.pes:04}/0.0", "data": {"state": state} if kind == "replica" else {}}
                ]  # fmt: skip
        return b"data: " + json.dumps(frame, separators=(",", ":")).encode() + b"\n\n"


async def answer_what_if(request: Request) -> JSONResponse:
    """Return an answer of the usual size to a what-if question."""
    lists: dict[str, list[str]] = {
        name: [] for name in ("affected", "continues", "late", "down", "downstream", "outputs", "untouched")
    }
    return JSONResponse(
        {**lists, "sentences": ["pe0001/0: replica 1 on n08 continues within 0.5 s. No output is lost."] * 5, "becomes": "waits"}
    )


def serve(feed: Feed) -> tuple[uvicorn.Server, str]:
    """Serve the feed and the page's files on a free port, in a thread."""
    bound = socket.create_server(("127.0.0.1", 0))
    app = Starlette(routes=[Route("/v1/feed", feed.answer), Route("/v1/jobs/{id}/consequences", answer_what_if), *page_routes()])
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="off", timeout_graceful_shutdown=1))
    server.capture_signals = threading.Lock  # type: ignore[method-assign]  # no effect: only the main thread handles signals
    threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[bound])), daemon=True).start()
    return server, f"http://127.0.0.1:{bound.getsockname()[1]}/ui/#token=synthetic"


def heap(session: Any) -> tuple[float, int]:
    """Return the JavaScript heap in MiB after a garbage collection, and the number of DOM nodes."""
    session.send("HeapProfiler.collectGarbage")
    metrics = {each["name"]: each["value"] for each in session.send("Performance.getMetrics")["metrics"]}
    return metrics["JSHeapUsedSize"] / (1 << 20), int(metrics["Nodes"])


def hour(*, pes: int, layers: int) -> dict[str, Any]:
    """Return the memory of the page at every tenth minute of an hour of updates."""
    from playwright.sync_api import sync_playwright

    feed = Hour(pes, layers)
    server, url = serve(feed)
    points = []
    with sync_playwright() as driver:
        path = shutil.which("chromium") or shutil.which("chromium-browser")
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox", "--enable-precise-memory-info"])
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        session = page.context.new_cdp_session(page)
        session.send("Performance.enable")
        page.goto(url)
        began = time.monotonic()
        for part in range(Hour.frames // Hour.part + 1):
            page.wait_for_function(f"() => holdfast.store.rows[59]?.[2] >= {part * 600 + 1}", timeout=600_000)
            use_page(page)
            points.append({"minute": part * 10, "seconds": round(time.monotonic() - began, 1), **measure_memory(session)})
            print(points[-1], file=sys.stderr)
            feed.measured = part
        frames = page.evaluate("() => holdfast.store.frames")
        browser.close()
    server.should_exit = True
    first, last = points[1], points[-1]
    ratio = last["heap_mib"] / first["heap_mib"]
    return {
        "claim": "the heap and the DOM of the page do not grow from the tenth minute to the end of an hour",
        "ours": last["heap_mib"],
        "theirs": first["heap_mib"],
        "ratio": round(ratio, 3),
        "bound": MAX_GROWTH,
        "holds": ratio <= MAX_GROWTH and last["dom_nodes"] <= MAX_GROWTH * first["dom_nodes"] and not errors,
        "synthetic": True,
        "pes": pes,
        "updates": frames,
        "errors": errors,
        "points": points,
    }


def use_page(page: Any) -> None:
    """Use the page: select tasks, ask what-if questions, open dialogs, switch the theme."""
    page.evaluate("() => { document.getElementById('tasks').scrollTop = 0 }")
    for task in range(10):
        page.locator(f"#task-{task}").dispatch_event("click")
        page.locator("#detail .sentences").wait_for()
    page.locator(".node button").first.click()
    page.wait_for_function("() => holdfast.graph.overlay")
    page.keyboard.press("Escape")
    for key in ("t", "t", "?", "Escape", "f", "Escape", "+", "-", "0"):
        page.keyboard.press(key)
    page.locator("[data-span='900']").click()
    page.locator("[data-span='300']").click()


def measure_memory(session: Any) -> dict[str, Any]:
    """Return the heap and the process in MiB, the DOM nodes and the listeners, after garbage collections."""
    for _ in range(3):
        session.send("HeapProfiler.collectGarbage")
    metrics = {each["name"]: each["value"] for each in session.send("Performance.getMetrics")["metrics"]}
    pages = [each for each in psutil.Process().children(recursive=True) if "--type=renderer" in each.cmdline()]
    return {
        "heap_mib": round(metrics["JSHeapUsedSize"] / (1 << 20), 2),
        "dom_nodes": int(metrics["Nodes"]),
        "listeners": int(metrics["JSEventListeners"]),
        "process_mib": round(max(each.memory_full_info().uss for each in pages) / (1 << 20)),
    }


def measure_empty_page(browser: Any) -> float:
    """Return the animation frames per second of an empty page."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.evaluate(WATCH.replace("new Perf", "0 && new Perf"))
    began = time.monotonic()
    time.sleep(5)
    drawn = page.evaluate("() => window.gaps.length") / (time.monotonic() - began)
    page.close()
    return float(drawn)


def measure(*, pes: int, rate: float, seconds: float, layers: int, shot: str | None) -> dict[str, Any]:
    from playwright.sync_api import sync_playwright

    feed = Feed(pes, rate, layers)
    server, url = serve(feed)
    with sync_playwright() as driver:
        path = shutil.which("chromium") or shutil.which("chromium-browser")
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox", "--enable-precise-memory-info"])
        empty = measure_empty_page(browser)
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        session = page.context.new_cdp_session(page)
        session.send("Performance.enable")
        page.goto(url)
        page.locator("#tasks [role=option]").first.wait_for()
        time.sleep(min(20.0, seconds / 3))  # until the bounded lists are full and the code is compiled
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
    drawn, taken = len(gaps) / took, (frames - before) / took
    return {
        "claim": f"a page of {pes:,} PEs takes {rate:g} updates per second: it takes them all, never freezes for longer "
        f"than {FREEZE_MS / 1000:g} s, and draws at least {MIN_FRAME_SHARE:.0%} of the frames of an empty page",
        "ours": round(drawn, 1),
        "theirs": round(empty, 1),
        "ratio": round(drawn / empty, 3),
        "bound": MIN_FRAME_SHARE,
        "holds": drawn >= MIN_FRAME_SHARE * empty and taken >= 0.95 * rate and ordered[-1] <= FREEZE_MS,
        "synthetic": True,
        "pes": pes,
        "rate": rate,
        "seconds": round(took, 1),
        "updates_taken_a_second": round(taken, 1),
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


def measure_orchestrator(*, pes: int, seconds: float) -> dict[str, Any]:
    """Measure the CPU of a real orchestrator of light PEs, without a page and with one that follows as often as possible."""
    with tempfile.TemporaryDirectory() as work, ProcessCluster(Path(work)) as cluster:
        cluster.start_orchestrator()
        start_fleet(cluster, 10)
        cluster.wait_for_nodes(10)
        rng = random.Random(0)
        light = {
            f"pe{k:04}": LightPe(reads=(f"s{rng.randrange(k)}",) if k > pes // 10 else (), makes=(f"s{k}",)) for k in range(pes)
        }
        number = cluster.client.submit(Job(job="thousand", host_kind="light", pes=light))
        cluster.client.wait_for(number, ["running"], limit_s=120)
        orchestrator = psutil.Process(cluster.pid("orchestrator"))
        alone = _cpu_share(orchestrator, lambda: time.sleep(seconds))
        feed: dict[str, Any] = {}
        with_page = _cpu_share(orchestrator, lambda: feed.update(_read_feed(cluster.client, seconds)))
    return {
        "claim": f"a page that follows {pes:,} PEs as often as possible costs its orchestrator less than half a core",
        "ours": with_page,
        "theirs": alone,
        "ratio": round(with_page / alone, 2) if alone else None,
        "bound": MAX_CORES,
        "holds": with_page - alone < MAX_CORES,
        "pes": pes,
        "seconds": seconds,
        **feed,
    }


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
    parser.add_argument("--rate", type=float, default=60.0, help="frames per second")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--layers", type=int, default=10)
    parser.add_argument("--shot", help="write a screenshot of the page to this file")
    parser.add_argument("--hour", action="store_true", help="measure the memory over an hour of updates")
    parser.add_argument("--orchestrator", action="store_true", help="measure what a page costs a real orchestrator")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.orchestrator:
        result = measure_orchestrator(pes=options.pes, seconds=options.seconds)
    elif options.hour:
        result = hour(pes=options.pes, layers=options.layers)
    else:
        result = measure(pes=options.pes, rate=options.rate, seconds=options.seconds, layers=options.layers, shot=options.shot)
    if options.json:
        print(json.dumps(result, indent=2))
        return
    print(f"{result['claim']}: {'holds' if result['holds'] else 'DOES NOT HOLD'}")
    print(f"ours {result['ours']:g}, theirs {result['theirs']:g}, ratio {result['ratio']} (bound {result['bound']:g})")
    for name, value in result.items():
        if name not in ("claim", "ours", "theirs", "ratio", "bound", "holds", "points"):
            print(f"  {name}: {value}")


if __name__ == "__main__":
    main()
