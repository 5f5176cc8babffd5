"""A canceled job keeps its name and its log until every replica has stopped, or is fenced off by the log."""

import pytest

from holdfast.control.recovery import log_fences
from holdfast.documents.job import Layout, Task
from holdfast.errors import FencedOffError, LogError
from holdfast.log import EpochLog, Quality, Record, Store
from holdfast.log.timeline import Timeline, agree_on_timeline

from ..conditions import has_event, incarnation_is, is_empty, lacks
from ..conftest import alive, cluster, running

TASKS = (Task(pe="src", kind="source", makes=("src",)), Task(pe="out", kind="sink"))


@pytest.fixture
def job(tmp_path, monkeypatch):
    """Return the fields of a job that writes a log; its application is not parsed."""

    async def layout(document, **options):
        return Layout(application="app", tasks=TASKS)

    monkeypatch.setattr("holdfast.control.jobs.parser.run_parser", layout)
    (tmp_path / "app.py").write_text("")
    return {"application": str(tmp_path / "app.py"), "log": str(tmp_path / "log"), "pes": None}


def record(epoch, by):
    return Record("src", 0, epoch, Quality.EXACT, (), 0, None, None, by, by)


async def submit_spark(control, name, job):
    fields = {name: value for name, value in job.items() if value is not None}
    answer = await control.call("POST", "/v1/jobs", json={"job": name, **fields})
    return answer.json().get("id"), answer


async def cancel(control, number):
    assert (await control.call("POST", f"/v1/jobs/{number}/cancel", json={})).status_code == 202


def lose(control, name):
    control.orchestrator.resources.mark_lost(control.orchestrator.resources.nodes[name], "it is silent")


async def test_canceled_job_is_fenced_off_while_its_node_is_silent(settings, job):
    async with running(settings) as control:
        nodes = [node async for node in spark_nodes(control, "n1")]
        async with alive(*nodes):
            number, _ = await submit_spark(control, "a", job)
            await control.reaches(number, "running")
            owner = control.orchestrator.jobs[number].log_owner
            assert control.orchestrator.dispatch.settings_of(number)["owner"] == owner
        zombie = EpochLog(Store(job["log"], owner=owner))
        agree_on_timeline(Store(job["log"]), Timeline(first=0, last=None, epoch_s=1.0, opened_s=0.0))
        zombie.offer(record(0, "zombie"))
        lose(control, "n1")
        await cancel(control, number)
        await control.reaches(number, "canceled")
        assert await has_event(control, "its PEs on n1 may still run: its log takes nothing more from them")
        with pytest.raises(FencedOffError):
            zombie.offer(record(1, "zombie"))
        async with alive(*[node async for node in spark_nodes(control, "n2")]):
            again, answer = await submit_spark(control, "a", job)
            assert answer.status_code == 201
            await control.reaches(again, "running")
            next_owner = control.orchestrator.jobs[again].log_owner
            assert EpochLog(Store(job["log"], owner=next_owner)).offer(record(1, "next")).accepted_as == "first"


async def spark_nodes(control, *names):
    from ..conftest import SimulatedNode

    await control.orchestrator.recovered.wait()
    for name in names:
        yield SimulatedNode(control, name, host_kind="spark")


async def test_job_whose_log_cannot_be_fenced_waits_for_its_node(settings, job, monkeypatch):
    def unreachable(*about):
        raise LogError("the log at 'x' cannot be written: no route to host")

    monkeypatch.setattr(log_fences, "fence_off", unreachable)
    async with running(settings) as control:
        (node,) = [node async for node in spark_nodes(control, "n1")]
        async with alive(node):
            number, _ = await submit_spark(control, "a", job)
            await control.reaches(number, "running")
        lose(control, "n1")
        await cancel(control, number)
        await control.until(lambda: has_event(control, "waits until its PEs on n1 have stopped, because its log cannot be fenced"))
        assert (await control.job(number))["state"] == "canceling"
        _, same_name = await submit_spark(control, "a", job)
        _, same_log = await submit_spark(control, "b", job)
        assert [same_name.status_code, same_log.status_code] == [409, 409]
        async with alive(node):
            await control.reaches(number, "canceled")
            await control.until(lambda: is_empty(node))


@pytest.mark.parametrize("restarted", [False, True])
async def test_earlier_incarnation_on_a_silent_node_is_fenced_off(settings, job, monkeypatch, restarted):
    """The replica was restarted elsewhere and stops there; its first incarnation may still run, also for the next orchestrator."""
    fenced = []
    monkeypatch.setattr(log_fences, "fence_off", lambda store, owner, tasks: fenced.append(owner))
    async with running(settings) as control:
        first, second = [node async for node in spark_nodes(control, "n1", "n2")]
        async with alive(first):
            number, _ = await submit_spark(control, "a", {**job, "policy": {"backoff_s": 0.01}})
            await control.reaches(number, "running")
        owner = control.orchestrator.jobs[number].log_owner
        async with alive(second):
            lose(control, "n1")
            await control.until(lambda: incarnation_is(control, number, 2))
            if not restarted:
                await cancel(control, number)
                await control.reaches(number, "canceled")
                assert fenced == [owner]
    if restarted:
        async with running(settings) as control:
            second.control = control
            async with alive(second):
                await control.orchestrator.recovered.wait()
                await cancel(control, number)
                await control.reaches(number, "canceled")
                assert fenced == [owner]


async def test_log_is_not_fenced_if_every_node_confirms_the_stop(settings, job, monkeypatch):
    monkeypatch.setattr(log_fences, "fence_off", lambda *about: pytest.fail("no node is silent"))
    async with running(settings) as control:
        first, second = [node async for node in spark_nodes(control, "n1", "n2")]
        async with alive(first, second):
            number, _ = await submit_spark(control, "a", {**job, "policy": {"backoff_s": 0.01}})
            await control.reaches(number, "running")
            node, key = next((node, f"{number}:src/0.0") for node in (first, second) if f"{number}:src/0.0" in node.has)
            node.report(key, "failed", "boom")
            await control.until(lambda: lacks(node, key))
            await control.until(lambda: incarnation_is(control, number, 2))
            await cancel(control, number)
            await control.reaches(number, "canceled")


async def test_light_job_without_a_log_does_not_wait_for_a_silent_node(settings):
    async with cluster(settings, "n1") as (control, _):
        number = await control.submit(policy={"restart": "here"})
        await control.reaches(number, "running")
        lose(control, "n1")
        await cancel(control, number)
        await control.reaches(number, "canceled")


def test_job_that_never_began_is_fenced_before_its_first_epoch(tmp_path):
    """There is no timeline: a replica that starts later finds the fence of its owner before it writes anything."""
    log_fences.fence_off(Store(tmp_path), "old", TASKS)
    assert list(Store(tmp_path).names("")) == ["fenced/old"]
