"""Room on nodes as jobs start and end: needs count, and ended replicas hold none."""

from dataclasses import replace

import pytest

from holdfast.control.placement.placement_manager import PlacementManager

from ..conditions import has_event, incarnation_is
from ..conftest import SimulatedNode, alive, running

WAITING = {"capacity_wait_s": 30.0}


async def test_needs_are_reserved_also_after_a_restart(settings):
    needs = {"x": {"cores": 3, "memory_mib": 700}}
    async with running(settings) as control:
        n1 = SimulatedNode(control, "n1", memory_bytes=2**30)
        async with alive(n1):
            first = await control.submit("a", needs=needs)
            await control.reaches(first, "running")
            assert (
                "needs 3 cores and 700 MiB on a node, and none have that free (n1 96 of 128 and 700 of 1024 MiB)"
                in (await control.reaches(await control.submit("b", needs=needs), "failed"))["reason"]
            )
    async with running(settings) as control:
        n1.control = control
        async with alive(n1):
            await control.orchestrator.recovered.wait()
            fitting = await control.submit("c", needs={"x": {"cores": 1, "memory_mib": 324}})
            await control.reaches(fitting, "running")
            reason = (await control.reaches(await control.submit("d", needs={"x": {"memory_mib": 1}}), "failed"))["reason"]
            assert "needs 1 MiB" in reason and "n1 128 of 128 and 1024 of 1024 MiB" in reason


async def test_invalid_and_unknown_needs_are_refused_together(settings):
    async with running(settings) as control:
        await control.orchestrator.recovered.wait()
        needs = {"x": {"cores": -1, "memory_mib": -2}, "x/0": {"cores": 1}, "y": {"cores": 1}}
        wrong = {"job": "b", "host_kind": "light", "pes": {"x": {}}, "needs": needs, "replicas": {"z": 2}}
        answer = await control.call("POST", "/v1/jobs", json=wrong)
        assert answer.status_code == 422
        assert answer.json()["error"].splitlines()[1:] == [
            "  - needs.x.cores: wanted a number of at least 0, got -1.0",
            "  - needs.x.memory_mib: wanted a number of at least 0, got -2.0",
            "  - replicas.z: names PE 'z', which this job does not have; its PEs are: x",
            "  - needs.y: names PE 'y', which this job does not have; its PEs are: x",
        ]


async def test_finished_replica_frees_room(settings):
    async with running(replace(settings, **WAITING)) as control:
        n1 = SimulatedNode(control, "n1", labels={"replicas": "2"})
        async with alive(n1):
            first = await control.submit("a", type="finite", pes={"x": {}, "y": {}})
            await control.reaches(first, "running")
            second = await control.submit("b")
            await control.reaches(second, "optimizing")
            n1.report(f"{first}:x/0.0", "finished")
            await control.reaches(second, "running")
            assert (await control.job(first))["state"] == "running"


async def test_abandoned_replica_frees_room(settings):
    async with running(replace(settings, **WAITING)) as control:
        n1 = SimulatedNode(control, "n1", labels={"replicas": "2"})
        async with alive(n1):
            first = await control.submit("a", pes={"x": {}, "y": {}}, policy={"give_up_after": 1})
            await control.reaches(first, "running")
            second = await control.submit("b")
            await control.reaches(second, "optimizing")
            n1.report(f"{first}:x/0.0", "failed", "broken")
            await control.reaches(second, "running")


async def test_replica_that_cannot_leave_a_drained_node_is_reported_once(settings):
    async with running(settings) as control:
        n1 = SimulatedNode(control, "n1")
        async with alive(n1):
            number = await control.submit()
            await control.reaches(number, "running")
            await control.call("POST", "/v1/nodes/n1/drain", json={"drain": True})
            await control.until(lambda: has_event(control, "cannot leave n1"))
            for _ in range(5):
                control.orchestrator.resources._notify_capacity()
                await control.until(lambda: _idle(control, number))
            assert sum("cannot leave n1" in text for text in await control.events()) == 1


@pytest.mark.parametrize("leave", ["drained", "lost"])
async def test_concurrent_moves_do_not_overfill_a_node(settings, leave):
    async with running(replace(settings, lost_after_s=60.0)) as control:
        n1, *others = (SimulatedNode(control, f"n{n}", labels={"replicas": "4" if n == 1 else "1"}) for n in range(1, 6))
        async with alive(n1):
            numbers = [await control.submit(f"job{n}", policy={"backoff_s": 0.0}) for n in range(4)]
            for number in numbers:
                await control.reaches(number, "running")
        async with alive(*others):
            if leave == "drained":
                await control.call("POST", "/v1/nodes/n1/drain", json={})
            else:
                control.orchestrator.resources.mark_lost(control.orchestrator.resources.nodes["n1"], "no beat")
            for number in numbers:
                await control.until(lambda number=number: incarnation_is(control, number, 2))
            assert [len(node.has) for node in others] == [1, 1, 1, 1]
            assert not any(control.orchestrator.placement._reserved.values())


async def test_capacities_are_computed_once_for_a_lost_node(settings, monkeypatch):
    looked = []
    rooms = PlacementManager.capacities
    monkeypatch.setattr(PlacementManager, "capacities", lambda placing: looked.append(1) or rooms(placing))

    async with running(settings) as control:
        n1, n2 = SimulatedNode(control, "n1"), SimulatedNode(control, "n2")
        async with alive(n1):
            number = await control.submit(pes={f"x{n}": {} for n in range(30)}, policy={"backoff_s": 30.0})
            await control.reaches(number, "running")
        await n2.register()
        looked.clear()
        control.orchestrator.resources.mark_lost(control.orchestrator.resources.nodes["n1"], "no beat")
        await control.until(lambda: _all_due(control, number))
    assert len(looked) < 5


async def _all_due(control, number):
    return all(replica.due_s is not None for replica in control.orchestrator.replicas.of(number))


async def _idle(control, number):
    return not control.orchestrator.jobs[number].queue and control.orchestrator.jobs[number].worker.done()
