"""Ten mutants of the orchestrator, each with one safety rule removed, and the fast check that catches it."""

import asyncio
from dataclasses import replace

import pytest

from holdfast.control.api import routes
from holdfast.control.jobs import state_machine
from holdfast.control.jobs.persistence import Persistence
from holdfast.control.jobs.state_machine import WRITE
from holdfast.control.nodes.replicas import PlacedReplica, Replicas
from holdfast.control.nodes.resource_manager import ResourceManager
from holdfast.control.orchestrator import Orchestrator
from holdfast.control.storage import stored_jobs
from holdfast.control.storage.database import Candidate, Database, LeaseExpired, LeaseHeld
from holdfast.errors import HoldfastError

from .conftest import SimulatedNode, alive, cluster, running

LIMIT_S = 5.0


async def dispatching_is_stored_before_a_node_learns_of_it(settings, monkeypatch):
    async with running(settings) as control:
        stored = []
        dispatch = control.orchestrator.dispatch
        publish = dispatch._publish_placements

        def note(nodes):
            stored.append([job.state for job in control.orchestrator.persistence.database.read_blocking(stored_jobs.unended_jobs)])
            publish(nodes)

        monkeypatch.setattr(dispatch, "_publish_placements", note)
        async with alive(SimulatedNode(control, "n1")):
            await control.reaches(await control.submit(), "running")
        assert stored[0] == ["dispatching"]


async def call_without_database_is_not_acknowledged(settings, monkeypatch, call):
    async with cluster(settings, "n1") as (control, n1):
        number = await control.submit(pes={"x": {}, "y": {}})
        await control.reaches(number, "running")
        monkeypatch.setattr(routes, "DONE_S", 0.3)
        control.orchestrator.persistence.database.simulate_outage(60.0)
        answer = await call(control, n1, number)
        assert answer.status_code == 503


async def submit(control, node, number):
    return await control.call("POST", "/v1/jobs", json={"job": "b", "host_kind": "light", "pes": {"x": {}}})


async def cancel(control, node, number):
    return await control.call("POST", f"/v1/jobs/{number}/cancel", json={})


async def finish(control, node, number):
    node.report(f"{number}:x/0.0", "finished")
    return await node.beat()


def candidate(settings, name, lease_s=60.0):
    return Database(settings.database, report=lambda text: None, candidate=Candidate(name, f"http://{name}", lease_s))


async def replaced_leader_writes_nothing(settings, monkeypatch):
    old, new = candidate(settings, "same"), candidate(settings, "same")
    try:
        old.open()
        new.open()
        with pytest.raises(HoldfastError):
            await old.write(stored_jobs.set_draining("n1", True))
        assert new.read_blocking(stored_jobs.draining_nodes) == []
    finally:
        old.close()
        new.close()


async def second_orchestrator_is_refused(settings, monkeypatch):
    leader, second = candidate(settings, "a"), candidate(settings, "b")
    try:
        leader.open()
        with pytest.raises(LeaseHeld):
            second.open()
    finally:
        leader.close()
        second.close()


async def leader_without_database_steps_down(settings, monkeypatch):
    leader = candidate(settings, "a", lease_s=1.0)
    leader.open()
    leader.simulate_outage(60.0)
    try:
        with pytest.raises(LeaseExpired):
            await asyncio.wait_for(leader.keep_lease(), LIMIT_S)
    finally:
        leader.close()


async def leader_without_lease_answers_no_call(settings, monkeypatch):
    async with running(replace(settings, lease_s=60.0)) as control:
        await control.orchestrator.recovered.wait()
        control.orchestrator.persistence.database.lease_ends_s = 0.0
        assert (await control.call("GET", "/v1/jobs")).status_code == 421


async def report_of_an_earlier_incarnation_changes_nothing(settings, monkeypatch):
    replica = PlacedReplica(1, "x", 0, 0, "n1", incarnation=2, state="running")
    replica.observe("failed", incarnation=1, error="late", at_s=1.0)
    assert replica.state == "running"


async def acknowledged_reports_are_not_taken_again(settings, monkeypatch):
    async with cluster(settings, "n1") as (control, n1):
        number = await control.submit()
        await control.reaches(number, "running")
        control.orchestrator.resources.nodes["n1"].acknowledged = 10**6
        n1.report(f"{number}:x/0.0", "failed")
        n1.has.clear()
        n1.unacknowledged[0]["number"] = 1
        await n1.beat(host=None)
        assert (await control.job(number))["tasks"][0]["replicas"][0]["state"] == "running"


async def replica_on_a_silent_node_does_not_count_as_stopped(settings, monkeypatch):
    table, replica = Replicas(), PlacedReplica(1, "x", 0, 0, "n1")
    table.add(replica)
    table.leave(replica, "n1", until=3)
    assert table.confirm("n1", 2) == [] and replica.left_on == {"n1"}
    assert table.confirm("n1", 3) == [replica] and not replica.left_on


def persist_after_action(monkeypatch):
    real = state_machine.step

    def late(machine, lifecycle, event):
        moved, commands = real(machine, lifecycle, event)
        return moved, sorted(commands, key=lambda command: command.name == WRITE)

    monkeypatch.setattr("holdfast.control.orchestrator.step", late)


def acknowledge_submission_before_write(monkeypatch):
    async def later(self, job):
        self.orchestrator.spawn(Persistence_write_job(self, job))

    Persistence_write_job = Persistence.write_job
    monkeypatch.setattr(Persistence, "write_job", later)


def acknowledge_cancel_before_write(monkeypatch):
    async def at_once(self, event, *, within_s):
        return True

    monkeypatch.setattr(Orchestrator, "wait_until_processed", at_once)


def acknowledge_report_before_write(monkeypatch):
    async def at_once(self):
        return

    monkeypatch.setattr(routes.Api, "_until_stored", at_once)


def do_not_check_the_term(monkeypatch):
    monkeypatch.setattr(Database, "_is_committed", lambda self, connection, number: False)
    monkeypatch.setattr(Database, "_commit_if_leader", lambda self, connection, number: None)


def do_not_check_the_lease_of_another(monkeypatch):
    monkeypatch.setattr(Database, "_living_leader", lambda self, connection: None)
    monkeypatch.setattr("holdfast.control.storage.lease.or_", lambda *conditions: True)


def keep_leading_without_lease(monkeypatch):
    async def keep(self):
        await asyncio.Event().wait()

    monkeypatch.setattr(Database, "keep_lease", keep)


def answer_without_lease(monkeypatch):
    monkeypatch.setattr(Database, "leads", property(lambda self: True))


def do_not_check_the_incarnation(monkeypatch):
    real = PlacedReplica.observe
    monkeypatch.setattr(
        PlacedReplica,
        "observe",
        lambda self, state, *, incarnation, error, at_s: real(self, state, incarnation=self.incarnation, error=error, at_s=at_s),
    )


def take_acknowledged_reports(monkeypatch):
    real = ResourceManager.take_beat

    def take(self, node, beat):
        node.acknowledged = 0
        return real(self, node, beat)

    monkeypatch.setattr(ResourceManager, "take_beat", take)


def confirm_any_generation(monkeypatch):
    real = Replicas.confirm
    monkeypatch.setattr(Replicas, "confirm", lambda self, node, generation: real(self, node, 10**9))


def calling(call):
    return lambda settings, monkeypatch: call_without_database_is_not_acknowledged(settings, monkeypatch, call)


MUTANTS = [
    (persist_after_action, dispatching_is_stored_before_a_node_learns_of_it),
    (acknowledge_submission_before_write, calling(submit)),
    (acknowledge_cancel_before_write, calling(cancel)),
    (acknowledge_report_before_write, calling(finish)),
    (do_not_check_the_term, replaced_leader_writes_nothing),
    (do_not_check_the_lease_of_another, second_orchestrator_is_refused),
    (keep_leading_without_lease, leader_without_database_steps_down),
    (answer_without_lease, leader_without_lease_answers_no_call),
    (do_not_check_the_incarnation, report_of_an_earlier_incarnation_changes_nothing),
    (take_acknowledged_reports, acknowledged_reports_are_not_taken_again),
    (confirm_any_generation, replica_on_a_silent_node_does_not_count_as_stopped),
]


@pytest.mark.parametrize("check", [check for _, check in MUTANTS], ids=[mutant.__name__ for mutant, _ in MUTANTS])
async def test_orchestrator_follows_the_rule(settings, monkeypatch, check):
    await check(settings, monkeypatch)


@pytest.mark.parametrize(("mutant", "check"), MUTANTS, ids=[mutant.__name__ for mutant, _ in MUTANTS])
async def test_mutant_is_caught(settings, monkeypatch, mutant, check):
    mutant(monkeypatch)
    with pytest.raises((AssertionError, TimeoutError, pytest.fail.Exception)):
        await check(settings, monkeypatch)
