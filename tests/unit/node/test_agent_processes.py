"""The prediction agents of a node as real processes: start, restart, change, stop, and adoption by the next controller."""

import asyncio
import os
import signal
import sys
import time

import pytest

from holdfast.node.agent_processes import AgentProcesses
from holdfast.node.host_health import AWAKE_S
from holdfast.node.pe_hosts import living_host
from holdfast.protocol.messages import AssignedAgent, Assignment

AGENT = """
import json, pathlib, sys, time
work = pathlib.Path(sys.argv[sys.argv.index("--work") + 1])
while True:
    told = json.loads((work / "assignment.json").read_text())
    about = {"revision": told["agents"][0].get("revision", 0), "jobs": list(told["jobs"])}
    (work / ".s").write_text(json.dumps({"pid": 1, "started_s": 0, "beat_s": time.time(), "ready": True, "about": about}))
    (work / ".s").replace(work / "host.json")
    time.sleep(0.02)
"""


def assignment(*tasks, revision=0):
    agents = tuple(AssignedAgent(job=1, task=task, revision=revision) for task in tasks)
    return Assignment(term=1, generation=1, agents=agents, jobs={1: {"job": {}}, 2: {"job": {}}})


@pytest.fixture
def play(tmp_path):
    """Run a scenario, which is an async function of a factory of agents, and end all processes after it."""

    def run(scenario):
        controllers = []

        def make(*, loads_s=0.0, monotonic=time.monotonic, **more):
            command = (sys.executable, "-c", f"import time; time.sleep({loads_s})\n{AGENT}")
            controllers.append(AgentProcesses(tmp_path, command, node="n1", log=lambda text: None, monotonic=monotonic, **more))
            return controllers[-1]

        async def scene():
            try:
                async with asyncio.timeout(120):
                    await scenario(make)
            finally:
                for agents in reversed(controllers):  # the first one last: the processes are its children
                    await agents.stop()

        asyncio.run(scene())
        assert pids(tmp_path) == {}

    return run


def pids(work):
    value = {folder.name: living_host(folder) for folder in (work / "agents").glob("*")}
    return {name: pid for name, pid in value.items() if pid is not None}


async def until(agents, condition):
    while True:
        agents.check()
        if value := condition():
            return value
        await asyncio.sleep(0.02)


def heard(agents, task):
    return next((s.status.about for s in agents.statuses() if s.key == f"1:{task}" and s.alive and s.status is not None), None)


def test_dead_agent_restarts_without_affecting_the_others(play, tmp_path):
    async def scenario(make):
        agents = make()
        agents.assign(assignment("a/0", "b/0"))
        about = await until(agents, lambda: heard(agents, "b/0") and heard(agents, "a/0"))
        assert about == {"revision": 0, "jobs": ["1"]}
        before = pids(tmp_path)
        assert sorted(before) == ["1-a%2F0", "1-b%2F0"]
        os.killpg(before["1-a%2F0"], signal.SIGKILL)
        await until(agents, lambda: pids(tmp_path).get("1-a%2F0") not in (None, before["1-a%2F0"]))
        assert pids(tmp_path)["1-b%2F0"] == before["1-b%2F0"]
        assert [status.starts for status in agents.statuses()] == [2, 1]

    play(scenario)


def test_hung_agent_is_killed_and_restarted(play, tmp_path):
    async def scenario(make):
        later_s = 0.0  # time flies while it is stopped: nobody else is silent for so long, however busy the machine
        agents = make(hung_after_s=30.0, monotonic=lambda: time.monotonic() + later_s)
        agents.assign(assignment("a/0"))
        await until(agents, lambda: heard(agents, "a/0"))
        (hung,) = pids(tmp_path).values()
        os.kill(hung, signal.SIGSTOP)

        def again():
            nonlocal later_s
            now = pids(tmp_path).get("1-a%2F0")
            later_s += AWAKE_S if now == hung else 0.0
            return now not in (None, hung) and heard(agents, "a/0")

        await until(agents, again)

    play(scenario)


def test_agent_without_a_first_beat_is_not_hung(play):
    async def scenario(make):
        agents = make(hung_after_s=0.2, loads_s=1.5)
        agents.assign(assignment("a/0"))
        await until(agents, lambda: heard(agents, "a/0"))
        assert [status.starts for status in agents.statuses()] == [1]

    play(scenario)


def test_agents_follow_a_changed_assignment(play, tmp_path):
    async def scenario(make):
        agents = make()
        agents.assign(assignment("a/0", "b/0"))
        await until(agents, lambda: heard(agents, "a/0") and heard(agents, "b/0"))
        agents.assign(assignment("a/0", revision=3))
        await until(agents, lambda: (heard(agents, "a/0") or {}).get("revision") == 3)
        await until(agents, lambda: sorted(pids(tmp_path)) == ["1-a%2F0"])

    play(scenario)


def test_next_controller_adopts_agents_and_stops_unassigned_ones(play, tmp_path):
    async def scenario(make):
        first = make()
        first.assign(assignment("a/0", "b/0"))
        await until(first, lambda: heard(first, "a/0") and heard(first, "b/0"))
        before = pids(tmp_path)
        second = make()
        second.assign(assignment("a/0"))
        second.adopt()
        await until(second, lambda: list(pids(tmp_path)) == ["1-a%2F0"])
        assert pids(tmp_path)["1-a%2F0"] == before["1-a%2F0"]

    play(scenario)
