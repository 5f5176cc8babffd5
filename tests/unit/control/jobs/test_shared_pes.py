"""PEs that jobs share, while one of these jobs starts, ends or restarts."""

import asyncio
from collections import deque
from dataclasses import replace

import pytest

from holdfast.control.observers.job_observers import Activate, FailJob, FailReplica
from holdfast.control.storage.stored_jobs import all_placements

from ..conditions import all_acknowledged, has_replicas, is_empty, nodes, replica_is
from ..conftest import SimulatedNode, alive, cluster, running

SHARES = {"theirs": {"shared": "one:x"}}


async def test_sharing_a_pe_of_a_canceling_job_fails(settings):
    async with running(settings) as control:
        n1 = SimulatedNode(control, "n1")
        async with alive(n1):
            one = await control.submit("one")
            await control.reaches(one, "running")
        await control.call("POST", f"/v1/jobs/{one}/cancel")
        await control.reaches(one, "canceling")
        two = await control.submit("two", pes=SHARES)
        job = await control.reaches(two, "failed")
        assert job["reason"] == "job 2: names job 'one', which is being canceled; wait until it has ended and name another"
        async with alive(n1):
            await control.reaches(one, "canceled")
            assert not n1.has


async def _waits_for_room_with_a_pe_of_a_job_that_is_gone(control, n1):
    """Job two, which shares PE x with job one, is `optimizing` when job one is canceled: x is its alone now."""
    async with alive(n1):
        one = await control.submit("one")
        await control.reaches(one, "running")
        two = await control.submit("two", pes={**SHARES, "mine": {}})
        await control.reaches(two, "optimizing")
        await control.call("POST", f"/v1/jobs/{one}/cancel")
        await control.reaches(one, "canceled")
        assert set(n1.has) == {f"{one}:x/0.0"}
    return two


async def test_shared_pe_ends_with_its_last_user(settings):
    async with running(replace(settings, capacity_wait_s=60)) as control:
        n1 = SimulatedNode(control, "n1", labels={"replicas": "1"})
        two = await _waits_for_room_with_a_pe_of_a_job_that_is_gone(control, n1)
        async with alive(n1):
            await control.call("POST", f"/v1/jobs/{two}/cancel")
            await control.reaches(two, "canceled")
            await control.until(lambda: _empty(n1))
            assert not len(control.orchestrator.replicas)
            assert await control.orchestrator.persistence.database.read(all_placements) == []


async def test_crash_leaves_no_unused_shared_pe(settings):
    async with running(replace(settings, capacity_wait_s=60)) as control:
        n1 = SimulatedNode(control, "n1", labels={"replicas": "1"})
        two = await _waits_for_room_with_a_pe_of_a_job_that_is_gone(control, n1)
    async with running(settings) as control:
        n1.control = control
        async with alive(n1):
            job = await control.reaches(two, "failed")
            assert "names job 'one', which does not exist" in job["reason"]
            await control.until(lambda: _empty(n1))
            assert await control.orchestrator.persistence.database.read(all_placements) == []


async def _shares_what_has_no_place(control, n1):
    """Job one waits for room, and job two, which shares its PE x, has all that is its own."""
    async with alive(n1):
        one = await control.submit("one", pes={"x": {}, "z": {}})
        await control.reaches(one, "optimizing")
        two = await control.submit("two", pes={**SHARES, "mine": {}})
        await control.until(lambda: has_replicas(n1, 1))
        await control.until(lambda: all_acknowledged(n1))
    return one, two


async def test_job_waits_for_its_shared_pe(settings):
    async with running(replace(settings, capacity_wait_s=60)) as control:
        n1, n2, n3 = (SimulatedNode(control, name, labels={"replicas": "1"}) for name in ("n1", "n2", "n3"))
        one, two = await _shares_what_has_no_place(control, n1)
        assert (await control.job(two))["state"] == "dispatching"
        async with alive(n1, n2, n3):
            await control.reaches(two, "running")
            assert await replica_is(control, one, 0, "running")


@pytest.mark.parametrize("crash", [False, True], ids=["at once", "after a crash"])
async def test_sharing_a_pe_that_was_never_placed_fails(settings, crash):
    async def play():
        waiting = replace(settings, capacity_wait_s=60)
        async with running(waiting) as control:
            n1 = SimulatedNode(control, "n1", labels={"replicas": "1"})
            one, two = await _shares_what_has_no_place(control, n1)
            if crash:  # before job two gets the event
                control.orchestrator.jobs[two].queue = deque(maxlen=0)
            await control.call("POST", f"/v1/jobs/{one}/cancel")
            await control.reaches(one, "canceled")
            if not crash:
                async with alive(n1):
                    return await control.reaches(two, "failed")
        async with running(waiting) as control:
            n1.control = control
            async with alive(n1):
                return await control.reaches(two, "failed")

    assert (await play())["reason"] == (
        "shares PE 'x' of job 1, which ended before the PE was placed; submit that one again, then this one"
    )


async def _empty(node):
    return not node.has


async def test_sharing_job_takes_over_a_due_restart(settings):
    async with running(settings) as control:
        n1 = SimulatedNode(control, "n1")
        async with alive(n1):
            one = await control.submit("one", policy={"restart": "here", "backoff_s": 2.0})
            two = await control.submit("two", pes=SHARES)
            await control.reaches(two, "running")
            n1.report(f"{one}:x/0.0", "failed", "boom")
            await control.until(lambda: _failed(control))
            await control.call("POST", f"/v1/jobs/{one}/cancel")
            await control.reaches(one, "canceled")
            await control.until(lambda: _runs_anew(control))
            assert (await control.job(two))["state"] == "running"


async def _failed(control):
    return control.orchestrator.replicas.get("1:x/0.0").state == "failed"


async def _runs_anew(control):
    replica = control.orchestrator.replicas.get("1:x/0.0")
    return (replica.incarnation, replica.state) == (2, "running")


async def test_shared_pe_outlives_its_job_and_a_crash(settings):
    async with cluster(settings, "n1") as (control, n1):
        one = await control.submit("one", pes={"x": {"makes": ["s"]}, "z": {}})
        two = await control.submit("two", pes={"mine": {"reads": ["one:s"]}, "theirs": {"shared": "one:x"}})
        await control.reaches(two, "running")
        await control.call("POST", f"/v1/jobs/{one}/cancel")
        await control.reaches(one, "canceled")
        await control.until(lambda: has_replicas(n1, 2))
        assert set(n1.has) == {f"{one}:x/0.0", f"{two}:mine/0.0"}
    async with running(settings) as control:
        n1.control = control
        async with alive(n1):
            await control.until(lambda: replica_is(control, two, 0, "running"))
            assert set(n1.has) == {f"{one}:x/0.0", f"{two}:mine/0.0"}
            assert len(n1.starts) == 3
            await control.call("POST", f"/v1/jobs/{two}/cancel")
            await control.reaches(two, "canceled")
            await control.until(lambda: is_empty(n1))


CHAIN = {"a": {"makes": ["r"]}, "b": {"reads": ["r"], "makes": ["s"]}, "c": {"reads": ["s"]}}


async def test_job_shares_upstream_pes_of_several_jobs(settings):
    async with cluster(settings, "n1") as (control, n1):
        one = await control.submit("one", pes=CHAIN)
        two = await control.submit("two", share=True, pes={"d": {"reads": ["one:s"], "makes": ["t"]}, "e": {}})
        await control.reaches(two, "running")
        await control.call("POST", f"/v1/jobs/{one}/cancel")
        await control.reaches(one, "canceled")
        await control.until(lambda: has_replicas(n1, 4))
        assert set(n1.has) == {f"{one}:a/0.0", f"{one}:b/0.0", f"{two}:d/0.0", f"{two}:e/0.0"}
        three = await control.submit("three", share=True, pes={"f": {"reads": ["two:t"]}})
        job = await control.reaches(three, "running")
        assert [task["task"] for task in job["tasks"]] == ["one:a/0", "one:b/0", "two:d/0", "f/0"]
        assert [task["owner"] for task in job["tasks"]] == [one, one, two, three]
        assert control.orchestrator.dispatch.settings_of(one)["remaining"] == ["a/0", "b/0"]
        await control.call("POST", f"/v1/jobs/{two}/cancel")
        await control.reaches(two, "canceled")
        await control.until(lambda: has_replicas(n1, 4))
        assert set(n1.has) == {f"{one}:a/0.0", f"{one}:b/0.0", f"{two}:d/0.0", f"{three}:f/0.0"}
    async with running(settings) as control:
        n1.control = control
        async with alive(n1):
            await control.until(lambda: replica_is(control, three, 3, "running"))
            assert len(n1.starts) == 6
            assert [control.orchestrator.dispatch.settings_of(job)["remaining"] for job in (one, two)] == [["a/0", "b/0"], ["d/0"]]
            await control.call("POST", f"/v1/jobs/{three}/cancel")
            await control.reaches(three, "canceled")
            await control.until(lambda: is_empty(n1))
            assert not control.orchestrator.restart_policy.ended_jobs


async def test_reader_is_notified_when_its_maker_ends(settings):
    async with cluster(settings, "n1") as (control, n1):
        one = await control.submit("one", pes=CHAIN)
        two = await control.submit("two", pes={"d": {"reads": ["one:s"]}})
        await control.reaches(two, "running")
        await control.call("POST", f"/v1/jobs/{one}/cancel")
        await control.reaches(one, "canceled")
        await control.until(lambda: has_replicas(n1, 1))
        events = (await control.call("GET", "/v1/events")).json()["events"]
        assert [event["text"] for event in events if event["kind"] == "decision" and event["job"] == two] == [
            "reads s of job 'one', which is canceled: it gets no more rows until that job is submitted again with the "
            "same log ('share: true' would keep the PEs that make it)"
        ]


class Watching:
    """A observer that notes what it is shown, and wants the impossible of jobs that have ended."""

    def __init__(self):
        self.seen = {}

    async def observe(self, view):
        self.seen[view.id, view.state] = sorted(replica.task for replica in view.replicas), [t.name for t in view.layout.tasks]
        ended = view.state == "canceled"
        return [Activate("a/0", (0,)), FailJob("over"), FailReplica("1:b/0.0", 1, cause="it hangs")] if ended else []


async def test_observer_sees_shared_pes_of_an_ended_job(settings):
    async with running(settings) as control:
        watching = Watching()
        control.orchestrator.observers.set("light", watching)
        (n1,) = nodes(control, "n1")
        async with alive(n1):
            one = await control.submit("one", pes=CHAIN, policy={"restart": "here", "backoff_s": 0.0})
            two = await control.submit("two", share=True, pes={"d": {"reads": ["one:s"]}})
            await control.reaches(two, "running")
            await control.call("POST", f"/v1/jobs/{one}/cancel")
            await control.until(lambda: _incarnation(control, "1:b/0.0", 2))
            assert watching.seen[one, "canceled"] == (["a/0", "b/0"], ["a/0", "b/0"])
            assert (await control.job(two))["state"] == "running"


async def _incarnation(control, key, wanted):
    replica = control.orchestrator.replicas.get(key)
    return (replica.incarnation, replica.state) == (wanted, "running")


async def test_log_is_written_by_one_job_at_a_time(settings, tmp_path, monkeypatch):
    (tmp_path / "app.py").touch()

    async def parse(job, **options):
        await asyncio.Event().wait()

    monkeypatch.setattr("holdfast.control.jobs.parser.run_parser", parse)
    async with running(settings) as control:
        job = {"application": str(tmp_path / "app.py"), "log": str(tmp_path / "log")}
        assert (await control.call("POST", "/v1/jobs", json={"job": "one", **job})).status_code == 201
        answer = await control.call("POST", "/v1/jobs", json={"job": "two", **job, "log": f"{tmp_path}/log/"})
        assert (answer.status_code, "is being written by job 1 ('one', parsing)" in answer.json()["error"]) == (409, True)
        await control.call("POST", "/v1/jobs/1/cancel")
        await control.reaches(1, "canceled")
        assert (await control.call("POST", "/v1/jobs", json={"job": "two", **job})).status_code == 201
