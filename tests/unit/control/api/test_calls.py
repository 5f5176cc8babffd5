"""Bodies that are too long, sent to a real server: the sender gets an answer."""

import asyncio
import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import httpx
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.routing import Route

from holdfast.control.api import calls
from holdfast.control.api.calls import ApiAnswer, ApiRequest, Call, Tokens, endpoint
from holdfast.control.api.listening import Listening, bind
from holdfast.documents.job import Job, LightPe
from holdfast.protocol.client import Client, ClientError


@contextmanager
def served(folder) -> Iterator[str]:
    """Yield the address of a server with one call that takes jobs."""

    async def take(asked: ApiRequest) -> ApiAnswer:
        return ApiAnswer({"id": 1})

    call = Call("POST", "/v1/jobs", "Submit a job", take, body=Job, strict=True, max_bytes=10_000)
    app = Starlette(routes=[Route(call.path, endpoint(call, Tokens("user", "node")), methods=["POST"])])
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off", timeout_graceful_shutdown=1))
    bound = bind(folder, Listening(port=0))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[bound])))
    thread.start()
    try:
        yield "http://{}:{}".format(*bound.getsockname()[:2])
    finally:
        server.should_exit = True
        thread.join()
        bound.close()


def test_too_long_job_gets_an_answer_and_not_a_reset(tmp_path):
    job = Job(job="a", host_kind="light", pes={f"{n:05}{'x' * 90}": LightPe() for n in range(1_000)})
    with served(tmp_path) as url, Client(url, "user") as client:
        with pytest.raises(ClientError, match="the body is too long; wanted at most 10000 bytes") as caught:
            client.submit(job)
        assert caught.value.status == 413
        assert client.submit(Job(job="a", host_kind="light", pes={"x": LightPe()})) == 1


def test_client_that_sends_everything_first_still_reads_the_refusal(tmp_path):
    with served(tmp_path) as url:
        line = http.client.HTTPConnection(url.removeprefix("http://"), timeout=60)
        line.request("POST", "/v1/jobs", body=b" " * 20_000_000, headers={"authorization": "Bearer user"})
        answer = line.getresponse()
        assert (answer.status, "wanted at most 10000 bytes" in answer.read().decode()) == (413, True)
        line.close()


def test_endless_body_is_read_up_to_a_bound(tmp_path, monkeypatch):
    monkeypatch.setattr(calls, "DISCARD_BYTES", 1_000_000)
    parts = (b" " * 50_000 for _ in range(15))
    with served(tmp_path) as url:
        answer = httpx.post(f"{url}/v1/jobs", content=parts, headers={"authorization": "Bearer user"})
        assert (answer.status_code, answer.headers["connection"]) == (413, "close")
        endless = iter(lambda: b" " * 50_000, b"")
        with suppress(httpx.TransportError):  # the server may close the connection before the answer is read
            answer = httpx.post(f"{url}/v1/jobs", content=endless, headers={"authorization": "Bearer user"})
            assert answer.status_code == 413
