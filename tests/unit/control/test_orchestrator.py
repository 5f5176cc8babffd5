"""Jobs over the API, with simulated nodes: they run, complete, fail, and are canceled or refused."""

import asyncio
from dataclasses import replace

import pytest

from holdfast.control.api.submission_checks import Conflict
from holdfast.control.storage.stored_jobs import all_placements
from holdfast.errors import HoldfastError

from .conditions import all_run, incarnation_is, is_empty, is_stored_as_abandoned, nodes, replica_is
from .conftest import SimulatedNode, alive, cluster, running

TWICE = {"x": {"replicas": 2, "makes": ["s"]}, "y": {"reads": ["s"]}}


async def test_history_of_a_canceled_job(settings):
    async with cluster(settings, "n1", "n2") as (control, n1, n2):
        number = await control.submit(pes=TWICE)
        job = await control.reaches(number, "running")
        places = [replica["node"] for replica in job["tasks"][0]["replicas"]]
        assert sorted(places) == ["n1", "n2"]
        await control.until(lambda: all_run(control, number))
        assert (await control.call("POST", f"/v1/jobs/{number}/cancel")).status_code == 202
        job = await control.reaches(number, "canceled")
        assert " ".join(move["state"] for move in job["history"]) == (
            "submitted parsing mapping optimizing instantiating dispatching running canceling canceled"
        )
        await control.until(lambda: is_empty(n1))
        await control.until(lambda: is_empty(n2))
        assert len(n1.starts + n2.starts) == 3


async def test_finite_job_fails_or_completes(settings):
    async with running(settings) as control:
        (n1,) = nodes(control, "n1")
        n1.state_of = lambda key: "failed" if key.startswith("1:") else "finished"
        async with alive(n1):
            bad = await control.submit("bad", type="finite", policy={"give_up_after": 1})
            job = await control.reaches(bad, "failed")
            assert job["reason"].startswith("every PE was abandoned, last: ")
            good = await control.submit("good", type="finite", pes={"x": {}, "y": {}})
            await control.reaches(good, "completed")
            await control.until(lambda: is_empty(n1))


async def test_finite_job_without_an_abandoned_pe_fails_at_its_end(settings):
    async with cluster(settings, "n1") as (control, n1):
        number = await control.submit(type="finite", pes={"x": {}, "y": {}, "z": {}}, policy={"give_up_after": 1})
        await control.reaches(number, "running")
        n1.report(f"{number}:x/0.0", "failed", "boom")
        await control.until(lambda: replica_is(control, number, 0, "abandoned"))
        n1.report(f"{number}:y/0.0", "finished")
        await control.until(lambda: replica_is(control, number, 1, "finished"))
        assert (await control.job(number))["state"] == "running"
        n1.report(f"{number}:z/0.0", "finished")
        job = await control.reaches(number, "failed")
        assert job["reason"] == "x/0 abandoned, last: boom; the rest has finished"


async def test_errors_have_a_status_and_a_text(settings):
    async with running(settings) as control:
        call = control.call
        job = {"job": "a", "host_kind": "light", "pes": {"x": {}}}
        no_room = await control.submit("full")
        failed = await control.reaches(no_room, "failed")
        assert failed["reason"].startswith("no capacity: task 'x/0' wants 1 nodes for its replicas and 0 of kind 'light' are up")
        stranger = {"authorization": "Bearer x"}

        def submit(**more):
            return call("POST", "/v1/jobs", json={**job, **more})

        def register(**offer):
            return call("POST", "/v1/nodes", token="node", json={"cores": 1, "memory_bytes": 1, **offer})

        application = {"pes": None, "application": "/no/such.py", "host_kind": "spark"}
        for status, text, asked in [
            (401, "a user token is missing", control.http.get("/v1/jobs")),
            (401, "the token is not this orchestrator's user token", call("GET", "/v1/jobs", headers=stranger)),
            (403, "this call requires a user token, got the other one", call("GET", "/v1/jobs", token="node")),
            (403, "this call requires a node token", call("POST", "/v1/nodes", json={})),
            (404, "there is no GET /v2; /openapi.json lists the calls", call("GET", "/v2")),
            (405, "there is no DELETE /v1/jobs", call("DELETE", "/v1/jobs")),
            (404, "job 99 does not exist; 'holdfast jobs' lists them", call("GET", "/v1/jobs/99")),
            (404, "job 'seven' does not exist: jobs have numbers", call("GET", "/v1/jobs/seven")),
            (409, "job 1 is failed: it has ended", call("POST", "/v1/jobs/1/cancel")),
            (400, "the body is not JSON", call("POST", "/v1/jobs", content=b"{")),
            (400, "the body is not JSON", call("POST", "/v1/nodes/n7/beat", token="node", content=b"{")),
            (422, "replicas.x: wanted a number from 1 to 1000, got 99999", submit(replicas={"x": 99999999999999999999})),
            (413, "the body is too long; wanted at most 8388608 bytes", call("POST", "/v1/jobs", content=b" " * 9_000_000)),
            (422, "there is no type 'forever'; types are: finite, streaming", submit(type="forever")),
            (422, "host_kind: wanted 'light' for a job that defines its PEs", submit(host_kind="spark")),
            (422, "application: '/no/such.py' is not a file that the orchestrator can read", submit(**application)),
            (422, "job has 2 errors", submit(job="a b", policy={"give_up_after": 0})),
            (422, "parameter 'limit': wanted a whole number from 1 to 1000, got '0'", call("GET", "/v1/jobs?limit=0")),
            (422, "there is no parameter 'x'; parameters are: after, limit, state", call("GET", "/v1/jobs?x=0")),
            (422, "there is no state 'runing'; states are: submitted, parsing, ", call("GET", "/v1/jobs?state=runing")),
            (422, "there is no fault 'flood'; faults are: crash-", call("POST", "/v1/faults", json={"fault": "flood"})),
            (422, "wanted a name of letters", register(name="a b")),
            (422, "wanted cores above 0 and up to 1000000, got -1", register(name="a", cores=-1)),
            (409, "node 'n7' is not registered", call("POST", "/v1/nodes/n7/beat", token="node", json={"term": 1})),
        ]:
            answer = await asked
            assert (answer.status_code, text in answer.json()["error"]) == (status, True), (answer.status_code, answer.text)


async def test_job_name_is_free_after_its_job_ends(settings):
    async with cluster(settings, "n1") as (control, _):
        number = await control.submit("a")
        await control.reaches(number, "running")
        again = await control.call("POST", "/v1/jobs", json={"job": "a", "host_kind": "light", "pes": {"x": {}}})
        assert again.status_code == 409
        assert again.json()["error"] == "job 'a' exists already, as job 1 (running); cancel it or choose another name"
        await control.call("POST", f"/v1/jobs/{number}/cancel")
        await control.reaches(number, "canceled")
        assert await control.submit("a") == 2


async def test_circular_and_unknown_job_references_fail(settings):
    async with running(settings) as control:
        lonely = await control.submit("lonely", pes={"x": {"reads": ["nobody:s"]}})
        job = await control.reaches(lonely, "failed")
        assert job["reason"].startswith(f"job {lonely}: names job 'nobody', which does not exist; jobs are: none; ")


@pytest.mark.parametrize("end", ["failed", "canceled"])
async def test_waiting_job_fails_when_the_named_job_ends(settings, tmp_path, monkeypatch, end):
    (tmp_path / "app.py").write_text("")
    parsed = asyncio.Event()

    async def parse(job, **options):
        await parsed.wait()
        raise HoldfastError("it cannot be understood")

    monkeypatch.setattr("holdfast.control.jobs.parser.run_parser", parse)
    async with running(settings) as control:
        await control.orchestrator.recovered.wait()
        job = {"job": "one", "application": str(tmp_path / "app.py"), "log": "log"}
        one = (await control.call("POST", "/v1/jobs", json=job)).json()["id"]
        two = await control.submit("two", pes={"y": {"reads": ["one:s"]}})
        await control.reaches(two, "mapping")
        if end == "failed":
            parsed.set()
        else:
            await control.call("POST", f"/v1/jobs/{one}/cancel")
        await control.reaches(one, end)
        reason = (await control.reaches(two, "failed"))["reason"]
        why = "failed: it cannot be understood" if end == "failed" else "canceled: canceled by a user"
        assert reason == f"job 2: names job 'one', which is {why}"


async def test_thousand_concurrent_submissions_succeed(settings):
    async with running(replace(settings, replicas_per_core=1000)) as control:
        n1, n2 = nodes(control, "n1", "n2")
        async with alive(n1, n2):
            first = await control.submit("first", policy={"backoff_s": 0.0, "restart": "here"})
            await control.reaches(first, "running")
            burst = asyncio.gather(*(control.submit(f"b{n}") for n in range(1000)))
            (node,) = [node for node in (n1, n2) if f"{first}:x/0.0" in node.has]
            node.report(f"{first}:x/0.0", "failed", "boom")
            await control.until(lambda: incarnation_is(control, first, 2))
            numbers = await burst
            assert len(set(numbers)) == 1000

            async def all_run():
                page = (await control.call("GET", "/v1/jobs?state=running&limit=1000")).json()["jobs"]
                return len(page) >= 1000

            await control.until(all_run, limit_s=120)
            assert all(node.state == "up" for node in control.orchestrator.resources.nodes.values())


async def test_failed_dispatch_leaves_no_placement(settings, tmp_path):
    tests = tmp_path / "tests.yaml"
    tests.write_text("tests: [{state: instantiating, transition: instantiated, fault: raise}]")
    async with running(replace(settings, inject=(tests,))) as control:
        (n1,) = nodes(control, "n1")
        async with alive(n1):
            number = await control.submit()
            job = await control.reaches(number, "failed")
            assert job["reason"] == "a fault was injected"
            assert [move["state"] for move in job["history"]][-3:] == ["dispatching", "canceling", "failed"]
            assert not n1.starts
            assert await control.orchestrator.persistence.database.read(all_placements) == []


async def test_job_with_abandoned_pe_can_be_canceled(settings):
    async with cluster(settings, "n1") as (control, n1):
        number = await control.submit(pes={"x": {}, "y": {}}, policy={"give_up_after": 1})
        await control.reaches(number, "running")
        n1.report(f"{number}:x/0.0", "failed", "boom")
        await control.until(lambda: replica_is(control, number, 0, "abandoned"))
        await control.until(lambda: is_stored_as_abandoned(control, "x/0"))
        await control.call("POST", f"/v1/jobs/{number}/cancel")
        job = await control.reaches(number, "canceled")
        assert job["reason"] == "canceled by a user"


async def test_late_cancel_is_answered_at_once(settings):
    async with running(settings) as control:
        await control.orchestrator.recovered.wait()
        number = await control.submit()  # there is no node: it fails
        job = control.orchestrator.jobs[number]
        event = control.orchestrator.post(job, "move", data={"key": "", "node": ""})
        await control.reaches(number, "failed")
        job.queue.append(event)
        waits = asyncio.create_task(control.orchestrator.wait_until_processed(event, within_s=60))
        await asyncio.sleep(0)
        await control.orchestrator._process_queue(job)
        with pytest.raises(Conflict, match="job 1 is failed: it has ended"):
            await asyncio.wait_for(waits, 10)


async def test_job_with_correction_cannot_read_a_job_without(settings):
    async with running(settings) as control:
        n1 = SimulatedNode(control, "n1")
        async with alive(n1):
            one = await control.submit("one", pes={"x": {"makes": ["x"]}}, contract={"correction": False})
            await control.reaches(one, "running")
            two = await control.submit("two", pes={"y": {"reads": ["one:x"]}})
            job = await control.reaches(two, "failed")
            assert "'y' has correction and reads 'one:x' of PE 'x', which has none" in job["reason"]
            three = await control.submit("three", pes={"y": {"reads": ["one:x"]}}, contract={"correction": False})
            await control.reaches(three, "running")
