"""Conditions that tests of the control plane wait for."""

from holdfast.control.storage.stored_jobs import all_placements

from .conftest import SimulatedNode


def nodes(control, *names):
    return [SimulatedNode(control, name) for name in names]


async def all_run(control, number):
    job = await control.job(number)
    return all(replica["state"] == "running" for task in job["tasks"] for replica in task["replicas"])


async def replica_is(control, number, task, state):
    job = await control.job(number)
    return job["tasks"][task]["replicas"][0]["state"] == state


async def all_acknowledged(node):
    return not node.unacknowledged


async def has_event(control, text):
    return any(text in event for event in await control.events())


async def lacks(node, key):
    return key not in node.has


async def is_empty(node):
    return not node.has


async def has_replicas(node, count):
    return len(node.has) == count


async def are_active(control, number, wanted):
    job = await control.job(number)
    return [replica["active"] for replica in job["tasks"][0]["replicas"]] == wanted


async def incarnation_is(control, number, wanted):
    job = await control.job(number)
    replica = job["tasks"][0]["replicas"][0]
    return replica["incarnation"] == wanted and replica["state"] == "running"


async def is_stored_as_abandoned(control, task, count=1):
    placements = await control.orchestrator.persistence.database.read(all_placements)
    return [each.abandoned for each in placements if each.task == task] == [True, False][:count]


async def is_stored_as_finished(control, task):
    placements = await control.orchestrator.persistence.database.read(all_placements)
    return [each.finished for each in placements if each.task == task] == [True]


async def exists(control, name):
    return any(job.name == name for job in control.orchestrator.jobs.values())


async def is_drained(control, name):
    nodes = (await control.call("GET", "/v1/nodes")).json()["nodes"]
    return [node["state"] for node in nodes if node["name"] == name] == ["drained"]


async def has_printed(control, text):
    return any(text in line for line in control.printed)
