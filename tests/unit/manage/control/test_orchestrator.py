"""The orchestrator over its API, with nodes that are played: lives of jobs, recovery, supervision, and refusals."""

import asyncio
import sqlite3
import sys
from contextlib import closing
from dataclasses import replace
from importlib.resources import files

import pytest

from holdfast.errors import HoldfastError
from holdfast.manage.archive import all_placed
from holdfast.manage.database import Fenced
from holdfast.manage.parser import run_parser
from holdfast.manage.resources import TICK_S
from holdfast.manage.supervisors import Activate, Failed, JobView, Note
from holdfast.model.job import Job

from .conftest import PlayedNode, alive, running

TWICE = {"x": {"replicas": 2, "makes": ["s"]}, "y": {"reads": ["s"]}}


def nodes(control, *names):
    return [PlayedNode(control, name) for name in names]


def test_a_job_runs_and_is_canceled_and_its_story_says_so(settings):
    async def play():
        async with running(settings) as control:
            n1, n2 = nodes(control, "n1", "n2")
            async with alive(n1, n2):
                number = await control.submit(pes=TWICE)
                story = await control.reaches(number, "running")
                places = [replica["node"] for replica in story["tasks"][0]["replicas"]]
                assert sorted(places) == ["n1", "n2"]
                await control.until(lambda: _agree(control, number))
                assert (await control.call("POST", f"/v1/jobs/{number}/cancel")).status_code == 202
                story = await control.reaches(number, "canceled")
                assert " ".join(move["state"] for move in story["story"]) == (
                    "submitted parsing mapping optimizing instantiating dispatching running canceling canceled"
                )
                await control.until(lambda: _empty(n1))
                await control.until(lambda: _empty(n2))
                assert len(n1.starts + n2.starts) == 3

    asyncio.run(play())


async def _agree(control, number):
    story = await control.job(number)
    return all(replica["state"] == "running" for task in story["tasks"] for replica in task["replicas"])


def test_a_new_orchestrator_touches_nothing_that_runs_and_takes_the_reports_that_waited(settings):
    async def play():
        async with running(settings) as control:
            (n1,) = nodes(control, "n1")
            async with alive(n1):
                number = await control.submit(pes={"x": {}, "y": {}})
                await control.reaches(number, "running")
        n1.report(f"{number}:y/0.0", "finished")
        async with running(settings) as control:
            n1.control = control
            assert (await n1.beat()).status_code == 409
            assert control.orchestrator.recovering
            n1.has[f"{number}:y/0.0"]["state"] = "running"
            async with alive(n1):
                n1.has[f"{number}:y/0.0"]["state"] = "finished"
                await control.until(lambda: _state(control, number, 1, "finished"))
                story = await control.job(number)
                assert story["state"] == "running"
                assert [start for _, start in n1.starts] == [1, 1]
                assert story["story"][-1]["event"] == "started"
                assert control.orchestrator.resources.nodes["n1"].generation == 1, "one assignment had all there was to say"

    asyncio.run(play())


async def _state(control, number, task, state):
    story = await control.job(number)
    return story["tasks"][task]["replicas"][0]["state"] == state


def test_what_was_being_stopped_when_the_orchestrator_died_is_not_started_again(settings):
    async def play():
        async with running(settings) as control:
            (n1,) = nodes(control, "n1")
            async with alive(n1):
                number = await control.submit(pes={"x": {}, "y": {}})
                await control.reaches(number, "running")
            await control.call("POST", f"/v1/jobs/{number}/cancel")
            await control.reaches(number, "canceling")
            await n1.fetch()
            assert not n1.has
            n1.unacknowledged.clear()
        async with running(settings) as control:
            n1.control = control
            async with alive(n1):
                node = control.orchestrator.resources.nodes["n1"]
                assert control.orchestrator.recovering
                assert control.orchestrator.dispatch.assignment(node).replicas == ()
                await control.reaches(number, "canceled")
                assert len(n1.starts) == 2

    asyncio.run(play())


def test_reports_are_refused_while_recovering_and_a_silent_node_counts_as_lost(settings):
    async def play():
        async with running(settings) as control:
            n1, n2 = nodes(control, "n1", "n2")
            async with alive(n1, n2):
                number = await control.submit(pes=TWICE)
                await control.reaches(number, "running")
                gone = list(n2.has)
        async with running(replace(settings, recovery_wait_s=0.5)) as control:
            n1.control = control
            await n1.register()
            failed = next(iter(n1.has))
            n1.report(failed, "failed", "boom")
            refused = await n1.beat()
            assert refused.status_code == 503
            assert "recovering" in refused.json()["error"]
            async with alive(n1):
                await control.until(lambda: _told(control, "node n2 is lost: it did not come back in time"))
                await control.until(lambda: _acknowledged(n1))
                story = await control.job(number)
                states = {replica["key"]: replica["state"] for task in story["tasks"] for replica in task["replicas"]}
                assert states[failed] in ("failed", "placed", "running")  # by policy, and with a wait before
                assert all(states[key] == "lost" for key in gone if ":x/" in key)

    asyncio.run(play())


async def _acknowledged(node):
    return not node.unacknowledged


async def _told(control, text):
    return any(text in told for told in await control.events())


def test_a_failed_replica_is_started_anew_elsewhere_and_given_up_in_the_end(settings):
    async def play():
        async with running(settings) as control:
            n1, n2 = nodes(control, "n1", "n2")
            async with alive(n1, n2):
                policy = {"backoff_s": 0.01, "backoff_max_s": 0.02, "give_up_after": 3}
                number = await control.submit(pes={"x": {}, "y": {}}, policy=policy)
                await control.reaches(number, "running")
                for _ in range(3):
                    await control.until(lambda: _state(control, number, 0, "running"))
                    (node,) = [node for node in (n1, n2) if f"{number}:x/0.0" in node.has]
                    node.report(f"{number}:x/0.0", "failed", "boom")
                    await control.until(lambda node=node: _without(node, f"{number}:x/0.0"))
                await control.until(lambda: _state(control, number, 0, "abandoned"))
                assert (await control.job(number))["state"] == "running"
                starts = [start for start in n1.starts + n2.starts if start[0] == f"{number}:x/0.0"]
                assert sorted(starts) == [(f"{number}:x/0.0", n) for n in (1, 2, 3)]
                assert any("is given up: it failed 3 times in a row; last: boom" in text for text in await control.events())

    asyncio.run(play())


async def _without(node, key):
    return key not in node.has


def test_a_node_that_was_silent_and_comes_back_keeps_what_is_still_its_own_and_later_failures_count(settings):
    async def play():
        async with running(replace(settings, beat_s=0.05, lost_after_s=0.3)) as control:
            (n1,) = nodes(control, "n1")
            policy = {"restart": "here", "backoff_s": 0.05}
            async with alive(n1):
                number = await control.submit(policy=policy)
                await control.reaches(number, "running")
            await control.until(lambda: _state(control, number, 0, "lost"))
            async with alive(n1):
                await control.until(lambda: _state(control, number, 0, "running"))
                assert n1.starts == [(f"{number}:x/0.0", 1)]
                n1.report(f"{number}:x/0.0", "failed", "boom")
                await control.until(lambda: _incarnation(control, number, 2))
                texts = await control.events()
                assert any(text.startswith("node n1 is lost: no beat for") for text in texts)
                assert "node n1 is back" in texts

    asyncio.run(play())


def test_a_finite_job_whose_pe_is_given_up_has_failed_and_one_that_is_done_has_completed(settings):
    async def play():
        async with running(settings) as control:
            (n1,) = nodes(control, "n1")
            n1.state_of = lambda key: "failed" if key.startswith("1:") else "finished"
            async with alive(n1):
                bad = await control.submit("bad", type="finite", policy={"give_up_after": 1})
                story = await control.reaches(bad, "failed")
                assert "x/0 replica 0 is given up: it failed once" in story["reason"]
                good = await control.submit("good", type="finite", pes={"x": {}, "y": {}})
                await control.reaches(good, "completed")
                await control.until(lambda: _empty(n1))

    asyncio.run(play())


def test_a_shared_pe_outlives_its_own_job_and_a_crash_after_that(settings):
    async def play():
        async with running(settings) as control:
            (n1,) = nodes(control, "n1")
            async with alive(n1):
                one = await control.submit("one", pes={"x": {"makes": ["s"]}, "z": {}})
                two = await control.submit("two", pes={"mine": {"reads": ["one:s"]}, "theirs": {"shared": "one:x"}})
                await control.reaches(two, "running")
                await control.call("POST", f"/v1/jobs/{one}/cancel")
                await control.reaches(one, "canceled")
                await control.until(lambda: _has(n1, 2))
                assert set(n1.has) == {f"{one}:x/0.0", f"{two}:mine/0.0"}
        async with running(settings) as control:
            n1.control = control
            async with alive(n1):
                await control.until(lambda: _state(control, two, 0, "running"))
                assert set(n1.has) == {f"{one}:x/0.0", f"{two}:mine/0.0"}
                assert len(n1.starts) == 3
                await control.call("POST", f"/v1/jobs/{two}/cancel")
                await control.reaches(two, "canceled")
                await control.until(lambda: _empty(n1))

    asyncio.run(play())


async def _empty(node):
    return not node.has


async def _has(node, count):
    return len(node.has) == count


def test_a_drained_node_is_emptied_and_stays_so_after_a_restart(settings):
    async def play():
        async with running(settings) as control:
            n1, n2 = nodes(control, "n1", "n2")
            async with alive(n1, n2):
                number = await control.submit(pes={"x": {}, "y": {}})
                await control.reaches(number, "running")
                assert (await control.call("POST", "/v1/nodes/n1/drain", json={})).status_code == 202
                await control.until(lambda: _empty(n1))
                await control.until(lambda: _has(n2, 2))
        async with running(settings) as control:
            n1.control = n2.control = control
            async with alive(n1, n2):
                states = {node["name"]: node["state"] for node in (await control.call("GET", "/v1/nodes")).json()["nodes"]}
                assert states == {"n1": "drained", "n2": "up"}
                wrong = await control.call("POST", "/v1/nodes/n9/drain", json={})
                assert (wrong.status_code, wrong.json()["error"]) == (404, "node 'n9' does not exist; nodes are: n1, n2")

    asyncio.run(play())


def test_replicas_are_idled_and_woken_and_a_supervisor_may_do_so(settings):
    class Supervisor:
        seen: list[JobView]

        def __init__(self):
            self.seen = []

        async def observe(self, view):
            self.seen.append(view)
            return [Note("looked"), Activate("x/0", (1,))] if len(self.seen) == 1 else []

    async def play():
        async with running(settings) as control:
            supervisor = Supervisor()
            control.orchestrator.supervisors.set("light", supervisor)
            n1, n2 = nodes(control, "n1", "n2")
            async with alive(n1, n2):
                number = await control.submit(pes=TWICE)
                await control.reaches(number, "running")
                await control.until(lambda: _active(control, number, [False, True]))
                answer = await control.call("POST", f"/v1/jobs/{number}/activation", json={"active": {"x/0": [0, 1]}})
                assert answer.status_code == 202
                assert await _active(control, number, [True, True])
                assert supervisor.seen[0].job.job == "a"
                assert "looked" in await control.events()
                wrong = await control.call(
                    "POST", f"/v1/jobs/{number}/activation", json={"active": {"x/0": [], "q/0": [1], "y/0": [4]}}
                )
                assert wrong.status_code == 422
                assert wrong.json()["error"] == (
                    "task 'x/0' would have no active replica; name at least one; task 'q/0' is not one of job 1's; "
                    "they are: x/0, y/0; task 'y/0' has the replicas [0], got [4]"
                )

    asyncio.run(play())


def test_what_a_supervisor_takes_for_failed_is_restarted_by_its_policy_and_the_old_incarnation_is_not_believed(settings):
    class Supervisor:
        async def observe(self, view):
            old = [r for r in view.replicas if r.state == "running" and r.incarnation == 1]
            return [Failed(r.key, r.incarnation, why="it is taken for hung") for r in old]

    async def play():
        async with running(settings) as control:
            control.orchestrator.supervisors.set("light", Supervisor())
            n1, n2 = nodes(control, "n1", "n2")
            async with alive(n1, n2):
                number = await control.submit(policy={"backoff_s": 0.0})
                await control.reaches(number, "running")
                await control.until(lambda: _incarnation(control, number, 2))
                assert "failed: it is taken for hung" in await control.events()
        assert sorted(n1.starts + n2.starts) == [("1:x/0.0", 1), ("1:x/0.0", 2)]

    asyncio.run(play())


async def _active(control, number, wanted):
    story = await control.job(number)
    return [replica["active"] for replica in story["tasks"][0]["replicas"]] == wanted


def test_mistakes_are_answered_with_their_status_and_text(settings):
    async def play():
        async with running(settings) as control:
            call = control.call
            job = {"job": "a", "host": "light", "pes": {"x": {}}}
            no_room = await control.submit("full")
            story = await control.reaches(no_room, "failed")
            assert story["reason"].startswith("no capacity: task 'x/0' wants 1 nodes for its replicas and 0 of kind 'light' are up")
            stranger = {"authorization": "Bearer x"}

            def submit(**more):
                return call("POST", "/v1/jobs", json={**job, **more})

            def register(**offer):
                return call("POST", "/v1/nodes", token="node", json={"cores": 1, "memory_bytes": 1, **offer})

            application = {"pes": None, "application": "/no/such.py", "host": "spark"}
            for status, text, asked in [
                (401, "a user token is missing", control.http.get("/v1/jobs")),
                (401, "the token is not this orchestrator's user token", call("GET", "/v1/jobs", headers=stranger)),
                (403, "this call wants the user token, and got the other one", call("GET", "/v1/jobs", token="node")),
                (403, "this call wants the node token", call("POST", "/v1/nodes", json={})),
                (404, "there is no GET /v2; /openapi.json lists the calls", call("GET", "/v2")),
                (405, "there is no DELETE /v1/jobs", call("DELETE", "/v1/jobs")),
                (404, "job 99 does not exist; 'holdfast jobs' lists them", call("GET", "/v1/jobs/99")),
                (404, "job 'seven' does not exist: jobs have numbers", call("GET", "/v1/jobs/seven")),
                (409, "job 1 is failed: it has ended", call("POST", "/v1/jobs/1/cancel")),
                (400, "the body is not JSON", call("POST", "/v1/jobs", content=b"{")),
                (413, "the body is too long; wanted at most 8388608 bytes", call("POST", "/v1/jobs", content=b" " * 9_000_000)),
                (422, "there is no type 'forever'; types are: finite, streaming", submit(type="forever")),
                (422, "PEs that are written out run on a host of kind 'light'", submit(host="spark")),
                (422, "application '/no/such.py' is no file that the orchestrator can read", submit(**application)),
                (422, "job has 2 problems", submit(job="a b", policy={"give_up_after": 0})),
                (422, "parameter 'limit': wanted a whole number from 1 to 1000, got '0'", call("GET", "/v1/jobs?limit=0")),
                (422, "there is no parameter 'x'; parameters are: after, limit, state", call("GET", "/v1/jobs?x=0")),
                (422, "there is no fault 'flood'; faults are: crash-", call("POST", "/v1/faults", json={"fault": "flood"})),
                (422, "wanted a name of letters", register(name="a b")),
                (422, "wanted cores above 0 and up to 1000000, got -1", register(name="a", cores=-1)),
                (409, "node 'n7' is not registered", call("POST", "/v1/nodes/n7/beat", token="node", json={"term": 1})),
            ]:
                answer = await asked
                assert (answer.status_code, text in answer.json()["error"]) == (status, True), (answer.status_code, answer.text)

    asyncio.run(play())


def test_a_name_is_taken_while_its_job_lives_and_free_after(settings):
    async def play():
        async with running(settings) as control:
            (n1,) = nodes(control, "n1")
            async with alive(n1):
                number = await control.submit("a")
                await control.reaches(number, "running")
                again = await control.call("POST", "/v1/jobs", json={"job": "a", "host": "light", "pes": {"x": {}}})
                assert again.status_code == 409
                assert again.json()["error"] == "job 'a' is there already, as job 1 (running); cancel it or choose another name"
                await control.call("POST", f"/v1/jobs/{number}/cancel")
                await control.reaches(number, "canceled")
                assert await control.submit("a") == 2

    asyncio.run(play())


def test_jobs_that_name_one_another_are_told_so_and_one_that_names_nobody_too(settings):
    async def play():
        async with running(settings) as control:
            lonely = await control.submit("lonely", pes={"x": {"reads": ["nobody:s"]}})
            story = await control.reaches(lonely, "failed")
            assert story["reason"] == f"job {lonely}: names job 'nobody', which is not there; jobs are: none"

    asyncio.run(play())


def test_a_thousand_submissions_at_once_are_all_taken_and_running_jobs_are_not_starved(settings):
    async def play():
        async with running(replace(settings, replicas_per_core=1000)) as control:
            n1, n2 = nodes(control, "n1", "n2")
            async with alive(n1, n2):
                first = await control.submit("first", policy={"backoff_s": 0.0, "restart": "here"})
                await control.reaches(first, "running")
                burst = asyncio.gather(*(control.submit(f"b{n}") for n in range(1000)))
                (node,) = [node for node in (n1, n2) if f"{first}:x/0.0" in node.has]
                node.report(f"{first}:x/0.0", "failed", "boom")
                await control.until(lambda: _incarnation(control, first, 2))
                numbers = await burst
                assert len(set(numbers)) == 1000

                async def all_run():
                    page = (await control.call("GET", "/v1/jobs?state=running&limit=1000")).json()["jobs"]
                    return len(page) >= 1000

                await control.until(all_run, limit_s=120)
                assert all(node.state == "up" for node in control.orchestrator.resources.nodes.values())

    asyncio.run(play())


async def _incarnation(control, number, wanted):
    story = await control.job(number)
    replica = story["tasks"][0]["replicas"][0]
    return replica["incarnation"] == wanted and replica["state"] == "running"


def test_a_node_that_floods_or_talks_nonsense_hurts_nobody_else(settings):
    async def play():
        async with running(settings) as control:
            good, bad = nodes(control, "good", "bad")
            async with alive(good):
                number = await control.submit("a")
                await control.reaches(number, "running")
                await bad.register()
                for nonsense in (b"\xff{]", b"[]", b"null", b'{"term": "x"}', b'{"term": 1, "reports": 7}', b"9" * 1000):
                    answer = await control.call("POST", "/v1/nodes/bad/beat", token="node", content=nonsense)
                    assert answer.status_code == 422
                lies = [{"number": 1, "at_s": 0, "key": f"{number}:x/0.0", "incarnation": 1, "state": "failed"}]
                assert (await bad.beat(reports=lies)).status_code == 200
                flood = [control.call("POST", "/v1/nodes/bad/beat", token="node", content=b"[]") for _ in range(300)]
                assert {answer.status_code for answer in await asyncio.gather(*flood)} <= {422, 429}
                story = await control.job(number)
                assert story["tasks"][0]["replicas"][0]["state"] == "running"
                assert control.orchestrator.resources.nodes["good"].state == "up"

    asyncio.run(play())


def test_an_orchestrator_that_was_replaced_ends_and_writes_nothing(settings):
    async def play():
        async with running(settings) as old:
            task = next(task for task in asyncio.all_tasks() if task.get_coro().__qualname__ == "Orchestrator.run")
            async with running(settings) as new:
                answer = await old.call("POST", "/v1/jobs", json={"job": "late", "host": "light", "pes": {"x": {}}})
                assert answer.status_code == 503
                assert answer.json()["error"].startswith("another orchestrator has taken over (term 2, this one has 1)")
                assert (await new.call("GET", "/v1/jobs")).json()["jobs"] == []
                with pytest.raises(Fenced, match="this one ends and touches nothing"):
                    await task

    asyncio.run(play())


def test_a_type_whose_machine_is_gone_is_told_at_the_start(settings, tmp_path):
    text = tmp_path / "mine.toml"
    shipped = (files("holdfast.manage") / "machines" / "streaming.toml").read_text()
    text.write_text(shipped.replace('machine = "streaming"', 'machine = "mine"'))

    async def play():
        async with running(replace(settings, machines=(text,), capacity_wait_s=60)) as control:
            await control.submit("a", type="mine")
        with pytest.raises(HoldfastError, match="job 1 \\('a'\\) has the type 'mine', and there is no such machine"):
            async with running(settings):
                pass

    asyncio.run(play())


def test_a_dispatch_that_fails_after_it_was_written_leaves_nothing_behind(settings, tmp_path):
    tests = tmp_path / "tests.yaml"
    tests.write_text("tests: [{state: instantiating, transition: instantiated, fault: raise}]")

    async def play():
        async with running(replace(settings, inject=(tests,))) as control:
            (n1,) = nodes(control, "n1")
            async with alive(n1):
                number = await control.submit()
                story = await control.reaches(number, "failed")
                assert story["reason"] == "a fault was injected"
                assert [move["state"] for move in story["story"]][-3:] == ["dispatching", "canceling", "failed"]
                assert not n1.starts
                assert await control.orchestrator.persistence.database.read(all_placed) == []

    asyncio.run(play())


def test_a_job_that_went_on_without_a_pe_is_canceled_and_not_failed_when_a_user_cancels_it(settings):
    async def play():
        async with running(settings) as control:
            (n1,) = nodes(control, "n1")
            async with alive(n1):
                number = await control.submit(pes={"x": {}, "y": {}}, policy={"give_up_after": 1})
                await control.reaches(number, "running")
                n1.report(f"{number}:x/0.0", "failed", "boom")
                await control.until(lambda: _state(control, number, 0, "abandoned"))
                await control.until(lambda: _kept_as_abandoned(control, "x/0"))
                await control.call("POST", f"/v1/jobs/{number}/cancel")
                story = await control.reaches(number, "canceled")
                assert story["reason"] == "canceled by a user"

    asyncio.run(play())


async def _kept_as_abandoned(control, task, count=1):
    placed = await control.orchestrator.persistence.database.read(all_placed)
    return [each.abandoned for each in placed if each.task == task] == [True, False][:count]


@pytest.mark.parametrize("restart", ["missing", "never"])
def test_a_replica_that_policy_leaves_dead_keeps_no_job_from_running(settings, restart):
    async def play():
        async with running(settings) as control:
            n1, n2 = nodes(control, "n1", "n2")
            n1.state_of = lambda key: "failed"
            async with alive(n1, n2):
                number = await control.submit(pes={"x": {"replicas": 2}}, policy={"restart": restart})
                story = await control.reaches(number, "running")
                assert sorted(replica["state"] for replica in story["tasks"][0]["replicas"]) == ["failed", "running"]

    asyncio.run(play())


def test_a_parser_that_cannot_be_started_fails_its_job_and_does_not_stall_it(settings, tmp_path, monkeypatch):
    async def no_process(job):
        raise OSError(24, "Too many open files")

    monkeypatch.setattr("holdfast.manage.parser.run_parser", no_process)
    (tmp_path / "app.py").touch()

    async def play():
        async with running(settings) as control:
            answer = await control.call("POST", "/v1/jobs", json={"job": "a", "application": str(tmp_path / "app.py")})
            story = await control.reaches(answer.json()["id"], "failed")
            assert "Too many open files" in story["reason"]

    asyncio.run(play())


def test_a_node_that_speaks_of_a_later_term_while_the_database_is_away_ends_nothing(settings):
    async def play():
        async with running(settings) as control:
            control.orchestrator.persistence.database.cut(0.3)
            for name in ("n1", "n2"):
                answer = await control.call("POST", f"/v1/nodes/{name}/beat", token="node", json={"term": 99})
                assert answer.status_code == 409
            await control.submit()  # waits for the database
            assert not control.orchestrator.stopping
            assert not any("99" in text for text in control.said)

    asyncio.run(play())


def test_who_writes_while_the_database_is_away_is_told_so_in_time_and_it_is_done_after_all(settings, monkeypatch):
    monkeypatch.setattr("holdfast.manage.api.DONE_S", 0.1)

    async def play():
        async with running(settings) as control:
            (n1,) = nodes(control, "n1")
            await n1.register()
            control.orchestrator.persistence.database.cut(1.0)
            job = {"job": "a", "host": "light", "pes": {"x": {}}}
            for path, asked in (("/v1/jobs", job), ("/v1/nodes/n1/drain", {})):
                answer = await control.call("POST", path, json=asked)
                assert answer.status_code == 503
                assert answer.json()["error"].startswith("the database does not answer: this waits for it")
            await control.until(lambda: _is_there(control, "a"))
            await control.until(lambda: _is_drained(control, "n1"))

    asyncio.run(play())


async def _is_there(control, name):
    return any(job.name == name for job in control.orchestrator.jobs.values())


async def _is_drained(control, name):
    nodes = (await control.call("GET", "/v1/nodes")).json()["nodes"]
    return [node["state"] for node in nodes if node["name"] == name] == ["drained"]


def test_a_stored_state_or_document_that_is_not_understood_any_more_is_told_at_the_start(settings, tmp_path):
    machine = tmp_path / "machine.toml"
    shipped = (files("holdfast.manage") / "machines" / "streaming.toml").read_text()
    machine.write_text(shipped.replace("mapping", "charting"))

    async def play():
        async with running(replace(settings, machines=(machine,), capacity_wait_s=60)) as control:
            await control.reaches(await control.submit("a"), "optimizing")
        with pytest.raises(HoldfastError, match=r"job 1 \('a'\) is charting, and machine 'streaming' has no such state; states"):
            async with running(settings):
                pass
        with closing(sqlite3.connect(settings.work / "jobs.db")) as stored:
            stored.execute("""UPDATE jobs SET state = 'submitted', document = '{"job": "a", "flavour": 1}'""")
            stored.commit()
        with pytest.raises(HoldfastError, match=r"job 1 \('a'\) is stored in words that this holdfast does not take \(flavour: "):
            async with running(settings):
                pass

    asyncio.run(play())


def test_a_node_is_drained_when_only_dead_and_finished_replicas_have_their_place_there(settings):
    async def play():
        async with running(settings) as control:
            n1, n2 = nodes(control, "n1", "n2")
            async with alive(n1, n2):
                number = await control.submit(
                    pes={"x": {"replicas": 2}, "y": {"replicas": 2}, "z": {}}, policy={"restart": "never", "give_up_after": 1}
                )
                await control.reaches(number, "running")
                n1.report(f"{number}:x/0.0" if f"{number}:x/0.0" in n1.has else f"{number}:x/0.1", "failed", "boom")
                n1.report(f"{number}:y/0.0" if f"{number}:y/0.0" in n1.has else f"{number}:y/0.1", "finished")
                await control.call("POST", "/v1/nodes/n1/drain", json={})
                await control.until(lambda: _is_drained(control, "n1"))

    asyncio.run(play())


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("while True: print('x' * 100_000)", "wanted a layout of at most 16777216 bytes, got more, and ended the parser"),
        ("import sys; [print('x' * 100_000, file=sys.stderr) for _ in range(100)]; sys.exit('it is broken')", "x\nit is broken$"),
        ("import sys; sys.exit(2)", "the parser ended with 2 and said nothing"),
    ],
)
def test_a_parser_is_never_given_more_memory_than_a_layout_needs(monkeypatch, script, words):
    monkeypatch.setattr("holdfast.manage.parser.PARSER", (sys.executable, "-c", script))
    with pytest.raises(HoldfastError, match=words):
        asyncio.run(run_parser(Job(job="a", application="a.py")))


def test_an_orchestrator_that_slept_in_its_recovery_still_waits_for_the_nodes(settings):
    async def play():
        async with running(settings) as control:
            (n1,) = nodes(control, "n1")
            async with alive(n1):
                number = await control.submit()
                await control.reaches(number, "running")
        async with running(settings) as control:
            n1.control = control
            clock = control.orchestrator.time
            real = clock.monotonic_s
            await control.until(lambda: _said(control, "recovering: waiting for 1 nodes"))
            clock.monotonic_s = lambda: real() + 1000.0
            for _ in range(3):
                control.orchestrator.resources.room_was_made()  # wakes whoever waits for nodes, as the timer of a long sleep does
                await control.orchestrator.resources.changed(for_s=TICK_S)
            assert control.orchestrator.recovering
            async with alive(n1):
                await control.until(lambda: _state(control, number, 0, "running"))
            assert not any("is lost" in text for text in await control.events())
            assert len(n1.starts) == 1

    asyncio.run(play())


async def _said(control, text):
    return any(text in said for said in control.said)


def test_a_replica_that_was_given_up_does_not_lead_its_task_again_after_a_recovery(settings):
    async def play():
        async with running(settings) as control:
            n1, n2 = nodes(control, "n1", "n2")
            async with alive(n1, n2):
                number = await control.submit(pes={"x": {"replicas": 2}}, policy={"give_up_after": 1})
                await control.reaches(number, "running")
                first = next(node for node in (n1, n2) if f"{number}:x/0.0" in node.has)
                first.report(f"{number}:x/0.0", "failed", "boom")
                await control.until(lambda: _kept_as_abandoned(control, "x/0", count=2))
        async with running(settings) as control:
            n1.control = n2.control = control
            async with alive(n1, n2):
                story = await control.reaches(number, "running")
                assert [(replica["replica"], replica["rank"]) for replica in story["tasks"][0]["replicas"]] == [(0, 1), (1, 0)]

    asyncio.run(play())


def test_a_cancel_that_comes_too_late_is_answered_at_once(settings):
    async def play():
        async with running(settings) as control:
            await control.orchestrator.recovered.wait()
            number = await control.submit()  # there is no node: it fails
            job = control.orchestrator.jobs[number]
            event = control.orchestrator.post(job, "move", data={"key": "", "node": ""})
            await control.reaches(number, "failed")
            job.queue.append(event)
            waits = asyncio.create_task(control.orchestrator.done(event, within_s=60))
            await asyncio.sleep(0)
            await control.orchestrator._work_off(job)
            assert await asyncio.wait_for(waits, 10)

    asyncio.run(play())


def test_a_supervisor_that_asks_again_while_the_database_is_away_is_heard_once(settings):
    class Supervisor:
        async def observe(self, view):
            return [Activate("x/0", (1,))]

    async def play():
        async with running(settings) as control:
            n1, n2 = nodes(control, "n1", "n2")
            async with alive(n1, n2):
                number = await control.submit(pes=TWICE)
                await control.reaches(number, "running")
                job, supervisors = control.orchestrator.jobs[number], control.orchestrator.supervisors
                control.orchestrator.persistence.database.cut(1.0)
                for _ in range(20):
                    await supervisors._show(job, Supervisor())
                    await asyncio.sleep(0.005)
                assert sum(event.name == "activate" for event in job.queue) <= 1
                await control.until(lambda: _active(control, number, [False, True]))

    asyncio.run(play())


def test_the_failures_of_a_replica_that_has_run_well_since_count_no_more_also_for_the_next_orchestrator(settings, monkeypatch):
    monkeypatch.setattr("holdfast.manage.supervision.STEADY_S", 0.3)

    async def failures(control):
        return [each.failures for each in await control.orchestrator.persistence.database.read(all_placed)]

    async def forgotten(control):
        return await failures(control) == [0]

    async def play():
        async with running(settings) as control:
            (n1,) = nodes(control, "n1")
            async with alive(n1):
                number = await control.submit(policy={"restart": "here", "backoff_s": 0.01, "give_up_after": 2})
                await control.reaches(number, "running")
                n1.report(f"{number}:x/0.0", "failed", "boom")
                await control.until(lambda: _incarnation(control, number, 2))
                await control.until(lambda: forgotten(control))
        async with running(settings) as control:
            n1.control = control
            n1.has[f"{number}:x/0.0"]["state"] = "failed"
            async with alive(n1):
                await control.until(lambda: _incarnation(control, number, 3))

    asyncio.run(play())
