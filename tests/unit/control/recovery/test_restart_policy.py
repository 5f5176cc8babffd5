"""Restarts, activation and moves of replicas, by policy, users and observers."""

import re
from dataclasses import replace
from importlib.resources import files

import pytest

from holdfast.control.nodes.replicas import OVER
from holdfast.control.observers.job_observers import Activate, FailJob, FailReplica, JobView, Move, Note
from holdfast.control.storage.stored_jobs import all_placements

from ..conditions import are_active, incarnation_is, is_empty, lacks, nodes, replica_is
from ..conftest import alive, cluster, running

TWICE = {"x": {"replicas": 2, "makes": ["s"]}, "y": {"reads": ["s"]}}


async def test_failed_replica_restarts_elsewhere_until_abandoned(settings):
    async with cluster(settings, "n1", "n2") as (control, n1, n2):
        policy = {"backoff_s": 0.01, "backoff_max_s": 0.02, "give_up_after": 3}
        number = await control.submit(pes={"x": {}, "y": {}}, policy=policy)
        await control.reaches(number, "running")
        for _ in range(3):
            await control.until(lambda: replica_is(control, number, 0, "running"))
            (node,) = [node for node in (n1, n2) if f"{number}:x/0.0" in node.has]
            node.report(f"{number}:x/0.0", "failed", "boom")
            await control.until(lambda node=node: lacks(node, f"{number}:x/0.0"))
        await control.until(lambda: replica_is(control, number, 0, "abandoned"))
        assert (await control.job(number))["state"] == "running"
        starts = [start for start in n1.starts + n2.starts if start[0] == f"{number}:x/0.0"]
        assert sorted(starts) == [(f"{number}:x/0.0", n) for n in (1, 2, 3)]
        assert any("is abandoned: it failed 3 times in a row; last: boom" in text for text in await control.events())


async def fail_repeatedly(control, number, nodes, *, positions, state="failed", rows_s=0.0):
    """Let replica x/0.0 get to each of these clean epochs in turn and then fail there."""
    key = f"{number}:x/0.0"
    replica = control.orchestrator.replicas.get(key)

    async def has_reported(clean):
        return replica.status is not None and replica.status.clean == clean

    for clean in positions:
        await control.until(lambda: replica_is(control, number, 0, "running"))
        (node,) = [node for node in nodes if key in node.has]
        node.has[key] |= {"clean": clean, "rows_s": rows_s}
        await control.until(lambda clean=clean: has_reported(clean))
        node.report(key, state, "boom")
        await control.until(lambda node=node: lacks(node, key))


QUICK = {"backoff_s": 0.01, "backoff_max_s": 0.02, "give_up_after": 3}


async def test_replica_that_gets_further_is_not_abandoned(settings):
    async with cluster(settings, "n1", "n2") as (control, n1, n2):
        number = await control.submit(pes={"x": {}, "y": {}}, policy=QUICK)
        await control.reaches(number, "running")
        await fail_repeatedly(control, number, (n1, n2), positions=[3, 7, 11, 16, 24])
        await control.until(lambda: incarnation_is(control, number, 6))
        stored = await control.orchestrator.persistence.database.read(all_placements)
        assert [placed.failures for placed in stored if placed.task == "x/0"] == [1]


async def test_replica_that_fails_at_the_same_row_is_abandoned(settings):
    async with cluster(settings, "n1", "n2") as (control, n1, n2):
        number = await control.submit(pes={"x": {}, "y": {}}, policy=QUICK)
        await control.reaches(number, "running")
        await fail_repeatedly(control, number, (n1, n2), positions=[5, 7, 7, 6])
        await control.until(lambda: replica_is(control, number, 0, "abandoned"))


@pytest.mark.parametrize("other_at", [5, 7])
async def test_progress_is_compared_with_the_whole_task(settings, other_at):
    async with cluster(settings, "n1", "n2", "n3") as (control, *all_nodes):
        number = await control.submit(pes={"x": {"replicas": 2}, "y": {}}, policy=QUICK)
        await control.reaches(number, "running")
        (other,) = [node for node in all_nodes if f"{number}:x/0.1" in node.has]
        other.has[f"{number}:x/0.1"]["clean"] = other_at
        replica = control.orchestrator.replicas.get(f"{number}:x/0.1")

        async def other_has_reported():
            return replica.furthest == other_at

        await control.until(other_has_reported)
        await fail_repeatedly(control, number, all_nodes, positions=[4, 6, 6])
        await control.until(lambda: replica_is(control, number, 0, "running" if other_at == 5 else "abandoned"))


@pytest.mark.parametrize(("rows_s", "state"), [(0.0, "abandoned"), (10.0, "running")])
async def test_source_without_rows_makes_no_progress(settings, rows_s, state):
    async with cluster(settings, "n1", "n2") as (control, n1, n2):
        number = await control.submit(pes={"x": {}, "y": {}}, policy=QUICK)
        job = control.orchestrator.jobs[number]
        await control.reaches(number, "running")
        job.layout = job.layout.model_copy(
            update={"tasks": tuple(task.model_copy(update={"kind": "source"}) for task in job.layout.tasks)}
        )
        await fail_repeatedly(control, number, (n1, n2), positions=[5, 6, 7], rows_s=rows_s)
        await control.until(lambda: replica_is(control, number, 0, state))


async def test_death_of_the_host_never_abandons(settings):
    async with cluster(settings, "n1", "n2") as (control, n1, n2):
        number = await control.submit(pes={"x": {}, "y": {}}, policy=QUICK)
        await control.reaches(number, "running")
        await fail_repeatedly(control, number, (n1, n2), positions=[5] * 6, state="lost")
        await control.until(lambda: incarnation_is(control, number, 7))
        assert control.orchestrator.replicas.get(f"{number}:x/0.0").losses == 6


async def test_loss_of_the_node_never_abandons(settings):
    async with cluster(settings, "n1", "n2") as (control, *_):
        number = await control.submit(pes={"x": {}, "y": {}}, policy=QUICK)
        await control.reaches(number, "running")
        replica, resources = control.orchestrator.replicas.get(f"{number}:x/0.0"), control.orchestrator.resources
        for losses in range(1, 7):
            resources.mark_lost(resources.nodes[replica.node], "it was killed")
            assert (replica.losses, replica.failures) == (losses, 0)
            await control.until(lambda: replica_is(control, number, 0, "running"))


async def test_returning_node_keeps_its_replicas(settings):
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


def before_written(control, node, **column):
    """Record the node's assignment and the events just before rows with this value of a column are written."""
    ((name, value),) = column.items()
    seen, database, nodes = [], control.orchestrator.persistence.database, control.orchestrator.resources.nodes
    write = database.write

    async def writing(changes):
        if any(row.get(name) == value for change in changes for row in change.rows):
            seen.append((control.orchestrator.dispatch.assignment(nodes[node]).replicas, await control.events()))
        await write(changes)

    database.write = writing
    return seen


async def test_replica_is_idled_after_the_write(settings):
    async with running(settings) as control:
        n1, n2 = nodes(control, "n1", "n2")
        async with alive(n1, n2):
            number = await control.submit(pes={"x": {"replicas": 2}})
            await control.reaches(number, "running")
            seen = before_written(control, "n1", active=0)
            await control.call("POST", f"/v1/jobs/{number}/activation", json={"active": {"x/0": [1]}})
            assert await are_active(control, number, [False, True])
        (((replica,), _),) = seen
        assert (replica.replica, replica.active) == (0, True)


async def test_replica_is_abandoned_after_the_write(settings):
    async with running(settings) as control:
        (n1,) = nodes(control, "n1")
        seen = before_written(control, "n1", abandoned=1)
        async with alive(n1):
            number = await control.submit(pes={"x": {}, "y": {}}, policy={"give_up_after": 1, "then": "cancel"})
            await control.reaches(number, "running")
            n1.report(f"{number}:x/0.0", "failed", "boom")
            await control.reaches(number, "failed")
        ((replicas, events),) = seen
        assert [replica.pe for replica in replicas] == ["x", "y"]
        assert not any("abandoned" in text for text in events)


def while_written(control, task, node, become):
    """Let something become of a node while the place of a task on it is being written: the first time, and after the write."""
    database, became = control.orchestrator.persistence.database, []
    write = database.write

    async def writing(changes):
        await write(changes)
        rows = [row for change in changes for row in change.rows]
        if not became and any(row.get("task") == task and row.get("node") == node for row in rows):
            became.append(node)
            await become(control.orchestrator.resources, control.orchestrator.resources.nodes[node])

    database.write = writing


async def lost(resources, node):
    resources.mark_lost(node, "no beat")


async def drained(resources, node):
    await resources.drain(node, True)


@pytest.mark.parametrize("become", [lost, drained])
async def test_node_lost_during_first_placement(settings, become):
    async with running(replace(settings, lost_after_s=60.0)) as control:
        n1, n2 = nodes(control, "n1", "n2")
        while_written(control, "x/0", "n1", become)
        await n1.register()
        async with alive(n2):
            number = await control.submit(policy={"backoff_s": 0.0})
            job = await control.reaches(number, "running")
            assert [replica["node"] for replica in job["tasks"][0]["replicas"]] == ["n2"]


@pytest.mark.parametrize("become", [lost, drained])
async def test_node_lost_during_a_move(settings, become):
    async with running(replace(settings, lost_after_s=60.0)) as control:
        n1, n2, n3 = nodes(control, "n1", "n2", "n3")
        async with alive(n1):
            number = await control.submit(policy={"backoff_s": 0.0})
            await control.reaches(number, "running")
            while_written(control, "x/0", "n2", become)
            await n2.register()
            async with alive(n3):
                n1.report(f"{number}:x/0.0", "failed", "boom")
                await control.until(lambda: incarnation_is(control, number, 3))
                (replica,) = (await control.job(number))["tasks"][0]["replicas"]
                assert replica["node"] != "n2"


@pytest.mark.parametrize("state", ["running", "finished"])
async def test_replica_that_recovers_during_a_restart_stays(settings, state, monkeypatch):
    monkeypatch.setattr("holdfast.control.api.routes.DONE_S", 0.1)  # the report of a finish is stored after the restart
    async with running(replace(settings, lost_after_s=60.0)) as control:
        n1, n2 = nodes(control, "n1", "n2")
        async with alive(n1):
            number = await control.submit(policy={"backoff_s": 0.0})
            await control.reaches(number, "running")
        replica, written = control.orchestrator.replicas.get(f"{number}:x/0.0"), []
        database = control.orchestrator.persistence.database
        write = database.write

        async def writing(changes):
            await write(changes)
            written.extend(row for change in changes for row in change.rows if row.get("task") == "x/0")
            if len(written) == 1:
                await n1.register()
                await n1.beat()
                assert replica.state == state

        async def twice():
            return len(written) == 2

        database.write = writing
        await n2.register()
        n1.report(replica.key, state)
        control.orchestrator.resources.mark_lost(control.orchestrator.resources.nodes["n1"], "it is silent")
        await control.until(twice)
        assert [(row["node"], row["incarnation"], row["finished"]) for row in written] == [
            ("n2", 2, False),
            ("n1", 1, state == "finished"),
        ]
        assert (replica.node, replica.incarnation, replica.state) == ("n1", 1, state)


async def test_user_and_observer_activate_replicas(settings):
    class Observer:
        seen: list[JobView]

        def __init__(self):
            self.seen = []

        async def observe(self, view):
            self.seen.append(view)
            return [Note("looked"), Activate("x/0", (1,))] if len(self.seen) == 1 else []

    async with running(settings) as control:
        observer = Observer()
        control.orchestrator.observers.set("light", observer)
        n1, n2 = nodes(control, "n1", "n2")
        async with alive(n1, n2):
            number = await control.submit(pes=TWICE)
            await control.reaches(number, "running")
            await control.until(lambda: are_active(control, number, [False, True]))
            answer = await control.call("POST", f"/v1/jobs/{number}/activation", json={"active": {"x/0": [0, 1]}})
            assert answer.status_code == 202
            assert await are_active(control, number, [True, True])
            assert observer.seen[0].job.job == "a"
            assert "looked" in await control.events()
            wrong = await control.call(
                "POST", f"/v1/jobs/{number}/activation", json={"active": {"x/0": [], "q/0": [1], "y/0": [4]}}
            )
            assert wrong.status_code == 422
            assert wrong.json()["error"] == (
                "task 'x/0' would have no active replica; name at least one; task 'q/0' does not exist in job 1; "
                "its tasks are: x/0, y/0; task 'y/0' has the replicas [0], got [4]"
            )


async def test_replica_failed_by_observer_is_restarted(settings):
    class Observer:
        async def observe(self, view):
            old = [r for r in view.replicas if r.state == "running" and r.incarnation == 1]
            return [FailReplica(r.key, r.incarnation, cause="it counts as hung") for r in old]

    async with running(settings) as control:
        control.orchestrator.observers.set("light", Observer())
        n1, n2 = nodes(control, "n1", "n2")
        async with alive(n1, n2):
            number = await control.submit(policy={"backoff_s": 0.0})
            await control.reaches(number, "running")
            await control.until(lambda: incarnation_is(control, number, 2))
            assert "failed: it counts as hung" in await control.events()
    assert sorted(n1.starts + n2.starts) == [("1:x/0.0", 1), ("1:x/0.0", 2)]


async def test_observer_moves_a_replica(settings):
    class Observer:
        async def observe(self, view):
            old = [r for r in view.replicas if r.state == "running" and r.incarnation == 1]
            return [Move(r.key, r.node, cause="it is better off there") for r in old]

    async with running(settings) as control:
        control.orchestrator.observers.set("light", Observer())
        n1, n2 = nodes(control, "n1", "n2")
        async with alive(n1, n2):
            number = await control.submit()
            await control.reaches(number, "running")
            await control.until(lambda: incarnation_is(control, number, 2))
    assert sorted([n1.starts, n2.starts]) == [[("1:x/0.0", 1)], [("1:x/0.0", 2)]]


async def test_observer_fails_a_job(settings):
    class Observer:
        async def observe(self, view):
            given_up = any(replica.state == "abandoned" for replica in view.replicas)
            return [FailJob("x/0 abandoned, and all else waits for it")] if given_up else []

    async with running(settings) as control:
        control.orchestrator.observers.set("light", Observer())
        (n1,) = nodes(control, "n1")
        async with alive(n1):
            number = await control.submit(type="finite", pes={"x": {}, "y": {}}, policy={"give_up_after": 1})
            await control.reaches(number, "running")
            n1.report(f"{number}:x/0.0", "failed", "boom")
            job = await control.reaches(number, "failed")
            assert job["reason"] == "x/0 abandoned, and all else waits for it"
            await control.until(lambda: is_empty(n1))


@pytest.mark.parametrize("restart", ["missing", "never"])
async def test_replica_left_dead_does_not_delay_its_job(settings, restart):
    async with running(settings) as control:
        n1, n2 = nodes(control, "n1", "n2")
        n1.state_of = lambda key: "failed"
        async with alive(n1, n2):
            number = await control.submit(pes={"x": {"replicas": 2}}, policy={"restart": restart})
            job = await control.reaches(number, "running")
            assert sorted(replica["state"] for replica in job["tasks"][0]["replicas"]) == ["failed", "running"]


@pytest.mark.parametrize("policy", [{"restart": "never"}, {"restart": "missing"}, {"give_up_after": 1}], ids=str)
async def test_task_is_finished_by_one_replica(settings, policy):
    async def _is_over(control, key):
        return control.orchestrator.replicas.get(key).state in OVER

    async with cluster(settings, "n1", "n2") as (control, n1, n2):
        number = await control.submit(type="finite", pes={"x": {"replicas": 2}, "y": {}}, policy=policy)
        await control.reaches(number, "running")
        has = {key: node for node in (n1, n2) for key in node.has}
        for key, state in ((f"{number}:x/0.0", "finished"), (f"{number}:x/0.1", "failed")):
            has[key].report(key, state)
            await control.until(lambda key=key: _is_over(control, key))
        has[f"{number}:y/0.0"].report(f"{number}:y/0.0", "finished")
        await control.reaches(number, "completed")
        assert len(n1.starts + n2.starts) == 3


async def test_machine_may_rename_its_states(settings, tmp_path):
    text = (files("holdfast.control.jobs") / "machines" / "streaming.toml").read_text()
    for name in ("streaming", "submitted", "dispatching", "running", "canceling"):
        text = re.sub(rf"\b{name}\b", f"my{name}", text)
    (tmp_path / "own.toml").write_text(text)

    seen = set()

    class Asking:
        async def observe(self, view):
            seen.add(view.state)
            return [Activate("x/0", (1,), cause="the observer decides so")]

    async with running(replace(settings, machines=(tmp_path / "own.toml",))) as control:
        control.orchestrator.observers.set("light", Asking())
        async with alive(*nodes(control, "n1", "n2")):
            job = {"job": "a", "type": "mystreaming", "host_kind": "light", "pes": TWICE}
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
