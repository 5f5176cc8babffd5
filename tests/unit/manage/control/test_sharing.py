"""PEs that jobs share, while one of these jobs is on its way in or out."""

import asyncio
from dataclasses import replace

from holdfast.manage.archive import all_placed

from .conditions import has, is_empty, nodes, replica_is
from .conftest import PlayedNode, alive, running

SHARES = {"theirs": {"shared": "one:x"}}


def test_a_job_that_shares_a_pe_of_one_that_is_being_canceled_is_told_so(settings):
    async def play():
        async with running(settings) as control:
            n1 = PlayedNode(control, "n1")
            async with alive(n1):
                one = await control.submit("one")
                await control.reaches(one, "running")
            await control.call("POST", f"/v1/jobs/{one}/cancel")
            await control.reaches(one, "canceling")
            two = await control.submit("two", pes=SHARES)
            story = await control.reaches(two, "failed")
            assert story["reason"] == "job 2: names job 'one', which is being canceled; wait until it is gone and name another"
            async with alive(n1):
                await control.reaches(one, "canceled")
                assert not n1.has

    asyncio.run(play())


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


def test_a_shared_pe_ends_with_the_last_job_that_uses_it_also_where_that_never_got_room(settings):
    async def play():
        async with running(replace(settings, capacity_wait_s=60)) as control:
            n1 = PlayedNode(control, "n1", labels={"replicas": "1"})
            two = await _waits_for_room_with_a_pe_of_a_job_that_is_gone(control, n1)
            async with alive(n1):
                await control.call("POST", f"/v1/jobs/{two}/cancel")
                await control.reaches(two, "canceled")
                await control.until(lambda: _empty(n1))
                assert not len(control.orchestrator.replicas)
                assert await control.orchestrator.persistence.database.read(all_placed) == []

    asyncio.run(play())


def test_a_crash_leaves_no_shared_pe_behind_that_nobody_uses(settings):
    async def play():
        async with running(replace(settings, capacity_wait_s=60)) as control:
            n1 = PlayedNode(control, "n1", labels={"replicas": "1"})
            two = await _waits_for_room_with_a_pe_of_a_job_that_is_gone(control, n1)
        async with running(settings) as control:
            n1.control = control
            async with alive(n1):
                story = await control.reaches(two, "failed")
                assert "names job 'one', which is not there" in story["reason"]
                await control.until(lambda: _empty(n1))
                assert await control.orchestrator.persistence.database.read(all_placed) == []

    asyncio.run(play())


async def _empty(node):
    return not node.has


def test_a_restart_that_is_due_is_taken_over_by_the_job_that_shares_the_pe(settings):
    async def play():
        async with running(settings) as control:
            n1 = PlayedNode(control, "n1")
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

    asyncio.run(play())


async def _failed(control):
    return control.orchestrator.replicas.get("1:x/0.0").state == "failed"


async def _runs_anew(control):
    replica = control.orchestrator.replicas.get("1:x/0.0")
    return (replica.incarnation, replica.state) == (2, "running")


def test_a_shared_pe_outlives_its_own_job_and_a_crash_after_that(settings):
    async def play():
        async with running(settings) as control:
            (n1,) = nodes(control, "n1")
            async with alive(n1):
                one = await control.submit("one", pes={"x": {"makes": ["s"]}, "z": {}})
                two = await control.submit("two", pes={"mine": {"reads": ["one:s"]}, "theirs": {"shared": "one:x"}})
                await control.reaches(two, "running")
                await control.call("POST", f"/v1/jobs/{one}/cancel")
                await control.reaches(one, "canceled")
                await control.until(lambda: has(n1, 2))
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

    asyncio.run(play())
