"""Recovery: a new orchestrator restores the state of its predecessor, with simulated nodes."""

import asyncio
import sqlite3
from contextlib import closing
from dataclasses import replace
from importlib.resources import files
from types import SimpleNamespace

import pytest

from holdfast.control.nodes.resource_manager import TICK_S
from holdfast.control.recovery.orchestrator_recovery import OrchestratorRecovery
from holdfast.control.storage.database import Fenced
from holdfast.control.storage.stored_jobs import all_placements

from ..conditions import (
    all_acknowledged,
    all_run,
    has_event,
    has_printed,
    incarnation_is,
    is_stored_as_abandoned,
    is_stored_as_finished,
    lacks,
    nodes,
    replica_is,
)
from ..conftest import alive, cluster, running

TWICE = {"x": {"replicas": 2, "makes": ["s"]}, "y": {"reads": ["s"]}}


async def test_recovery_keeps_replicas_and_takes_waiting_reports(settings):
    async with cluster(settings, "n1") as (control, n1):
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
            job = await control.job(number)
            assert job["state"] == "running"
            assert [start for _, start in n1.starts] == [1, 1]
            assert job["history"][-1]["event"] == "started"
            assert control.orchestrator.resources.nodes["n1"].generation == 1, "one assignment had all there was to say"


async def test_stopping_replica_is_not_restarted_after_a_crash(settings):
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


async def test_reports_are_refused_during_recovery(settings):
    async with cluster(settings, "n1", "n2") as (control, n1, n2):
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
            await control.until(lambda: has_event(control, "node n2 is lost: it did not register in time"))
            await control.until(lambda: all_acknowledged(n1))
            job = await control.job(number)
            states = {replica["key"]: replica["state"] for task in job["tasks"] for replica in task["replicas"]}
            assert states[failed] in ("failed", "placed", "running")  # by policy, and with a wait before
            assert all(states[key] == "lost" for key in gone if ":x/" in key)


async def test_node_with_refused_reports_is_not_lost(settings):
    async with cluster(settings, "n1", "n2") as (control, n1, _):
        number = await control.submit(pes=TWICE)
        await control.reaches(number, "running")
    async with running(replace(settings, beat_s=0.05, lost_after_s=0.5, recovery_wait_s=2.0)) as control:
        n1.control = control
        n1.report(next(iter(n1.has)), "running")
        async with alive(n1):
            await control.until(lambda: has_event(control, "node n2 is lost: it did not register in time"))
        assert not any(text.startswith("node n1 is lost") for text in await control.events())


async def test_replaced_orchestrator_stops_without_writing(settings):
    async with running(settings) as old:
        task = next(task for task in asyncio.all_tasks() if task.get_coro().__qualname__ == "Orchestrator.run")
        async with running(settings) as new:
            answer = await old.call("POST", "/v1/jobs", json={"job": "late", "host_kind": "light", "pes": {"x": {}}})
            assert answer.status_code == 503
            assert answer.json()["error"].startswith("another orchestrator has taken over (term 2, this one has 1)")
            assert (await new.call("GET", "/v1/jobs")).json()["jobs"] == []
            with pytest.raises(Fenced, match="this one stops without changing anything"):
                await task


def machine_with(tmp_path, old, new):
    """Return the file of a machine that is the shipped one with a name replaced."""
    path = tmp_path / "machine.toml"
    path.write_text((files("holdfast.control.jobs") / "machines" / "streaming.toml").read_text().replace(old, new))
    return path


@pytest.mark.parametrize(
    ("old", "new", "type", "why"),
    [
        (
            'machine = "streaming"',
            'machine = "mine"',
            "mine",
            "it has the type 'mine', and there is no such machine",
        ),
        ("running", "going", "streaming", "it has the state 'going', which machine 'streaming' does not have"),
    ],
)
async def test_job_in_an_unknown_state_is_set_aside_and_recovers_later(settings, tmp_path, old, new, type, why):
    known = replace(settings, machines=(machine_with(tmp_path, old, new),))
    state = "going" if new == "going" else "running"
    async with cluster(known, "n1") as (control, n1):
        number = await control.submit("a", type=type, pes={"x": {}})
        await control.reaches(number, state)
    async with running(settings) as control:
        n1.control = control
        async with alive(n1):
            await control.orchestrator.recovered.wait()
            other = await control.submit("b")
            await control.reaches(other, "running")
            aside = await control.job(number)
            assert aside["state"] == state
            assert aside["reason"].startswith(f"job {number} ('a') is set aside, and its PEs keep running: {why}")
            assert aside["reason"] in control.printed
            same_name = {"job": "a", "host_kind": "light", "pes": {"x": {}}}
            assert (await control.call("POST", "/v1/jobs", json=same_name)).status_code == 409
            assert f"{number}:x/0.0" in n1.has
    async with running(known) as control:
        n1.control = control
        async with alive(n1):
            await control.until(lambda: replica_is(control, number, 0, "running"))
            assert (await control.job(number))["reason"] == ""
            assert len(n1.starts) == 2


def rewrite(settings, statement):
    with closing(sqlite3.connect(settings.work / "jobs.db")) as stored:
        stored.execute(statement)
        stored.commit()


@pytest.mark.parametrize(
    ("column", "text", "why"),
    [("document", '{"job": "a", "flavour": 1}', "flavour: Extra inputs are not permitted"), ("layout", "{", "Invalid JSON: EOF")],
)
async def test_unreadable_stored_job_is_set_aside_until_it_is_canceled(settings, column, text, why):
    async with cluster(settings, "n1") as (control, n1):
        old, other = await control.submit("old"), await control.submit("other")
        for number in (old, other):
            await control.reaches(number, "running")
    rewrite(settings, f"UPDATE jobs SET {column} = '{text}' WHERE id = {old}")
    async with running(settings) as control:
        n1.control = control
        async with alive(n1):
            await control.orchestrator.recovered.wait()
            job = await control.job(old)
            assert job["state"] == "running"
            assert job["reason"].startswith(
                f"job {old} ('old') is set aside, and its PEs keep running: its {column} is stored in a form that this holdfast "
                f"does not read ({why}"
            )
            assert job["reason"] in control.printed
            await control.until(lambda: replica_is(control, other, 0, "running"))
            await control.until(lambda: replica_is(control, old, 0, "running"))
            assert f"{old}:x/0.0" in n1.has and len(n1.starts) == 2
            assert (await control.call("POST", f"/v1/jobs/{old}/cancel", json={})).status_code == 202
            await control.reaches(old, "canceled")
            await control.until(lambda: lacks(n1, f"{old}:x/0.0"))


async def test_running_job_that_would_be_refused_today_keeps_running(settings):
    async with cluster(settings, "n1") as (control, n1):
        number = await control.submit()
        await control.reaches(number, "running")
    rewrite(settings, """UPDATE jobs SET document = replace(document, '"makes":[]', '"makes":["../../etc"]')""")
    async with running(settings) as control:
        n1.control = control
        async with alive(n1):
            await control.until(lambda: all_run(control, number))
            assert (await control.job(number))["document"]["pes"]["x"]["makes"] == ["../../etc"]
            assert len(n1.starts) == 1


async def test_pause_during_recovery_does_not_lose_nodes(settings):
    async with cluster(settings, "n1") as (control, n1):
        number = await control.submit()
        await control.reaches(number, "running")
    async with running(settings) as control:
        n1.control = control
        clock = control.orchestrator.time
        real = clock.monotonic_s
        await control.until(lambda: has_printed(control, "recovering: waiting for 1 node"))
        clock.monotonic_s = lambda: real() + 1000.0
        for _ in range(3):
            control.orchestrator.resources.capacity_freed()  # wakes the recovery, as the timer of a long sleep does
            await control.orchestrator.resources.wait_for_change(for_s=TICK_S)
        assert control.orchestrator.recovery.awaits_nodes_of(control.orchestrator.jobs[number])
        async with alive(n1):
            await control.until(lambda: replica_is(control, number, 0, "running"))
        assert not any("is lost" in text for text in await control.events())
        assert len(n1.starts) == 1


async def test_finished_replica_survives_its_node(settings):
    async with cluster(settings, "n1", "n2") as (control, n1, n2):
        number = await control.submit(type="finite", pes={"x": {}, "y": {}}, policy={"restart": "never"})
        await control.reaches(number, "running")
        done, stays = (n1, n2) if f"{number}:x/0.0" in n1.has else (n2, n1)
        done.report(f"{number}:x/0.0", "finished")
        await control.until(lambda: is_stored_as_finished(control, "x/0"))
    async with running(replace(settings, recovery_wait_s=600.0)) as control:
        stays.control = control
        async with alive(stays):
            await control.until(lambda: replica_is(control, number, 1, "running"))
            assert await replica_is(control, number, 0, "finished")
            stays.report(f"{number}:y/0.0", "finished")
            await control.reaches(number, "completed")
            assert len(done.starts + stays.starts) == 2


async def test_abandoned_replica_is_not_primary_after_recovery(settings):
    async with cluster(settings, "n1", "n2") as (control, n1, n2):
        number = await control.submit(pes={"x": {"replicas": 2}}, policy={"give_up_after": 1})
        await control.reaches(number, "running")
        first = next(node for node in (n1, n2) if f"{number}:x/0.0" in node.has)
        first.report(f"{number}:x/0.0", "failed", "boom")
        await control.until(lambda: is_stored_as_abandoned(control, "x/0", count=2))
    async with running(settings) as control:
        n1.control = n2.control = control
        async with alive(n1, n2):
            job = await control.reaches(number, "running")
            assert [(replica["replica"], replica["rank"]) for replica in job["tasks"][0]["replicas"]] == [(0, 1), (1, 0)]


@pytest.mark.parametrize("type", ["finite", "streaming"])
async def test_abandoning_reaches_the_job_after_a_crash(settings, monkeypatch, type):
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
            await control.until(lambda: is_stored_as_abandoned(control, "x/0"))
    async with running(settings) as control:
        n1.control = control
        async with alive(n1):
            failed = await control.reaches(number, "failed")
            assert failed["reason"] == "x/0 was abandoned before the orchestrator was started again"


async def test_failures_are_reset_also_for_the_next_orchestrator(settings, monkeypatch):
    monkeypatch.setattr("holdfast.control.recovery.restart_policy.STEADY_S", 0.3)

    async def failures(control):
        return [each.failures for each in await control.orchestrator.persistence.database.read(all_placements)]

    async def forgotten(control):
        return await failures(control) == [0]

    async with cluster(settings, "n1") as (control, n1):
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


class ReturningNodes:
    """A clock and a resource manager to which nodes return at given times; waiting advances the clock."""

    def __init__(self, *, come):
        self.nodes, self.lost, self.now_s, self._come = {}, {}, 0.0, sorted((at_s, name) for name, at_s in come.items())

    def monotonic_s(self):
        return self.now_s

    async def wait_for_change(self, *, for_s):
        if self._come and self._come[0][0] <= self.now_s + for_s:
            self.now_s, name = self._come.pop(0)
            self.nodes[name] = object()
        else:
            self.now_s += for_s

    def mark_replicas_lost(self, name, why):
        self.lost[name] = self.now_s


async def lost_nodes(names, *, wait_s, come):
    returning = ReturningNodes(come=come)
    events = SimpleNamespace(emit=lambda *texts, **data: None)
    settings = SimpleNamespace(recovery_wait_s=wait_s)
    orchestrator = SimpleNamespace(
        time=returning, resources=returning, events=events, settings=settings, say=lambda text: None, start_workers=lambda: None
    )
    recovery = OrchestratorRecovery(orchestrator)
    recovery._awaited = set(names)
    await recovery._await_nodes(wait_s)
    recovery._give_up_awaiting()
    return returning.lost


async def test_each_returning_node_restarts_the_wait():
    assert await lost_nodes(["n1", "n2", "n3"], wait_s=10.0, come={"n1": 8.0, "n2": 17.0, "n3": 26.0}) == {}


async def test_missing_node_is_lost_after_the_wait():
    assert await lost_nodes(["n1", "n2"], wait_s=10.0, come={"n1": 8.0}) == {"n2": pytest.approx(18.0, abs=1.0)}


async def test_unknown_node_does_not_restart_the_wait():
    assert await lost_nodes(["n1"], wait_s=10.0, come={"n9": 8.0}) == {"n1": pytest.approx(10.0, abs=1.0)}


async def test_job_recovers_while_another_waits_for_a_silent_node(settings):
    async with cluster(settings, "n1", "n2") as (control, n1, n2):
        on = {}
        for name in ("a", "b"):
            number = await control.submit(name, pes={"x": {}})
            await control.reaches(number, "running")
            on[next(node.name for node in (n1, n2) if f"{number}:x/0.0" in node.has)] = number
    assert set(on) == {"n1", "n2"}
    async with running(replace(settings, recovery_wait_s=600.0)) as control:
        n1.control = n2.control = control
        async with alive(n1):
            await control.until(lambda: replica_is(control, on["n1"], 0, "running"))
            await control.call("POST", f"/v1/jobs/{on['n1']}/cancel")
            await control.reaches(on["n1"], "canceled")
            waiting = control.orchestrator.jobs[on["n2"]]
            assert [event.name for event in waiting.queue] == ["recover"]
            assert not any("is lost" in text for text in await control.events())
            async with alive(n2):
                await control.until(lambda: replica_is(control, on["n2"], 0, "running"))
                await control.until(lambda: has_no_events(waiting))
        assert len(n2.starts) == 1


async def has_no_events(job):
    return not job.queue
