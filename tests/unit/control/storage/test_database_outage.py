"""An orchestrator whose database is unreachable: writes wait, and nothing stops."""

import asyncio
from dataclasses import replace

from holdfast.control.observers.job_observers import Activate

from ..conditions import are_active, exists, is_drained, nodes
from ..conftest import cluster, running

TWICE = {"x": {"replicas": 2, "makes": ["s"]}, "y": {"reads": ["s"]}}


async def test_later_term_during_an_outage_stops_nothing(settings):
    async with running(settings) as control:
        control.orchestrator.persistence.database.simulate_outage(0.3)
        for name in ("n1", "n2"):
            answer = await control.call("POST", f"/v1/nodes/{name}/beat", token="node", json={"term": 99})
            assert answer.status_code == 409
        await control.submit()  # waits for the database
        assert not control.orchestrator.stopping
        assert not any("99" in text for text in control.printed)


async def test_call_during_an_outage_gets_503_and_is_carried_out_later(settings, monkeypatch):
    monkeypatch.setattr("holdfast.control.api.routes.DONE_S", 0.1)
    async with running(replace(settings, lost_after_s=60.0, capacity_wait_s=60.0)) as control:
        (n1,) = nodes(control, "n1")
        await n1.register()
        control.orchestrator.persistence.database.simulate_outage(1.0)
        job = {"job": "a", "host_kind": "light", "pes": {"x": {}}}
        for path, asked in (("/v1/jobs", job), ("/v1/nodes/n1/drain", {})):
            answer = await control.call("POST", path, json=asked)
            assert answer.status_code == 503
            assert answer.json()["error"].startswith("the database does not answer; the call is carried out")
        await control.until(lambda: exists(control, "a"))
        await control.until(lambda: is_drained(control, "n1"))


async def test_repeated_decision_during_an_outage_is_queued_once(settings):
    class Observer:
        async def observe(self, view):
            return [Activate("x/0", (1,))]

    async with cluster(settings, "n1", "n2") as (control, *_):
        number = await control.submit(pes=TWICE)
        await control.reaches(number, "running")
        job, observers = control.orchestrator.jobs[number], control.orchestrator.observers
        control.orchestrator.persistence.database.simulate_outage(1.0)
        for _ in range(20):
            await observers._show(job, Observer())
            await asyncio.sleep(0.005)
        assert sum(event.name == "activate" for event in job.queue) <= 1
        await control.until(lambda: are_active(control, number, [False, True]))
