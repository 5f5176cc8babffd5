"""A server with the page's real files and a feed that a test controls, for situations that a cluster seldom produces."""

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from holdfast.documents.job import Job, Layout, LightPe, Reading, Task
from holdfast.ui.feed import encode_frame
from holdfast.ui.job_picture import build_picture, find_edges
from holdfast.ui.page_files import page_routes
from holdfast.ui.replica_reasons import describe_plan

TOKEN = "scripted"


def picture(*names: str, job: int = 1) -> dict[str, Any]:
    """Return the picture of a chain of PEs."""
    tasks = [
        Task(pe=name, kind="light", reads=(Reading(stream=f"s{k - 1}"),) if k else (), makes=(f"s{k}",))
        for k, name in enumerate(names)
    ]
    document = Job(job="scripted", host_kind="light", pes={"x": LightPe()})
    layout = Layout(application="scripted", tasks=tuple(tasks))
    return build_picture(job, document, layout, edges=find_edges(tasks), plan=describe_plan(document, tasks), epoch_s=1.0)


def row(epoch: int, *, quality: str = "exact", node: str = "n1", state: str = "running", error: str | None = None) -> list[Any]:
    return [state, quality, epoch, epoch, 0.0, 100.0, 0.2, [[0, node, state, 0, True, 1, 0, error, epoch, 0.0]]]


def node(name: str = "n1", *, cpu: float = 0.5, state: str = "up") -> dict[str, Any]:
    return {"name": name, "state": state, "cores": 2, "cpu": cpu, "labels": {}, "memory_bytes": 1 << 29, "stalled_s": 0}


def sample(at_s: float, *, quality: str = "exact") -> list[Any]:
    return [at_s, 0.1, 100.0, 90.0, 0.2, quality, [1, 0, 0, 0], {"n1": 0.5}]


def build_first_frame(*names: str, faults: bool = True, jobs: tuple[int, ...] = (1,)) -> dict[str, Any]:
    """Return the first frame of a job that runs on one node."""
    return {
        "hello": {"version": "scripted", "term": 1, "faults": faults, "past": None},
        "at_s": 1000.0,
        "jobs": [{"id": k, "name": f"job-{k}", "state": "running", "quality": "exact" if k == 1 else "tentative"} for k in jobs],
        "nodes": {"changed": [node()], "names": ["n1"]},
        "picture": picture(*names),
        "tasks": {k: row(1) for k in range(len(names))},
        "samples": [sample(999.0)],
    }


class ScriptedServer:
    """Serves the page. Each connection receives `first_frame`; `send` sends a frame to all of them and `disconnect` ends them."""

    def __init__(self) -> None:
        self.first_frame: dict[str, Any] = {}
        self.tokens: list[str] = []
        self.faults: list[dict[str, Any]] = []
        self.requested_jobs: list[str] = []
        self._pages: list[asyncio.Queue[bytes | None]] = []
        self._loop = asyncio.new_event_loop()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/ui/"
        routes = [
            Route("/v1/feed", self._feed),
            Route("/v1/jobs/{id}/consequences", self._consequences),
            Route("/v1/faults", self._fault, methods=["POST"]),
            *page_routes(),
        ]
        config = uvicorn.Config(Starlette(routes=routes), log_level="critical", lifespan="off", timeout_graceful_shutdown=1)
        self._server = uvicorn.Server(config)
        self._server.capture_signals = threading.Lock  # no effect: only the main thread handles signals
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def send(self, **frame: Any) -> None:
        self._send_to_all(encode_frame(frame))

    def disconnect(self) -> None:
        self._send_to_all(None)

    def connections(self) -> int:
        """Return the number of open connections."""
        return len(self._pages)

    def wait_until(self, condition: Callable[[], bool], *, limit_s: float = 30) -> None:
        end_s = time.monotonic() + limit_s
        while not condition():
            assert time.monotonic() < end_s, f"the condition did not hold within {limit_s:g} s"
            time.sleep(0.02)

    def close(self) -> None:
        self.disconnect()
        self._server.should_exit = True
        self._thread.join(timeout=20)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._server.serve(sockets=[self._listener]))
        self._loop.close()

    def _send_to_all(self, part: bytes | None) -> None:
        for queue in list(self._pages):
            self._loop.call_soon_threadsafe(queue.put_nowait, part)

    async def _feed(self, request: Request) -> Response:
        self.tokens.append(request.headers.get("authorization", "").removeprefix("Bearer "))
        self.requested_jobs.append(parse_qs(request.url.query).get("job", ["0"])[0])
        if self.tokens[-1] == "wrong":
            return JSONResponse({"error": "that is not the user token"}, status_code=401)
        if parse_qs(request.url.query).get("wait_s") == ["0"]:
            return Response(encode_frame(self.first_frame), media_type="text/event-stream")
        return StreamingResponse(self._frames(), media_type="text/event-stream")

    async def _frames(self) -> Any:
        queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._pages.append(queue)
        try:
            yield encode_frame(self.first_frame)
            while (part := await queue.get()) is not None:
                yield part
        finally:
            self._pages.remove(queue)

    async def _consequences(self, request: Request) -> Response:
        lists: dict[str, list[str]] = {
            name: [] for name in ("affected", "continues", "late", "down", "downstream", "outputs", "untouched")
        }
        return JSONResponse({**lists, "sentences": ["No running replica would be lost."], "becomes": "waits"})

    async def _fault(self, request: Request) -> Response:
        self.faults.append(json.loads(await request.body()))
        return JSONResponse({"fault": self.faults[-1]["fault"]}, status_code=202)
