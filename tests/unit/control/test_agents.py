"""The agent manager over the API: where agents are placed, what is seen of them, and what can be changed."""

import asyncio
import threading

from .conftest import PlayedNode, alive, running

JOB = {"contract": {"protection": "prediction", "deadline_s": 1.0}}


class Watching(PlayedNode):
    """A node that also has the agents it is assigned, and says of each what the test wants."""

    def __init__(self, control, name, **offer):
        super().__init__(control, name, **offer)
        self.about = {"state": "watching"}
        self.agents = []

    async def beat(self, **more):
        self.agents = [each.model_dump() for each in self.control.orchestrator.agents.at(self.name)]
        status = {"pid": 7, "started_s": 0, "beat_s": 0, "about": self.about}
        said = [
            {"key": f"{a['job']}:{a['task']}", "alive": True, "revision": a["revision"], "orders": a["orders"], "status": status}
            for a in self.agents
        ]
        return await super().beat(agents=said, **more)


def protected(control):
    """Let light PEs count as operators, which is what an agent watches."""
    for job in control.orchestrator.jobs.values():
        tasks = tuple(task.model_copy(update={"kind": "operators"}) for task in job.layout.tasks)
        job.layout = job.layout.model_copy(update={"tasks": tasks})


async def listed(control, number):
    answer = await control.call("GET", f"/v1/jobs/{number}/agents")
    assert answer.status_code == 200, answer.text
    return {agent["task"]: agent for agent in answer.json()["agents"]}


def scene(story, settings, names=("n1", "n2")):
    async def play():
        async with running(settings) as control:
            nodes = {name: Watching(control, name) for name in names}
            async with alive(*nodes.values()):
                number = await control.submit(pes={"x": {}, "y": {}}, **JOB)
                await control.reaches(number, "running")
                protected(control)

                async def heard():
                    found = await listed(control, number)
                    return len(found) == 2 and all(agent["alive"] for agent in found.values())

                await control.until(heard)
                await story(control, number, nodes)

    asyncio.run(play())


def test_every_agent_watches_from_another_node_than_its_task(settings):
    async def story(control, number, nodes):
        tasks = {task["task"]: task["replicas"][0]["node"] for task in (await control.job(number))["tasks"]}
        for task, agent in (await listed(control, number)).items():
            assert agent["node"] != tasks[task]
            assert agent["about"] == {"state": "watching"}

    scene(story, settings)


def test_with_one_node_an_agent_is_on_the_node_of_its_task(settings):
    async def story(control, number, nodes):
        assert {agent["node"] for agent in (await listed(control, number)).values()} == {"n1"}

    scene(story, settings, names=("n1",))


def test_a_change_reaches_the_agent_s_node_and_outlives_the_orchestrator_s_memory(settings):
    async def story(control, number, nodes):
        body = {"orders": {"deadline_s": 2.0}}
        answer = await control.call("POST", f"/v1/jobs/{number}/agents/x/0", json=body)
        assert answer.status_code == 202, answer.text
        node = nodes[answer.json()["node"]]

        async def told():
            return any(a["task"] == "x/0" and a["orders"] == {"deadline_s": 2.0} for a in node.agents)

        await control.until(told)
        kept, agents = node.agents, control.orchestrator.agents
        agents._agents.clear()
        said = [{"key": f"{a['job']}:{a['task']}", "alive": True, "revision": a["revision"], "orders": a["orders"]} for a in kept]
        await PlayedNode.beat(node, agents=said)

        async def again():
            found = await listed(control, number)
            agent = found.get("x/0", {"orders": {}})
            return agent["orders"] == {"deadline_s": 2.0} and (agent["revision"], agent["node"]) == (1, node.name)

        await control.until(again)

    scene(story, settings)


class Pondering:
    """A observer whose check of an order takes until the test lets it go on."""

    def __init__(self):
        self.checked, self.go_on = [], threading.Event()

    async def observe(self, view):
        return []

    def check_orders(self, view, task, orders):
        self.checked.append(dict(orders))
        assert self.go_on.wait(30)


def test_an_order_whose_check_takes_long_keeps_nobody_waiting_but_the_next_order_of_that_agent(settings):
    async def story(control, number, nodes):
        observer = Pondering()
        control.orchestrator.observers.set("light", observer)
        path = f"/v1/jobs/{number}/agents/x/0"
        orders = ({"deadline_s": 2.0}, {"lead_s": 0.1})
        asked = [asyncio.create_task(control.call("POST", path, json={"orders": each})) for each in orders]

        async def checks():
            return len(observer.checked) == 1

        await control.until(checks)
        assert (await listed(control, number))["x/0"]["orders"] == {}  # answered meanwhile
        observer.go_on.set()
        assert [answer.status_code for answer in await asyncio.gather(*asked)] == [202, 202]
        found = (await listed(control, number))["x/0"]
        assert (found["orders"], found["revision"]) == ({"deadline_s": 2.0, "lead_s": 0.1}, 2)
        assert observer.checked == [{"deadline_s": 2.0}, {"deadline_s": 2.0, "lead_s": 0.1}]

    scene(story, settings)


def test_an_order_for_an_agent_that_went_while_it_was_checked_is_told(settings):
    async def story(control, number, nodes):
        observer = Pondering()
        control.orchestrator.observers.set("light", observer)
        asked = asyncio.create_task(control.call("POST", f"/v1/jobs/{number}/agents/x/0", json={"orders": {"deadline_s": 2.0}}))

        async def checks():
            return bool(observer.checked)

        await control.until(checks)
        control.orchestrator.agents._agents.clear()
        observer.go_on.set()
        answer = await asked
        assert answer.status_code == 404
        assert answer.json()["error"] in (
            f"job {number} has no prediction agent for task 'x/0'; its agents watch: none",
            "the prediction agent of task 'x/0' was replaced meanwhile; change it again",
        )

    scene(story, settings)


def test_the_first_word_of_a_new_orchestrator_leaves_agents_where_and_as_they_are(settings):
    async def story(control, number, nodes):
        for task, lead_s in (("x/0", 0.1), ("y/0", 0.2)):
            orders = {"orders": {"lead_s": lead_s}}
            assert (await control.call("POST", f"/v1/jobs/{number}/agents/{task}", json=orders)).status_code == 202
        left.update((name, (node, control.orchestrator.agents.at(name))) for name, node in nodes.items())

    async def again():
        async with running(settings) as control:
            protected(control)
            for node, agents in left.values():
                node.control = control
                node.offer["agents"] = [{"key": a.key, "alive": True, "revision": a.revision, "orders": a.orders} for a in agents]
                await node.register()
            await control.orchestrator.recovered.wait()
            for name, (_, agents) in left.items():
                node = control.orchestrator.resources.nodes[name]
                assert control.orchestrator.dispatch.assignment(node).agents == agents

    left = {}
    scene(story, settings)
    assert {agent.revision for _, agents in left.values() for agent in agents} == {1}
    asyncio.run(again())


def test_what_is_null_takes_an_order_back(settings):
    async def story(control, number, nodes):
        for orders, left in (
            ({"deadline_s": 2.0, "lead_s": 0.1}, {"deadline_s": 2.0, "lead_s": 0.1}),
            ({"deadline_s": None}, {"lead_s": 0.1}),
        ):
            answer = await control.call("POST", f"/v1/jobs/{number}/agents/x/0", json={"orders": orders})
            assert (answer.status_code, answer.json()["orders"]) == (202, left)

    scene(story, settings)


def test_calls_about_agents_need_the_user_s_token_and_name_what_is_there(settings):
    async def story(control, number, nodes):
        body = {"orders": {"deadline_s": 2.0}}
        wrong = await control.call("POST", f"/v1/jobs/{number}/agents/x/0", token="node", json=body)
        assert wrong.status_code == 403
        missing = await control.call("POST", f"/v1/jobs/{number}/agents/z/0", json=body)
        assert missing.status_code == 404
        assert missing.json()["error"] == f"job {number} has no prediction agent for task 'z/0'; its agents watch: x/0, y/0"
        assert (await control.call("GET", "/v1/jobs/99/agents")).status_code == 404

    scene(story, settings)


def test_an_agent_that_cannot_protect_its_task_is_an_event_once(settings):
    async def story(control, number, nodes):
        for node in nodes.values():
            node.about = {"state": "broken", "problem": "the key names column 'rock', which does not exist"}

        async def told():
            return [text for text in await control.events() if "cannot predict" in text]

        async def both():
            return len(await told()) == 2

        await control.until(both)
        for node in nodes.values():
            await node.beat()
        said = "cannot predict it: the key names column 'rock', which does not exist"
        assert sorted(await told()) == [f"agent of x/0 {said}", f"agent of y/0 {said}"]
        events = (await control.call("GET", "/v1/events")).json()["events"]
        about = [event["data"] for event in events if "cannot predict" in event["text"]]
        assert {"task": "x/0", "problem": "the key names column 'rock', which does not exist"} in about

    scene(story, settings)


def test_agents_go_with_their_job(settings):
    async def story(control, number, nodes):
        await control.call("POST", f"/v1/jobs/{number}/cancel")
        await control.reaches(number, "canceled")

        async def gone():
            return not any(node.agents for node in nodes.values())

        await control.until(gone)

    scene(story, settings)
