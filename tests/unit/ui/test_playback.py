"""A run that is over, played back from its folder."""

import asyncio
import json
import sqlite3
from contextlib import closing
from dataclasses import replace

import httpx
import pytest

from holdfast.errors import HoldfastError
from holdfast.ui.feed import frames
from holdfast.ui.past_run import read_run
from holdfast.ui.past_run_server import application
from holdfast.ui.playback import Playback


def at(run, at_s):
    return Playback(run, at_s=at_s, speed=0.0)


def row(run, at_s, index):
    return at(run, at_s).tasks(7)[index]


def test_the_quality_of_each_task_at_each_moment_is_what_the_history_says(past):
    run = read_run(past)
    assert row(run, 7.0, 2)[:4] == ("running", "exact", 5, 5)
    assert row(run, 8.5, 2)[:2] == ("down", "absent")
    assert row(run, 10.0, 3)[:4] == ("running", "absent", 8, 7), "the sink went on without index, and waits for its correction"
    assert row(run, 24.0, 3)[:4] == ("running", "exact", 20, 20)
    assert row(run, 24.0, 2)[7][0][1] == "n1", "index was moved to n1"


def test_a_task_whose_newest_epochs_others_stood_in_for_is_as_far_as_its_corrections(past):
    run = read_run(past)
    late = [event for event in run.events if event.kind != "commit" or event.about["epoch"] < 109]
    assert row(replace(run, events=late), 12.5, 2)[2] == 7
    assert row(replace(run, events=late), 14.0, 2)[2:4] == (9, 9)


def test_a_run_of_another_holdfast_is_told_as_one(past):
    with closing(sqlite3.connect(past / "orchestrator" / "jobs.db")) as stored:
        stored.execute("""UPDATE jobs SET document = '{"job": "a", "flavour": 1}'""")
        stored.commit()
    with pytest.raises(
        HoldfastError, match=r"stored in words that this holdfast does not take \(flavour: .*with the one that made it"
    ):
        read_run(past)


def test_time_passes_as_fast_as_asked_and_ends_with_the_run(past):
    now = [0.0]
    scene = Playback(read_run(past), at_s=2.0, speed=4.0, clock=lambda: now[0])
    began = scene.now_s()
    now[0] = 2.0
    assert scene.now_s() == pytest.approx(began + 8.0)
    assert scene.tasks(7)[2][0] == "placed"
    now[0] = 500.0
    assert scene.now_s() == scene.run.to_s
    assert len(scene.events(0)[0]) == len(scene.run.told)


def test_samples_cover_the_run_up_to_the_moment_shown(past):
    samples = at(read_run(past), 12.0).samples(7, 0.0)
    assert len(samples) == 12
    assert {sample[5] for sample in samples} == {None, "exact", "absent"}
    assert samples[-1][4] == 0.5


def test_no_more_samples_are_kept_than_a_page_shows(past, monkeypatch):
    monkeypatch.setattr("holdfast.ui.playback.SAMPLES", 5)
    samples = at(read_run(past), 12.0).samples(7, 0.0)
    assert [round(sample[0] - samples[-1][0]) for sample in samples] == [-4, -3, -2, -1, 0]


def test_the_cpu_of_nodes_is_that_of_the_moment_shown(past):
    scene = at(read_run(past), 12.0)
    assert {node["name"]: (node["cpu"], node["memory_bytes"]) for node in scene.nodes()} == {
        "n1": (0.75, 2**29),
        "n2": (0.75, 2**29),
    }
    assert [sample[-1] for sample in scene.samples(7, 0.0)][-1] == {"n1": 0.75, "n2": 0.75}


def test_what_would_have_followed_is_answered_for_the_moment_shown(past):
    run = read_run(past)

    async def asked(**query):
        transport = httpx.ASGITransport(application(run, "secret"))
        async with httpx.AsyncClient(transport=transport, base_url="http://page") as http:
            headers = {"authorization": "Bearer secret"}
            bare = await http.get("/v1/feed")
            feed = await http.get("/v1/feed", headers=headers, params={"at_s": 5})
            whatif = await http.get("/v1/jobs/7/consequences", headers=headers, params=query)
            struck = await http.post("/v1/faults", headers=headers, json={"fault": "crash-pe"})
        return bare, feed, whatif, struck

    bare, feed, whatif, struck = asyncio.run(asked(node="n2", at_s=5))
    assert (bare.status_code, struck.status_code) == (401, 404)
    first = json.loads(feed.text.split("\n\n")[0].removeprefix("data: "))
    assert first["hello"]["past"]["playing"] is True
    assert [task["name"] for task in first["picture"]["tasks"]] == ["trades/0", "vwap/0", "index/0", "out/0"]
    assert whatif.json()["down"] == ["index/0"]
    _, _, two, _ = asyncio.run(asked(node="n2", task="vwap/0"))
    assert two.status_code == 422
    assert two.json()["error"] == "wanted one of 'node', 'task' and 'replica'; give the one whose loss is meant"


def test_a_run_is_played_from_its_first_output_on_unless_another_moment_is_asked_for(past):
    run = read_run(past)

    async def told():
        transport = httpx.ASGITransport(application(run, "secret"))
        async with httpx.AsyncClient(transport=transport, base_url="http://page") as http:
            return await http.get("/v1/feed", headers={"authorization": "Bearer secret"})

    first = json.loads(asyncio.run(told()).text.split("\n\n")[0].removeprefix("data: "))
    assert first["hello"]["past"]["opens_s"] == run.opens_s > 0
    assert first["at_s"] >= run.from_s + run.opens_s
    assert first["tasks"]["3"][2] is not None, "the sink has put out an epoch"
    silent = replace(run, events=[event for event in run.events if event.kind != "output"])
    assert 0 < silent.opens_s <= run.opens_s
    assert replace(run, events=[event for event in run.events if event.kind == "host"]).opens_s == 0.0


def test_a_folder_without_a_run_says_what_is_wanted(tmp_path):
    with pytest.raises(HoldfastError, match="holds no run; give the --work folder of 'holdfast run'"):
        read_run(tmp_path)


def test_only_rows_that_differ_are_sent_again(past):
    now = [0.0]
    scene = Playback(read_run(past), at_s=5.0, speed=1.0, clock=lambda: now[0])

    async def two():
        found = frames(scene, 0, every_s=0.0, for_s=60.0, after=0, over=lambda: False)
        first = await anext(found)
        now[0] = 0.25  # 5.25 s: trades and vwap of one epoch are there, index is not
        second = await anext(found)
        await found.aclose()
        return first, second

    first, second = asyncio.run(two())
    assert set(first) >= {"hello", "jobs", "nodes", "picture", "tasks", "events", "samples", "at_s"}
    assert set(first["tasks"]) == {0, 1, 2, 3}
    assert set(second) == {"tasks", "at_s"}
    assert set(second["tasks"]) < {0, 1, 2, 3}
