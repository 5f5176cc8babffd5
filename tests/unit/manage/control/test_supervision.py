"""Replicas that fail, come back, wake and idle: what policy and supervisors make of it."""

import asyncio
import re
from dataclasses import replace
from importlib.resources import files

import pytest

from holdfast.manage.supervisors import Activate, Failed, JobView, Note

from .conditions import are_active, incarnation_is, nodes, replica_is, without
from .conftest import alive, running

TWICE = {"x": {"replicas": 2, "makes": ["s"]}, "y": {"reads": ["s"]}}


def test_a_failed_replica_is_started_anew_elsewhere_and_given_up_in_the_end(settings):
    async def play():
        async with running(settings) as control:
            n1, n2 = nodes(control, "n1", "n2")
            async with alive(n1, n2):
                policy = {"backoff_s": 0.01, "backoff_max_s": 0.02, "give_up_after": 3}
                number = await control.submit(pes={"x": {}, "y": {}}, policy=policy)
                await control.reaches(number, "running")
                for _ in range(3):
                    await control.until(lambda: replica_is(control, number, 0, "running"))
                    (node,) = [node for node in (n1, n2) if f"{number}:x/0.0" in node.has]
                    node.report(f"{number}:x/0.0", "failed", "boom")
                    await control.until(lambda node=node: without(node, f"{number}:x/0.0"))
                await control.until(lambda: replica_is(control, number, 0, "abandoned"))
                assert (await control.job(number))["state"] == "running"
                starts = [start for start in n1.starts + n2.starts if start[0] == f"{number}:x/0.0"]
                assert sorted(starts) == [(f"{number}:x/0.0", n) for n in (1, 2, 3)]
                assert any("is given up: it failed 3 times in a row; last: boom" in text for text in await control.events())

    asyncio.run(play())


def test_a_node_that_was_silent_and_comes_back_keeps_what_is_still_its_own_and_later_failures_count(settings):
    async def play():
        async with running(replace(settings, beat_s=0.05, lost_after_s=0.3)) as control:
            (n1,) = nodes(control, "n1")
            policy = {"restart": "here", "backoff_s": 0.05}
            async with alive(n1):
                number = await control.submit(policy=policy)
                await control.reaches(number, "running")
            await control.until(lambda: replica_is(control, number, 0, "lost"))
            async with alive(n1):
                await control.until(lambda: replica_is(control, number, 0, "running"))
                assert n1.starts == [(f"{number}:x/0.0", 1)]
                n1.report(f"{number}:x/0.0", "failed", "boom")
                await control.until(lambda: incarnation_is(control, number, 2))
                texts = await control.events()
                assert any(text.startswith("node n1 is lost: no beat for") for text in texts)
                assert "node n1 is back" in texts

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
                await control.until(lambda: are_active(control, number, [False, True]))
                answer = await control.call("POST", f"/v1/jobs/{number}/activation", json={"active": {"x/0": [0, 1]}})
                assert answer.status_code == 202
                assert await are_active(control, number, [True, True])
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
                await control.until(lambda: incarnation_is(control, number, 2))
                assert "failed: it is taken for hung" in await control.events()
        assert sorted(n1.starts + n2.starts) == [("1:x/0.0", 1), ("1:x/0.0", 2)]

    asyncio.run(play())


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


def test_a_machine_may_call_its_states_as_it_likes(settings, tmp_path):
    text = (files("holdfast.manage") / "machines" / "streaming.toml").read_text()
    for name in ("streaming", "submitted", "dispatching", "running", "canceling"):
        text = re.sub(rf"\b{name}\b", f"my{name}", text)
    (tmp_path / "own.toml").write_text(text)

    seen = set()

    class Asking:
        async def observe(self, view):
            seen.add(view.state)
            return [Activate("x/0", (1,), why="the supervisor says so")]

    async def play():
        async with running(replace(settings, machines=(tmp_path / "own.toml",))) as control:
            control.orchestrator.supervisors.set("light", Asking())
            async with alive(*nodes(control, "n1", "n2")):
                job = {"job": "a", "type": "mystreaming", "host": "light", "pes": TWICE}
                answer = (await control.call("POST", "/v1/jobs", json=job)).json()
                assert answer["state"] == "mysubmitted"
                number = answer["id"]
                await control.reaches(number, "myrunning")
                await control.until(lambda: are_active(control, number, [False, True]))

                async def shown():
                    return "myrunning" in seen

                await control.until(shown)
                assert (await control.call("POST", f"/v1/jobs/{number}/cancel")).status_code == 202
                again = await control.call("POST", f"/v1/jobs/{number}/cancel")
                assert again.status_code == 202 or "it has ended" in again.text
                await control.reaches(number, "canceled")
        assert seen <= {"mydispatching", "myrunning"}

    asyncio.run(play())
