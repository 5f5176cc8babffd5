"""Messages that arrive late, twice, or from another version: an older one never overwrites newer state."""

import pytest

from holdfast.control.storage.stored_jobs import all_placements
from holdfast.protocol.messages import Assignment, Beat, BeatAnswer, HostStatus, Registration, RegistrationAnswer

from ..conditions import nodes
from ..conftest import SimulatedNode, alive, running

NEWER = {"a_field_of_a_later_version": {"any": [1]}}


async def states(control, number):
    return [replica["state"] for task in (await control.job(number))["tasks"] for replica in task["replicas"]]


@pytest.mark.parametrize("restarted", [False, True])
async def test_reports_that_a_registration_includes_change_nothing(settings, restarted):
    """The node registers again before its reports are acknowledged, with the same orchestrator or with the next one."""
    async with running(settings) as control:
        (node,) = nodes(control, "n1")
        node.state_of = lambda key: "starting"
        async with alive(node):
            number = await control.submit(pes={"x": {}})
            await control.until(lambda: node_has_started(node))
        node.report(next(iter(node.has)), "running")
        sent = list(node.unacknowledged)
        assert (await node.beat()).status_code == 200
        if not restarted:
            await replay(control, node, number, sent)
    if restarted:
        async with running(settings) as control:
            node.control = control
            await replay(control, node, number, sent)


async def node_has_started(node):
    return bool(node.has) and not node.unacknowledged


async def replay(control, node, number, sent):
    node.offer["reported"] = node.number
    assert (await node.register()).status_code == 200
    await control.orchestrator.recovered.wait()
    assert control.orchestrator.resources.nodes["n1"].acknowledged == node.number
    seen = control.orchestrator.events.last
    node.unacknowledged = [{**sent[0], "number": 1, "state": "starting"}, *sent]
    assert (await node.beat()).status_code == 200
    assert await states(control, number) == ["running"]
    assert [event.text for event in control.orchestrator.events.after(seen) if event.kind == "replica"] == []


async def test_start_that_is_reported_late_does_not_hide_that_the_replica_runs(settings):
    async with running(settings) as control:
        await control.orchestrator.recovered.wait()
        (node,) = nodes(control, "n1")
        async with alive(node):
            number = await control.submit(pes={"x": {}})
            await control.reaches(number, "running")
        node.report(next(iter(node.has)), "starting")
        node.has[next(iter(node.has))]["state"] = "running"
        await node.beat(host=None)
        assert await states(control, number) == ["running"]


async def test_beat_of_an_earlier_registration_is_refused(settings):
    async with running(settings) as control:
        await control.orchestrator.recovered.wait()
        (node,) = nodes(control, "n1")
        first = (await node.register()).json()["generation"]
        second = (await node.register()).json()["generation"]
        assert (await node.beat(registration=first)).status_code == 409
        assert (await node.beat(registration=second)).status_code == 200


async def test_registration_is_answered_after_the_end_of_a_replica_is_stored(settings):
    async with running(settings) as control:
        (node,) = nodes(control, "n1")
        async with alive(node):
            number = await control.submit(pes={"x": {}, "y": {}})
            await control.reaches(number, "running")
    async with running(settings) as control:
        again = SimulatedNode(control, "n1", reported=node.number + 1)
        again.has = {key: {**replica, "state": "finished" if ":x/" in key else "running"} for key, replica in node.has.items()}
        assert (await again.register()).status_code == 200
        placements = await control.orchestrator.persistence.database.read(all_placements)
        assert [placed.finished for placed in placements] == [True, False]


@pytest.mark.parametrize(
    ("model", "document"),
    [
        (Registration, {"name": "n1", "cores": 1.0, "memory_bytes": 1}),
        (RegistrationAnswer, {"term": 1, "generation": 1, "every_s": 1.0, "acknowledged": 0}),
        (Beat, {"term": 1, "reports": [{"number": 1, "at_s": 0, "key": "k", "incarnation": 1, "state": "running", **NEWER}]}),
        (BeatAnswer, {"term": 1, "acknowledged": 1, "generation": 1}),
        (Assignment, {"replicas": [{"job": 1, "pe": "x", "task": 0, "replica": 0, **NEWER}]}),
        (
            HostStatus,
            {"pid": 1, "started_s": 0, "beat_s": 0, "replicas": [{"key": "k", "incarnation": 1, "state": "idle", **NEWER}]},
        ),
    ],
)
def test_fields_of_a_later_version_are_ignored(model, document):
    assert model.model_validate({**document, **NEWER}) == model.model_validate(document)


async def test_node_of_an_unsupported_version_is_refused_with_what_to_do(settings):
    async with running(settings) as control:
        await control.orchestrator.recovered.wait()
        answer = await SimulatedNode(control, "n1", protocol=0, **NEWER).register()
        assert answer.status_code == 422
        assert answer.json()["error"] == (
            "node 'n1' speaks version 0 of the protocol, and this orchestrator wants at least 1; update the node"
        )
