"""What tests of the control plane wait for."""

from holdfast.control.storage.stored_jobs import all_placements

from .conftest import PlayedNode


def nodes(control, *names):
    return [PlayedNode(control, name) for name in names]


async def agree(control, number):
    story = await control.job(number)
    return all(replica["state"] == "running" for task in story["tasks"] for replica in task["replicas"])


async def replica_is(control, number, task, state):
    story = await control.job(number)
    return story["tasks"][task]["replicas"][0]["state"] == state


async def acknowledged(node):
    return not node.unacknowledged


async def told(control, text):
    return any(text in told for told in await control.events())


async def without(node, key):
    return key not in node.has


async def is_empty(node):
    return not node.has


async def has(node, count):
    return len(node.has) == count


async def are_active(control, number, wanted):
    story = await control.job(number)
    return [replica["active"] for replica in story["tasks"][0]["replicas"]] == wanted


async def incarnation_is(control, number, wanted):
    story = await control.job(number)
    replica = story["tasks"][0]["replicas"][0]
    return replica["incarnation"] == wanted and replica["state"] == "running"


async def kept_as_abandoned(control, task, count=1):
    placed = await control.orchestrator.persistence.database.read(all_placements)
    return [each.abandoned for each in placed if each.task == task] == [True, False][:count]


async def kept_as_finished(control, task):
    placed = await control.orchestrator.persistence.database.read(all_placements)
    return [each.finished for each in placed if each.task == task] == [True]


async def is_there(control, name):
    return any(job.name == name for job in control.orchestrator.jobs.values())


async def is_drained(control, name):
    nodes = (await control.call("GET", "/v1/nodes")).json()["nodes"]
    return [node["state"] for node in nodes if node["name"] == name] == ["drained"]


async def said(control, text):
    return any(text in said for said in control.said)
