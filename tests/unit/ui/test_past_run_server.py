"""The server of a finished run."""

import asyncio
import json
from dataclasses import replace

import httpx

from holdfast.ui.past_run import read_run
from holdfast.ui.past_run_server import build_application


def test_consequences_are_those_of_the_moment_shown(past):
    run = read_run(past)

    async def request(**query):
        transport = httpx.ASGITransport(build_application(run, "secret"))
        async with httpx.AsyncClient(transport=transport, base_url="http://page") as http:
            headers = {"authorization": "Bearer secret"}
            unauthenticated = await http.get("/v1/feed")
            feed = await http.get("/v1/feed", headers=headers, params={"at_s": 5})
            consequences = await http.get("/v1/jobs/7/consequences", headers=headers, params=query)
            injection = await http.post("/v1/faults", headers=headers, json={"fault": "crash-pe"})
        return unauthenticated, feed, consequences, injection

    unauthenticated, feed, consequences, injection = asyncio.run(request(node="n2", at_s=5))
    assert (unauthenticated.status_code, injection.status_code) == (401, 404)
    first = json.loads(feed.text.split("\n\n")[0].removeprefix("data: "))
    assert first["hello"]["past"]["playing"] is True
    assert [task["name"] for task in first["picture"]["tasks"]] == ["trades/0", "vwap/0", "index/0", "out/0"]
    assert consequences.json()["down"] == ["index/0"]
    _, _, two, _ = asyncio.run(request(node="n2", task="vwap/0"))
    assert two.status_code == 422
    assert two.json()["error"] == "expected exactly one of 'node', 'task' and 'replica'; give the one that is lost"


def test_playback_starts_at_the_first_output_by_default(past):
    run = read_run(past)

    async def request_feed():
        transport = httpx.ASGITransport(build_application(run, "secret"))
        async with httpx.AsyncClient(transport=transport, base_url="http://page") as http:
            return await http.get("/v1/feed", headers={"authorization": "Bearer secret"})

    first = json.loads(asyncio.run(request_feed()).text.split("\n\n")[0].removeprefix("data: "))
    assert first["hello"]["past"]["opens_s"] == run.opens_s > 0
    assert first["at_s"] >= run.from_s + run.opens_s
    assert first["tasks"]["3"][2] is not None, "the sink has emitted an epoch"
    without_output = replace(run, events=[event for event in run.events if event.kind != "output"])
    assert 0 < without_output.opens_s <= run.opens_s
    assert replace(run, events=[event for event in run.events if event.kind == "host"]).opens_s == 0.0
