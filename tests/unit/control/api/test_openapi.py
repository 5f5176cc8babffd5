"""The OpenAPI document is complete, and no generated request makes the server fail."""

import asyncio
import threading
from contextlib import contextmanager

import httpx
import schemathesis
import uvicorn
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as examples
from hypothesis.strategies import floats, lists, sampled_from

from holdfast.control.api.listening import Listening, bind
from holdfast.control.api.openapi import openapi
from holdfast.control.faults.fault_library import LIBRARY
from holdfast.control.orchestrator import Orchestrator
from holdfast.protocol.node_token import node_token

from ..conftest import TOKENS


@contextmanager
def served(settings):
    """A real server in a thread."""
    bound = bind(settings.work, Listening())
    ready, done = threading.Event(), threading.Event()

    async def serve():
        orchestrator = Orchestrator(settings, say=lambda text: None)
        await orchestrator.begin()
        server = uvicorn.Server(
            uvicorn.Config(orchestrator.api.application(TOKENS), lifespan="off", log_level="critical", timeout_graceful_shutdown=1)
        )
        server.capture_signals = no_signals
        tasks = [asyncio.create_task(orchestrator.run()), asyncio.create_task(server.serve(sockets=[bound]))]
        ready.set()
        while not done.is_set():
            await asyncio.sleep(0.05)
        orchestrator.stop()
        server.should_exit = True
        await asyncio.gather(*tasks, return_exceptions=True)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    ready.wait()
    try:
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"
    finally:
        done.set()
        thread.join()
        bound.close()


@contextmanager
def no_signals():
    yield


NODE = {"name": "n1", "cores": 1, "memory_bytes": 1, "host_kind": "light"}
NOBODY = {"pid": -1, "started_s": 0, "beat_s": 0}
"""A PE host without a process."""


def test_generated_requests_get_documented_answers_only(settings, monkeypatch):
    monkeypatch.setattr("holdfast.control.api.routes.POLL_S", 0.05)  # how long a call for an assignment waits
    with served(settings) as url:
        headers = {"authorization": f"Bearer {node_token('node-secret', 'n1')}"}
        assert httpx.post(f"{url}/v1/nodes", json=NODE, headers=headers).status_code == 200
        assert httpx.post(f"{url}/v1/nodes/n1/beat", json={"term": 1, "host": NOBODY}, headers=headers).status_code == 200
        schema = schemathesis.openapi.from_url(f"{url}/openapi.json")
        operations = [operation.ok() for operation in schema.get_all_operations()]
        tried = sum(tried_out(operation) for operation in operations if not operation.path.endswith("/presence"))  # never answers
        assert tried >= 86


def tried_out(operation) -> int:
    """Call one operation with valid and invalid requests. Returns how often."""
    is_for_nodes = operation.definition.raw["security"] == [{"node": []}]
    token = node_token("node-secret", "n1") if is_for_nodes else "user-secret"
    fitting = operation.as_strategy(generation_mode=schemathesis.GenerationMode.POSITIVE)
    other = operation.as_strategy(generation_mode=schemathesis.GenerationMode.NEGATIVE) if _can_be_wrong(operation) else fitting
    tried = 0

    @examples(max_examples=8, phases=[Phase.generate], deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(case=fitting | other, fault=sampled_from([None, *FAULTS]), times=lists(floats(0, 0.01), max_size=2))
    def check(case, fault, times):
        nonlocal tried
        tried += 1
        if case.query and "wait_s" in case.query:
            case.query["wait_s"] = 0
        if operation.path == "/v1/faults" and isinstance(case.body, dict) and fault is not None:
            case.body |= {"fault": fault, "node": "n1", "settings": dict(zip(("for_s", "by_s"), times, strict=False))}
        if operation.path.endswith("/assignment") and times:
            case.path_parameters["name"] = "n1"
        answer = case.call(headers={"authorization": f"Bearer {token}"})
        assert answer.status_code < 500 or answer.status_code == 503, (operation.label, answer.text)
        if "{" not in operation.path:  # a '/' in a name would make another path
            assert str(answer.status_code) in operation.definition.raw["responses"], (operation.label, answer.status_code)

    check()
    return tried


FAULTS = sorted(set(LIBRARY) - {"crash-orchestrator"})
"""All faults except the one that would end this process. Scenario tests inject it."""


def _can_be_wrong(operation) -> bool:
    return bool(operation.definition.raw["parameters"]) or "requestBody" in operation.definition.raw


def test_document_lists_every_call_with_its_token(settings):
    async def calls():
        orchestrator = Orchestrator(settings, say=lambda text: None)
        all_calls = orchestrator.api.calls()
        orchestrator.persistence.database.close()
        return all_calls

    all_calls = asyncio.run(calls())
    document = openapi(all_calls, version="1")
    assert {(call.path, call.method.lower()) for call in all_calls} == {
        (path, method) for path, row in document["paths"].items() for method in row
    }
    assert [call.path for call in all_calls if call.token == "none"] == ["/v1/health"]
