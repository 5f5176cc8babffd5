"""Nodes: registration, beats, loss, return and draining."""

import asyncio
from contextlib import nullcontext
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.control.nodes import resource_manager
from holdfast.control.nodes.resource_manager import FORGOTTEN_S, MAX_NODES, REGISTRATION_BURST, WakingTime, beat_every_s

from ..conditions import has_event, has_replicas, is_drained, is_empty, nodes
from ..conftest import SimulatedNode, alive, cluster, running


@given(st.lists(st.floats(0.0, 100.0), max_size=20))
def test_waking_time_is_at_most_twice_the_planned_time(late):
    time = WakingTime(last_s=0.0)
    now_s = 0.0
    for each in late:
        before = time.at(now_s)
        now_s += 0.25 + each
        assert time.tick(now_s, planned_s=0.25) - before <= 0.5 + 1e-9


def test_all_nodes_together_beat_at_most_hundred_times_a_second():
    for count in (1, 50, 90, 1000, 5000):
        assert count / beat_every_s(count, least_s=0.5) <= 100


async def test_node_with_a_later_term_is_refused_and_reported_once(settings):
    async with running(settings) as control:
        await control.orchestrator.recovered.wait()
        ahead = SimulatedNode(control, "n1", heard=4)
        for _ in range(2):
            answer = await ahead.register()
            assert answer.status_code == 409
        text = answer.json()["error"]
        assert text == (
            "node 'n1' has heard from an orchestrator of term 4, and this one is of term 1: use that one; "
            "or, if the database is a restored backup, start this one with --restored; or, if the database is a new one, "
            "give the node a new --work"
        )
        assert (await control.call("GET", "/v1/nodes")).json()["nodes"] == []
        assert (await control.events()).count(text) == control.printed.count(text) == 1
        async with alive(SimulatedNode(control, "n1", heard=1)):
            await control.reaches(await control.submit(), "running")


async def test_second_controller_of_a_name_is_refused(settings):
    async with running(settings) as control:
        await control.orchestrator.recovered.wait()
        first, second = (SimulatedNode(control, "n1", controller=controller) for controller in ("a", "b"))
        async with alive(first):
            answer = await second.register()
            assert (answer.status_code, answer.json()["error"]) == (
                409,
                "node 'n1' is already up, run by another controller; give this one another --name, or wait until that one is lost",
            )
            second.term = first.term
            assert (await second.beat()).status_code == 409
            assert (await control.call("GET", "/v1/nodes/n1/assignment?controller=b", token="node")).status_code == 409
            assert (await first.register()).status_code == 200, "its own restart"
        node = control.orchestrator.resources.nodes["n1"]
        control.orchestrator.resources.mark_lost(node, "no beat")
        assert (await second.register()).status_code == 200
        assert (await first.beat()).status_code == 409


async def test_registration_includes_the_pe_host(settings):
    async with running(settings) as control:
        await control.orchestrator.recovered.wait()
        await SimulatedNode(control, "n1", process={"pid": 7, "started_s": 1.0, "beat_s": 2.0, "ready": True}).register()
        (node,) = (await control.call("GET", "/v1/nodes")).json()["nodes"]
        assert (node["host_status"]["pid"], node["host_status"]["ready"]) == (7, True)


async def test_lost_nodes_are_forgotten_unless_they_have_replicas(settings):
    async def _left(resources, control):
        return set(resources.nodes) == {replica.node for replica in control.orchestrator.replicas}

    async with running(settings) as control:
        await control.orchestrator.recovered.wait()
        resources = control.orchestrator.resources
        for number in range(300):
            await SimulatedNode(control, f"gone{number}", labels={"replicas": "0"}).register()
        assert resources.every_s == 3.0
        keeper = SimulatedNode(control, "keeper")
        async with alive(keeper):
            number = await control.submit("a")
            await control.reaches(number, "running")
        for node in list(resources.nodes.values()):
            resources.mark_lost(node, "no beat")
            node.last_beat_s -= 2 * FORGOTTEN_S
        assert resources.every_s == settings.beat_s
        await control.until(lambda: _left(resources, control))


async def test_node_with_a_long_beat_interval_is_not_lost(settings):
    async def _are_lost(lost):
        return all(node.state == "lost" for node in lost)

    async with running(settings) as control:
        await control.orchestrator.recovered.wait()
        resources = control.orchestrator.resources
        for number in range(200):
            await SimulatedNode(control, f"n{number:03}").register()
        slow, quick, *others = reversed(resources.nodes.values())
        assert resources.every_s == 2.0
        for node in others:
            node.last_beat_s -= 30.0
        slow.last_beat_s -= 5.0
        await control.until(lambda: _are_lost(others))
        assert resources.every_s == settings.beat_s
        (await SimulatedNode(control, quick.name).beat(term=1)).raise_for_status()
        quick.last_beat_s -= 5.0
        await control.until(lambda: _are_lost([quick]))
        assert slow.state == "up"


async def test_forgotten_node_gets_replicas_when_it_returns(settings):
    async def _is_forgotten(resources, name):
        return name not in resources.nodes

    async with running(settings) as control:
        (n1,) = nodes(control, "n1")
        resources = control.orchestrator.resources
        async with alive(n1):
            for name in ("a", "b"):
                number = await control.submit(name)
                await control.reaches(number, "running")
                await control.call("POST", f"/v1/jobs/{number}/cancel")
                await control.reaches(number, "canceled")
        resources.mark_lost(resources.nodes["n1"], "no beat")
        resources.nodes["n1"].last_beat_s -= 2 * FORGOTTEN_S
        await control.until(lambda: _is_forgotten(resources, "n1"))
        async with alive(n1):
            await control.reaches(await control.submit("c"), "running")


async def test_registrations_are_limited(settings, monkeypatch):
    monkeypatch.setattr("holdfast.control.api.routes.REGISTRATIONS_PER_S", 0.0)
    async with running(settings) as control:
        await control.orchestrator.recovered.wait()
        n1, n2 = SimulatedNode(control, "n1"), SimulatedNode(control, "n2")
        answers = [(await n1.register()).status_code for _ in range(int(REGISTRATION_BURST) + 10)]
        assert answers[:10] == [200] * 10
        assert answers[-1] == 429
        assert (await n2.register()).status_code == 200
        nodes = control.orchestrator.resources.nodes
        nodes.update({f"more{n}": nodes["n2"] for n in range(MAX_NODES)})
        answer = await SimulatedNode(control, "n3").register()
        assert (answer.status_code, "there are 10000 nodes already" in answer.text) == (422, True)


@pytest.mark.parametrize("host", [None, {"pid": 1, "started_s": 0, "beat_s": 0}], ids=["dead", "not ready"])
async def test_job_is_canceled_though_no_pe_host_starts(settings, host):
    async with running(settings) as control:
        n1 = SimulatedNode(control, "n1")
        async with alive(n1):
            number = await control.submit()
            await control.reaches(number, "running")
        await control.call("POST", f"/v1/jobs/{number}/cancel")
        await control.reaches(number, "canceling")
    async with running(settings) as control:
        new = SimulatedNode(control, "n1", controller="another")
        await new.register()
        await control.orchestrator.recovered.wait()
        await new.fetch()
        await new.beat(host=host, unhosted=new.generation - 1)
        assert (await control.job(number))["state"] == "canceling", "an earlier assignment confirms nothing"
        assert (await new.beat(host=host, unhosted=new.generation)).status_code == 200
        await control.reaches(number, "canceled")
        assert control.orchestrator.resources.nodes["n1"].state == "up", "it was not by its being lost"


async def test_drained_node_stays_empty_after_a_restart(settings):
    async with cluster(settings, "n1", "n2") as (control, n1, n2):
        number = await control.submit(pes={"x": {}, "y": {}})
        await control.reaches(number, "running")
        assert (await control.call("POST", "/v1/nodes/n1/drain", json={})).status_code == 202
        await control.until(lambda: is_empty(n1))
        await control.until(lambda: has_replicas(n2, 2))
    async with running(settings) as control:
        n1.control = n2.control = control
        async with alive(n1, n2):
            states = {node["name"]: node["state"] for node in (await control.call("GET", "/v1/nodes")).json()["nodes"]}
            assert states == {"n1": "drained", "n2": "up"}
            wrong = await control.call("POST", "/v1/nodes/n9/drain", json={})
            assert (wrong.status_code, wrong.json()["error"]) == (404, "node 'n9' does not exist; nodes are: n1, n2")
    async with running(settings) as control:
        n2.control = control
        async with alive(n2):
            await control.orchestrator.recovered.wait()
            states = {node["name"]: node["state"] for node in (await control.call("GET", "/v1/nodes")).json()["nodes"]}
            assert states == {"n1": "lost", "n2": "up"}
            assert (await control.call("POST", "/v1/nodes/n1/drain", json={"drain": False})).status_code == 202
            n1.control = control
            assert (await n1.register()).status_code == 200
            states = {node["name"]: node["state"] for node in (await control.call("GET", "/v1/nodes")).json()["nodes"]}
            assert states == {"n1": "up", "n2": "up"}


async def test_node_with_only_ended_replicas_is_drained(settings):
    async with cluster(settings, "n1", "n2") as (control, n1, _):
        number = await control.submit(
            pes={"x": {"replicas": 2}, "y": {"replicas": 2}, "z": {}}, policy={"restart": "never", "give_up_after": 1}
        )
        await control.reaches(number, "running")
        n1.report(f"{number}:x/0.0" if f"{number}:x/0.0" in n1.has else f"{number}:x/0.1", "failed", "boom")
        n1.report(f"{number}:y/0.0" if f"{number}:y/0.0" in n1.has else f"{number}:y/0.1", "finished")
        await control.call("POST", "/v1/nodes/n1/drain", json={})
        await control.until(lambda: is_drained(control, "n1"))


async def test_node_whose_processes_die_together_is_lost_at_once(settings):
    async with running(replace(settings, lost_after_s=600.0)) as control:
        (n1,) = nodes(control, "n1")
        await n1.register()
        resources = control.orchestrator.resources
        with resources.presence("n1", "controller"), resources.presence("n1", "host"):
            pass
        await control.until(lambda: has_event(control, "node n1 is lost: its processes closed their connections"))


@pytest.mark.parametrize("sign", ["beat", "registration", "host", "controller", "later"])
async def test_node_that_gives_a_sign_of_life_is_not_lost(settings, monkeypatch, sign):
    monkeypatch.setattr(resource_manager, "CONFIRM_S", 0.1)
    monkeypatch.setattr(resource_manager, "TOGETHER_S", 0.1)
    async with running(replace(settings, lost_after_s=600.0)) as control:
        (n1,) = nodes(control, "n1")
        await n1.register()
        resources = control.orchestrator.resources
        with resources.presence("n1", "controller"):
            with resources.presence("n1", "host"):
                pass
            if sign == "later":
                await asyncio.sleep(0.2)
        if sign == "beat":
            await n1.beat()
        elif sign == "registration":
            await n1.register()
        with resources.presence("n1", sign) if sign in ("host", "controller") else nullcontext():
            await asyncio.sleep(0.3)
            assert resources.nodes["n1"].state == "up"
