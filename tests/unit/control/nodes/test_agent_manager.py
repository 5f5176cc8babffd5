"""The agent manager over the API: the placement, the status and the orders of agents."""

import asyncio
import threading
from contextlib import asynccontextmanager

from ..conftest import SimulatedNode, alive, running

JOB = {"contract": {"protection": "prediction", "deadline_s": 1.0}}


class Watching(SimulatedNode):
    """A simulated node that also runs its assigned agents and reports `about` for each."""

    def __init__(self, control, name, **offer):
        super().__init__(control, name, **offer)
        self.about = {"state": "watching"}
        self.agents = []

    async def beat(self, **more):
        self.agents = [each.model_dump() for each in self.control.orchestrator.agents.at(self.name)]
        status = {"pid": 7, "started_s": 0, "beat_s": 0, "about": self.about}
        statuses = [
            {"key": f"{a['job']}:{a['task']}", "alive": True, "revision": a["revision"], "orders": a["orders"], "status": status}
            for a in self.agents
        ]
        return await super().beat(agents=statuses, **more)


def protected(control):
    """Let light PEs count as operators, which is what an agent watches."""
    for job in control.orchestrator.jobs.values():
        tasks = tuple(task.model_copy(update={"kind": "operators"}) for task in job.layout.tasks)
        job.layout = job.layout.model_copy(update={"tasks": tasks})


async def listed(control, number):
    answer = await control.call("GET", f"/v1/jobs/{number}/agents")
    assert answer.status_code == 200, answer.text
    return {agent["task"]: agent for agent in answer.json()["agents"]}


@asynccontextmanager
async def watched_job(settings, names=("n1", "n2")):
    """Run a job with two protected tasks; yield when the agents of both are alive."""
    async with running(settings) as control:
        nodes = {name: Watching(control, name) for name in names}
        async with alive(*nodes.values()):
            number = await control.submit(pes={"x": {}, "y": {}}, **JOB)
            await control.reaches(number, "running")
            protected(control)

            async def agents_are_alive():
                agents = await listed(control, number)
                return len(agents) == 2 and all(agent["alive"] for agent in agents.values())

            await control.until(agents_are_alive)
            yield control, number, nodes


async def test_agent_runs_on_another_node_than_its_task(settings):
    async with watched_job(settings) as (control, number, _):
        tasks = {task["task"]: task["replicas"][0]["node"] for task in (await control.job(number))["tasks"]}
        for task, agent in (await listed(control, number)).items():
            assert agent["node"] != tasks[task]
            assert agent["about"] == {"state": "watching"}


async def test_agent_shares_the_only_node_with_its_task(settings):
    async with watched_job(settings, names=("n1",)) as (control, number, _):
        assert {agent["node"] for agent in (await listed(control, number)).values()} == {"n1"}


async def test_agent_change_survives_a_new_orchestrator(settings):
    async with watched_job(settings) as (control, number, nodes):
        body = {"orders": {"deadline_s": 2.0}}
        answer = await control.call("POST", f"/v1/jobs/{number}/agents/x/0", json=body)
        assert answer.status_code == 202, answer.text
        node = nodes[answer.json()["node"]]

        async def orders_arrived():
            return any(a["task"] == "x/0" and a["orders"] == {"deadline_s": 2.0} for a in node.agents)

        await control.until(orders_arrived)
        sent, agents = node.agents, control.orchestrator.agents
        agents._agents.clear()
        statuses = [
            {"key": f"{a['job']}:{a['task']}", "alive": True, "revision": a["revision"], "orders": a["orders"]} for a in sent
        ]
        await SimulatedNode.beat(node, agents=statuses)

        async def again():
            agents = await listed(control, number)
            agent = agents.get("x/0", {"orders": {}})
            return agent["orders"] == {"deadline_s": 2.0} and (agent["revision"], agent["node"]) == (1, node.name)

        await control.until(again)


class Pondering:
    """An observer whose check of an order waits until the test sets `go_on`."""

    def __init__(self):
        self.checked, self.go_on = [], threading.Event()

    async def observe(self, view):
        return []

    def check_orders(self, view, task, orders):
        self.checked.append(dict(orders))
        assert self.go_on.wait(30)


async def test_slow_order_check_delays_only_orders_of_that_agent(settings):
    async with watched_job(settings) as (control, number, _):
        observer = Pondering()
        control.orchestrator.observers.set("light", observer)
        path = f"/v1/jobs/{number}/agents/x/0"
        orders = ({"deadline_s": 2.0}, {"lead_s": 0.1})
        requests = [asyncio.create_task(control.call("POST", path, json={"orders": each})) for each in orders]

        async def checks():
            return len(observer.checked) == 1

        await control.until(checks)
        assert (await listed(control, number))["x/0"]["orders"] == {}  # answered meanwhile
        observer.go_on.set()
        assert [answer.status_code for answer in await asyncio.gather(*requests)] == [202, 202]
        agent = (await listed(control, number))["x/0"]
        assert (agent["orders"], agent["revision"]) == ({"deadline_s": 2.0, "lead_s": 0.1}, 2)
        assert observer.checked == [{"deadline_s": 2.0}, {"deadline_s": 2.0, "lead_s": 0.1}]


async def test_order_for_a_replaced_agent_is_refused(settings):
    async with watched_job(settings) as (control, number, _):
        observer = Pondering()
        control.orchestrator.observers.set("light", observer)
        requests = asyncio.create_task(control.call("POST", f"/v1/jobs/{number}/agents/x/0", json={"orders": {"deadline_s": 2.0}}))

        async def checks():
            return bool(observer.checked)

        await control.until(checks)
        control.orchestrator.agents._agents.clear()
        observer.go_on.set()
        answer = await requests
        assert answer.status_code == 404
        assert answer.json()["error"] in (
            f"job {number} has no prediction agent for task 'x/0'; its agents watch: none",
            "the prediction agent of task 'x/0' was replaced meanwhile; change it again",
        )


async def test_new_orchestrator_keeps_agents_and_their_orders(settings):
    async with watched_job(settings) as (control, number, nodes):
        for task, lead_s in (("x/0", 0.1), ("y/0", 0.2)):
            orders = {"orders": {"lead_s": lead_s}}
            assert (await control.call("POST", f"/v1/jobs/{number}/agents/{task}", json=orders)).status_code == 202
        assigned = {name: (node, control.orchestrator.agents.at(name)) for name, node in nodes.items()}
    assert {agent.revision for _, agents in assigned.values() for agent in agents} == {1}
    async with running(settings) as control:
        protected(control)
        for node, agents in assigned.values():
            node.control = control
            node.offer["agents"] = [{"key": a.key, "alive": True, "revision": a.revision, "orders": a.orders} for a in agents]
            await node.register()
        await control.orchestrator.recovered.wait()
        for name, (_, agents) in assigned.items():
            node = control.orchestrator.resources.nodes[name]
            assert control.orchestrator.dispatch.assignment(node).agents == agents


async def test_null_withdraws_an_order(settings):
    async with watched_job(settings) as (control, number, _):
        for orders, remaining in (
            ({"deadline_s": 2.0, "lead_s": 0.1}, {"deadline_s": 2.0, "lead_s": 0.1}),
            ({"deadline_s": None}, {"lead_s": 0.1}),
        ):
            answer = await control.call("POST", f"/v1/jobs/{number}/agents/x/0", json={"orders": orders})
            assert (answer.status_code, answer.json()["orders"]) == (202, remaining)


async def test_agent_calls_require_user_token_and_existing_agents(settings):
    async with watched_job(settings) as (control, number, _):
        body = {"orders": {"deadline_s": 2.0}}
        wrong = await control.call("POST", f"/v1/jobs/{number}/agents/x/0", token="node", json=body)
        assert wrong.status_code == 403
        missing = await control.call("POST", f"/v1/jobs/{number}/agents/z/0", json=body)
        assert missing.status_code == 404
        assert missing.json()["error"] == f"job {number} has no prediction agent for task 'z/0'; its agents watch: x/0, y/0"
        assert (await control.call("GET", "/v1/jobs/99/agents")).status_code == 404


async def test_agent_error_is_reported_once(settings):
    async with watched_job(settings) as (control, _, nodes):
        for node in nodes.values():
            node.about = {"state": "broken", "error": "the key names column 'rock', which does not exist"}

        async def error_events():
            return [text for text in await control.events() if "cannot predict" in text]

        async def both():
            return len(await error_events()) == 2

        await control.until(both)
        for node in nodes.values():
            await node.beat()
        error = "cannot predict it: the key names column 'rock', which does not exist"
        assert sorted(await error_events()) == [f"agent of x/0 {error}", f"agent of y/0 {error}"]
        events = (await control.call("GET", "/v1/events")).json()["events"]
        about = [event["data"] for event in events if "cannot predict" in event["text"]]
        assert {"task": "x/0", "error": "the key names column 'rock', which does not exist"} in about


async def test_agents_end_with_their_job(settings):
    async with watched_job(settings) as (control, number, nodes):
        await control.call("POST", f"/v1/jobs/{number}/cancel")
        await control.reaches(number, "canceled")

        async def gone():
            return not any(node.agents for node in nodes.values())

        await control.until(gone)
