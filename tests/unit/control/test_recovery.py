"""An orchestrator that takes up what the one before it left, with nodes that are played."""

import asyncio
import sqlite3
from contextlib import closing
from dataclasses import replace
from importlib.resources import files

import pytest

from holdfast.control.nodes.resource_manager import TICK_S
from holdfast.control.storage.database import Fenced
from holdfast.control.storage.stored_jobs import all_placements
from holdfast.errors import HoldfastError

from .conditions import (
    acknowledged,
    agree,
    incarnation_is,
    kept_as_abandoned,
    kept_as_finished,
    nodes,
    replica_is,
    said,
    told,
    without,
)
from .conftest import alive, running

TWICE = {"x": {"replicas": 2, "makes": ["s"]}, "y": {"reads": ["s"]}}


def test_a_new_orchestrator_touches_nothing_that_runs_and_takes_the_reports_that_waited(settings):
    async def play():
        async with running(settings) as control:
            (n1,) = nodes(control, "n1")
            async with alive(n1):
                number = await control.submit(pes={"x": {}, "y": {}})
                await control.reaches(number, "running")
        n1.report(f"{number}:y/0.0", "finished")
        async with running(settings) as control:
            n1.control = control
            assert (await n1.beat()).status_code == 409
            assert control.orchestrator.recovering
            n1.has[f"{number}:y/0.0"]["state"] = "running"
            async with alive(n1):
                n1.has[f"{number}:y/0.0"]["state"] = "finished"
                await control.until(lambda: replica_is(control, number, 1, "finished"))
                story = await control.job(number)
                assert story["state"] == "running"
                assert [start for _, start in n1.starts] == [1, 1]
                assert story["history"][-1]["event"] == "started"
                assert control.orchestrator.resources.nodes["n1"].generation == 1, "one assignment had all there was to say"

    asyncio.run(play())


def test_what_was_being_stopped_when_the_orchestrator_died_is_not_started_again(settings):
    async def play():
        async with running(settings) as control:
            (n1,) = nodes(control, "n1")
            async with alive(n1):
                number = await control.submit(pes={"x": {}, "y": {}})
                await control.reaches(number, "running")
            await control.call("POST", f"/v1/jobs/{number}/cancel")
            await control.reaches(number, "canceling")
            await n1.fetch()
            assert not n1.has
            n1.unacknowledged.clear()
        async with running(settings) as control:
            n1.control = control
            async with alive(n1):
                node = control.orchestrator.resources.nodes["n1"]
                assert control.orchestrator.recovering
                assert control.orchestrator.dispatch.assignment(node).replicas == ()
                await control.reaches(number, "canceled")
                assert len(n1.starts) == 2

    asyncio.run(play())


def test_reports_are_refused_while_recovering_and_a_silent_node_counts_as_lost(settings):
    async def play():
        async with running(settings) as control:
            n1, n2 = nodes(control, "n1", "n2")
            async with alive(n1, n2):
                number = await control.submit(pes=TWICE)
                await control.reaches(number, "running")
                gone = list(n2.has)
        async with running(replace(settings, recovery_wait_s=0.5)) as control:
            n1.control = control
            await n1.register()
            failed = next(iter(n1.has))
            n1.report(failed, "failed", "boom")
            refused = await n1.beat()
            assert refused.status_code == 503
            assert "recovering" in refused.json()["error"]
            async with alive(n1):
                await control.until(lambda: told(control, "node n2 is lost: it did not come back in time"))
                await control.until(lambda: acknowledged(n1))
                story = await control.job(number)
                states = {replica["key"]: replica["state"] for task in story["tasks"] for replica in task["replicas"]}
                assert states[failed] in ("failed", "placed", "running")  # by policy, and with a wait before
                assert all(states[key] == "lost" for key in gone if ":x/" in key)

    asyncio.run(play())


def test_a_node_whose_reports_are_refused_while_recovering_is_not_missed_however_long_that_takes(settings):
    async def play():
        async with running(settings) as control:
            n1, n2 = nodes(control, "n1", "n2")
            async with alive(n1, n2):
                number = await control.submit(pes=TWICE)
                await control.reaches(number, "running")
        async with running(replace(settings, beat_s=0.05, lost_after_s=0.5, recovery_wait_s=2.0)) as control:
            n1.control = control
            n1.report(next(iter(n1.has)), "running")
            async with alive(n1):
                await control.until(lambda: told(control, "node n2 is lost: it did not come back in time"))
            assert not any(text.startswith("node n1 is lost") for text in await control.events())

    asyncio.run(play())


def test_an_orchestrator_that_was_replaced_ends_and_writes_nothing(settings):
    async def play():
        async with running(settings) as old:
            task = next(task for task in asyncio.all_tasks() if task.get_coro().__qualname__ == "Orchestrator.run")
            async with running(settings) as new:
                answer = await old.call("POST", "/v1/jobs", json={"job": "late", "host_kind": "light", "pes": {"x": {}}})
                assert answer.status_code == 503
                assert answer.json()["error"].startswith("another orchestrator has taken over (term 2, this one has 1)")
                assert (await new.call("GET", "/v1/jobs")).json()["jobs"] == []
                with pytest.raises(Fenced, match="this one stops without changing anything"):
                    await task

    asyncio.run(play())


def test_a_type_whose_machine_is_gone_is_told_at_the_start(settings, tmp_path):
    text = tmp_path / "mine.toml"
    shipped = (files("holdfast.control.jobs") / "machines" / "streaming.toml").read_text()
    text.write_text(shipped.replace('machine = "streaming"', 'machine = "mine"'))

    async def play():
        async with running(replace(settings, machines=(text,), capacity_wait_s=60)) as control:
            await control.submit("a", type="mine")
        with pytest.raises(HoldfastError, match="job 1 \\('a'\\) has the type 'mine', and there is no such machine"):
            async with running(settings):
                pass

    asyncio.run(play())


def test_a_stored_state_that_no_machine_has_any_more_is_told_at_the_start(settings, tmp_path):
    machine = tmp_path / "machine.toml"
    shipped = (files("holdfast.control.jobs") / "machines" / "streaming.toml").read_text()
    machine.write_text(shipped.replace("mapping", "charting"))

    async def play():
        async with running(replace(settings, machines=(machine,), capacity_wait_s=60)) as control:
            await control.reaches(await control.submit("a"), "optimizing")
        with pytest.raises(HoldfastError, match=r"job 1 \('a'\) is charting, and machine 'streaming' has no such state; states"):
            async with running(settings):
                pass

    asyncio.run(play())


def rewrite(settings, statement):
    with closing(sqlite3.connect(settings.work / "jobs.db")) as stored:
        stored.execute(statement)
        stored.commit()


@pytest.mark.parametrize(
    ("column", "text", "why"),
    [("document", '{"job": "a", "flavour": 1}', "flavour: Extra inputs are not permitted"), ("layout", "{", "Invalid JSON: EOF")],
)
def test_a_job_that_is_stored_in_words_of_another_holdfast_fails_and_keeps_no_other_waiting(settings, column, text, why):
    async def play():
        async with running(settings) as control:
            (n1,) = nodes(control, "n1")
            async with alive(n1):
                old, other = await control.submit("old"), await control.submit("other")
                for number in (old, other):
                    await control.reaches(number, "running")
        rewrite(settings, f"UPDATE jobs SET {column} = '{text}' WHERE id = {old}")
        async with running(settings) as control:
            n1.control = control
            async with alive(n1):
                story = await control.reaches(old, "failed")
                assert story["reason"].startswith(
                    f"the {column} of job {old} ('old') is stored in a form that this holdfast does not read ({why}"
                )
                assert story["reason"] in control.said
                await control.until(lambda: without(n1, f"{old}:x/0.0"))
                assert (await control.job(other))["state"] == "running"
                assert len(n1.starts) == 2

    asyncio.run(play())


def test_a_job_that_would_not_be_taken_today_and_runs_is_not_touched(settings):
    async def play():
        async with running(settings) as control:
            (n1,) = nodes(control, "n1")
            async with alive(n1):
                number = await control.submit()
                await control.reaches(number, "running")
        rewrite(settings, """UPDATE jobs SET document = replace(document, '"makes":[]', '"makes":["../../etc"]')""")
        async with running(settings) as control:
            n1.control = control
            async with alive(n1):
                await control.until(lambda: agree(control, number))
                assert (await control.job(number))["document"]["pes"]["x"]["makes"] == ["../../etc"]
                assert len(n1.starts) == 1

    asyncio.run(play())


def test_an_orchestrator_that_slept_in_its_recovery_still_waits_for_the_nodes(settings):
    async def play():
        async with running(settings) as control:
            (n1,) = nodes(control, "n1")
            async with alive(n1):
                number = await control.submit()
                await control.reaches(number, "running")
        async with running(settings) as control:
            n1.control = control
            clock = control.orchestrator.time
            real = clock.monotonic_s
            await control.until(lambda: said(control, "recovering: waiting for 1 nodes"))
            clock.monotonic_s = lambda: real() + 1000.0
            for _ in range(3):
                control.orchestrator.resources.capacity_freed()  # wakes whoever waits for nodes, as the timer of a long sleep does
                await control.orchestrator.resources.wait_for_change(for_s=TICK_S)
            assert control.orchestrator.recovering
            async with alive(n1):
                await control.until(lambda: replica_is(control, number, 0, "running"))
            assert not any("is lost" in text for text in await control.events())
            assert len(n1.starts) == 1

    asyncio.run(play())


def test_a_replica_that_has_finished_stays_so_though_its_node_is_taken_away_and_is_not_waited_for(settings):
    async def play():
        async with running(settings) as control:
            n1, n2 = nodes(control, "n1", "n2")
            async with alive(n1, n2):
                number = await control.submit(type="finite", pes={"x": {}, "y": {}}, policy={"restart": "never"})
                await control.reaches(number, "running")
                done, stays = (n1, n2) if f"{number}:x/0.0" in n1.has else (n2, n1)
                done.report(f"{number}:x/0.0", "finished")
                await control.until(lambda: kept_as_finished(control, "x/0"))
        async with running(replace(settings, recovery_wait_s=600.0)) as control:
            stays.control = control
            async with alive(stays):
                await control.until(lambda: replica_is(control, number, 1, "running"))
                assert await replica_is(control, number, 0, "finished")
                stays.report(f"{number}:y/0.0", "finished")
                await control.reaches(number, "completed")
                assert len(done.starts + stays.starts) == 2

    asyncio.run(play())


def test_a_replica_that_was_given_up_does_not_lead_its_task_again_after_a_recovery(settings):
    async def play():
        async with running(settings) as control:
            n1, n2 = nodes(control, "n1", "n2")
            async with alive(n1, n2):
                number = await control.submit(pes={"x": {"replicas": 2}}, policy={"give_up_after": 1})
                await control.reaches(number, "running")
                first = next(node for node in (n1, n2) if f"{number}:x/0.0" in node.has)
                first.report(f"{number}:x/0.0", "failed", "boom")
                await control.until(lambda: kept_as_abandoned(control, "x/0", count=2))
        async with running(settings) as control:
            n1.control = n2.control = control
            async with alive(n1, n2):
                story = await control.reaches(number, "running")
                assert [(replica["replica"], replica["rank"]) for replica in story["tasks"][0]["replicas"]] == [(0, 1), (1, 0)]

    asyncio.run(play())


@pytest.mark.parametrize("type", ["finite", "streaming"])
def test_a_job_hears_of_a_pe_that_was_given_up_though_the_orchestrator_died_before_it_did(settings, monkeypatch, type):
    async def play():
        async with running(settings) as control:
            (n1,) = nodes(control, "n1")
            post = control.orchestrator.post
            monkeypatch.setattr(
                control.orchestrator, "post", lambda job, name, **about: None if name == "error" else post(job, name, **about)
            )
            async with alive(n1):
                number = await control.submit(type=type, pes={"x": {}, "y": {}}, policy={"give_up_after": 1, "then": "cancel"})
                await control.reaches(number, "running")
                n1.report(f"{number}:x/0.0", "failed", "boom")
                await control.until(lambda: kept_as_abandoned(control, "x/0"))
        async with running(settings) as control:
            n1.control = control
            async with alive(n1):
                story = await control.reaches(number, "failed")
                assert story["reason"] == "x/0 was abandoned before the orchestrator was started again"

    asyncio.run(play())


def test_the_failures_of_a_replica_that_has_run_well_since_count_no_more_also_for_the_next_orchestrator(settings, monkeypatch):
    monkeypatch.setattr("holdfast.control.recovery.restart_policy.STEADY_S", 0.3)

    async def failures(control):
        return [each.failures for each in await control.orchestrator.persistence.database.read(all_placements)]

    async def forgotten(control):
        return await failures(control) == [0]

    async def play():
        async with running(settings) as control:
            (n1,) = nodes(control, "n1")
            async with alive(n1):
                number = await control.submit(policy={"restart": "here", "backoff_s": 0.01, "give_up_after": 2})
                await control.reaches(number, "running")
                n1.report(f"{number}:x/0.0", "failed", "boom")
                await control.until(lambda: incarnation_is(control, number, 2))
                await control.until(lambda: forgotten(control))
        async with running(settings) as control:
            n1.control = control
            n1.has[f"{number}:x/0.0"]["state"] = "failed"
            async with alive(n1):
                await control.until(lambda: incarnation_is(control, number, 3))

    asyncio.run(play())
