"""A node controller with light PEs, against an orchestrator in memory."""

import asyncio
import contextlib
import os
import re

import pytest

from holdfast.errors import HoldfastError
from holdfast.protocol.http_client import HttpResponse
from holdfast.protocol.messages import AgentStatus, AssignedReplica, Assignment, FaultOrder, HostStatus
from holdfast.protocol.node_link import CallRefused
from holdfast_papers.system_s.node_fleet import InProcessHost

A = AssignedReplica(job=1, pe="a", task=0, replica=0)
B = AssignedReplica(job=1, pe="b", task=0, replica=0)


def again(replica: AssignedReplica, incarnation: int) -> AssignedReplica:
    return replica.model_copy(update={"incarnation": incarnation})


def test_replica_starts_once_and_reports_states_in_order(bench):
    async def scenario(bench):
        bench.orchestrator.assign(A)
        await bench.until(lambda: bench.reported()[-1:] == [(A.key, 1, "running")])
        bench.orchestrator.assign()
        await bench.until(lambda: bench.reported()[-1:] == [(A.key, 1, "stopped")])

    bench.play(scenario)
    assert [state for _, _, state in bench.reported()] == ["starting", "running", "stopped"]
    assert bench.starts == [(A.key, 1)]


def test_reports_arrive_in_order_after_an_outage(bench):
    async def scenario(bench):
        bench.orchestrator.assign(A, B)
        await bench.until(lambda: len(bench.reported()) == 4)
        bench.orchestrator.unreachable = True
        bench.host.fail((A.key,), "first")
        await bench.until(lambda: len(bench.controller.reports) == 1)
        bench.host.fail((B.key,), "second")
        await bench.until(lambda: len(bench.controller.reports) == 2)
        bench.orchestrator.replaced()
        bench.orchestrator.unreachable, bench.orchestrator.recovering = False, True
        await bench.until(lambda: len(bench.orchestrator.registrations) > 1)
        assert len(bench.controller.reports) == 2
        bench.orchestrator.recovering = False
        await bench.until(lambda: len(bench.reported()) == 6)

    bench.play(scenario)
    assert [(r.key, r.state, r.error) for r in bench.orchestrator.reports[4:6]] == [
        (A.key, "failed", "first"),
        (B.key, "failed", "second"),
    ]
    back = bench.orchestrator.registrations[-1]
    assert {(r.key, r.state) for r in back.replicas} == {(A.key, "failed"), (B.key, "failed")}


def test_registration_includes_the_agents(bench):
    class Agents:
        def statuses(self):
            return (AgentStatus(key="1:a/0", alive=True, revision=3, orders={"lead_s": 0.1}),)

        def assign(self, assignment):
            pass

        def check(self):
            pass

        async def stop(self):
            pass

    async def scenario(bench):
        await bench.until(lambda: bench.orchestrator.registrations)
        bench.controller.agents = Agents()
        bench.orchestrator.replaced()
        await bench.until(lambda: len(bench.orchestrator.registrations) > 1)

    bench.play(scenario)
    (agent,) = bench.orchestrator.registrations[-1].agents
    assert (agent.key, agent.revision, agent.orders) == ("1:a/0", 3, {"lead_s": 0.1})


def test_registration_includes_the_pe_host(bench):
    async def scenario(bench):
        bench.orchestrator.assign(A)
        await bench.until(lambda: (A.key, 1, "running") in bench.reported())
        bench.orchestrator.replaced()
        await bench.until(lambda: len(bench.orchestrator.registrations) > 1)

    bench.play(scenario)
    back = bench.orchestrator.registrations[-1]
    assert (back.process.pid, back.process.ready, back.process.replicas) == (os.getpid(), True, ())
    assert [replica.key for replica in back.replicas] == [A.key]


def test_report_is_sent_again_after_a_lost_answer_and_counts_once(bench):
    async def scenario(bench):
        bench.orchestrator.lose_answers = 3
        bench.orchestrator.assign(A)
        await bench.until(lambda: (A.key, 1, "running") in bench.reported() and not len(bench.controller.reports))

    bench.play(scenario)
    assert bench.reported()[:2] == [(A.key, 1, "starting"), (A.key, 1, "running")]
    numbers = [report.number for report in bench.orchestrator.reports]
    assert numbers == sorted(set(numbers))


def test_failed_replica_restarts_only_with_a_higher_incarnation(bench):
    async def scenario(bench):
        bench.orchestrator.assign(A)
        await bench.until(lambda: (A.key, 1, "running") in bench.reported())
        bench.host.fail((A.key,), "broken")
        await bench.until(lambda: (A.key, 1, "failed") in bench.reported())
        bench.orchestrator.assign(A, B)
        await bench.until(lambda: (B.key, 1, "running") in bench.reported())
        assert bench.starts == [(A.key, 1), (B.key, 1)]
        bench.orchestrator.assign(again(A, 2), B)
        await bench.until(lambda: (A.key, 2, "running") in bench.reported())

    bench.play(scenario)
    assert bench.starts == [(A.key, 1), (B.key, 1), (A.key, 2)]


def test_finished_replica_stays_finished_under_a_new_orchestrator(bench):
    async def scenario(bench):
        bench.orchestrator.assign(A, jobs={1: {"pes": {"a": {"lives_s": 0.1}}}})
        await bench.until(lambda: (A.key, 1, "finished") in bench.reported())
        bench.orchestrator.replaced()
        await bench.until(lambda: bench.controller.assignment.term == 2)
        assert [(r.key, r.state) for r in bench.orchestrator.registrations[-1].replicas] == [(A.key, "finished")]

    bench.play(scenario)
    assert bench.starts == [(A.key, 1)]


def test_inactive_replica_is_idle_until_activated(bench):
    async def scenario(bench):
        bench.orchestrator.assign(A.model_copy(update={"active": False}))
        await bench.until(lambda: (A.key, 1, "idle") in bench.reported())
        bench.orchestrator.assign(A)
        await bench.until(lambda: (A.key, 1, "running") in bench.reported())

    bench.play(scenario)
    assert bench.starts == [(A.key, 1)]


def test_assignment_of_an_older_term_is_ignored(bench):
    async def scenario(bench):
        bench.orchestrator.replaced()
        bench.orchestrator.assign(A)
        await bench.until(lambda: (A.key, 1, "running") in bench.reported())
        bench.orchestrator.term = 1
        bench.orchestrator.known = False
        await bench.until(lambda: any("already obeyed term 2" in line for line in bench.log))
        assert bench.controller.assignment.replicas == (A,)

    bench.play(scenario)


def test_stopped_node_reports_its_replicas_as_lost(bench):
    async def scenario(bench):
        bench.orchestrator.assign(A)
        await bench.until(lambda: (A.key, 1, "running") in bench.reported())

    bench.play(scenario)
    last = bench.orchestrator.reports[-1]
    assert (last.key, last.state, last.error) == (A.key, "lost", "node n1 was stopped")


class Silent(InProcessHost):
    """A host that lives and, once it hangs, does not beat until it is stopped."""

    hung = False

    def status(self):
        status = super().status()
        return status and status.model_copy(update={"beat_s": 1.0}) if self.hung else status

    async def stop(self, grace_s):
        self.hung = False
        await super().stop(grace_s)

    async def changed(self):
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.01):
                await super().changed()


def test_silent_host_is_killed_and_its_replicas_are_lost(bench):
    bench.host = Silent(lambda assigned: bench.starts.append((assigned.key, assigned.incarnation)))
    bench.hung_after_s = 0.3

    async def scenario(bench):
        bench.orchestrator.assign(A)
        await bench.until(lambda: (A.key, 1, "running") in bench.reported())
        bench.host.hung = True
        await bench.until(lambda: (A.key, 1, "lost") in bench.reported())
        bench.orchestrator.assign(again(A, 2))
        await bench.until(lambda: (A.key, 2, "running") in bench.reported())

    bench.play(scenario)
    (error,) = [r.error for r in bench.orchestrator.reports if (r.incarnation, r.state) == (1, "lost")]
    assert re.fullmatch(r"the PE host was silent for \d s and was killed", error)
    assert bench.starts == [(A.key, 1), (A.key, 2)]


class LeftBehind(InProcessHost):
    """A host that died before its controller started and left its last status."""

    left = HostStatus(pid=1, started_s=0.0, beat_s=1.0, error="there was no Java")

    def status(self):
        return super().status() or self.left


def test_host_dead_before_the_controller_started_restarts_at_once(bench):
    async def assigned(bench):
        bench.orchestrator.assign(A)
        await bench.until(lambda: bench.controller.assignment.replicas == (A,))

    bench.play(assigned, host=Unable(lambda assigned: None))

    async def back(bench):
        await bench.until(lambda: (A.key, 1, "running") in bench.reported())
        assert [state for _, _, state in bench.reported()] == ["starting", "running"]

    bench.log.clear()
    bench.play(back, host=LeftBehind(lambda assigned: None))
    assert [line for line in bench.log if "starting it again" in line] == []


def test_wrong_token_ends_the_node_with_the_orchestrators_error(bench):
    bench.token = "guess"

    async def scenario(bench):
        await bench.until(lambda: bench.running.done())

    with pytest.raises(CallRefused, match=r"answered 401: wrong token"):
        bench.play(scenario)


def test_unreachable_orchestrator_is_logged_once(bench):
    async def scenario(bench):
        bench.orchestrator.assign(A)
        await bench.until(lambda: (A.key, 1, "running") in bench.reported())
        bench.orchestrator.unreachable = True
        await bench.until(lambda: bench.orchestrator.refused >= 3)
        bench.orchestrator.unreachable = False
        tries = len(bench.orchestrator.registrations)
        await bench.until(lambda: len(bench.orchestrator.registrations) > tries)

    bench.play(scenario)
    assert sum("is unreachable" in line for line in bench.log) == 1


@pytest.mark.parametrize("status", [401, 422, 500, 502])
def test_refused_registration_after_a_restart_leaves_pes_alone(bench, status):
    async def scenario(bench):
        bench.orchestrator.assign(A)
        await bench.until(lambda: (A.key, 1, "running") in bench.reported())

    bench.play(scenario)

    async def back(bench):
        bench.orchestrator.answers = status
        await bench.until(lambda: any(f"answered {status}" in line for line in bench.log))
        bench.orchestrator.answers = None
        await bench.until(lambda: any("registered as n1" in line for line in bench.log))

    bench.log.clear()
    bench.play(back, host=InProcessHost(lambda assigned: None))


def test_controller_waits_while_its_name_is_taken(bench):
    async def scenario(bench):
        bench.orchestrator.answers = 409
        await bench.until(lambda: any("answered 409" in line for line in bench.log))
        assert not bench.running.done()
        bench.orchestrator.answers = None
        bench.orchestrator.assign(A)
        await bench.until(lambda: (A.key, 1, "running") in bench.reported())
        owner = bench.controller.reports.owner
        assert len(owner) == 32
        assert {message.controller for message in (*bench.orchestrator.registrations, *bench.orchestrator.beats)} == {owner}

    bench.play(scenario)


def test_controller_survives_a_full_disk(bench, monkeypatch):
    monkeypatch.setattr("holdfast.node.controller.RETRY_MAX_S", 0.1)
    assign, full = bench.host.assign, [False]

    def assigned(assignment):
        if full[0]:
            raise OSError(28, "No space left on device")
        assign(assignment)

    bench.host.assign = assigned

    async def scenario(bench):
        await bench.until(bench.host.alive)
        full[0] = True
        bench.orchestrator.assign(A)
        await bench.until(lambda: any("cannot store the assignment" in line for line in bench.log))
        full[0] = False
        bench.orchestrator.assign(A)  # the generation has grown, as after any registration
        await bench.until(lambda: (A.key, 1, "running") in bench.reported())

    bench.play(scenario)


def test_storage_error_is_logged_once_and_removed_folder_ends_node(bench, monkeypatch):
    monkeypatch.setattr("holdfast.node.controller.RETRY_MAX_S", 0.01)
    tries = []

    def assigned(assignment):
        tries.append(assignment)
        raise FileNotFoundError(2, "No such file or directory")

    async def scenario(bench):
        await bench.until(bench.host.alive)
        bench.host.assign = assigned
        for number in range(4):
            bench.orchestrator.assign(A)
            await bench.until(lambda number=number: len(tries) > number)
        assert sum("cannot store the assignment" in line for line in bench.log) == 1
        bench.host.has_work_folder = lambda: False
        bench.orchestrator.assign(A)
        await asyncio.wait([bench.running])

    with pytest.raises(HoldfastError, match="the --work folder of node n1 was removed, and its PE host ends; start the node again"):
        bench.play(scenario)
    bench.controller.reports.close()


def test_node_stopped_soon_after_a_recovery_still_reports_its_replicas(bench):
    async def scenario(bench):
        bench.orchestrator.assign(A)
        await bench.until(lambda: (A.key, 1, "running") in bench.reported())
        bench.orchestrator.recovering = True
        bench.host.fail((A.key,), "broken")
        await bench.until(lambda: any("answered 503" in line for line in bench.log))
        bench.orchestrator.recovering = False
        await bench.until(lambda: (A.key, 1, "failed") in bench.reported())
        bench.orchestrator.assign(A, B)
        await bench.until(lambda: (B.key, 1, "running") in bench.reported())

    bench.play(scenario)
    assert (B.key, 1, "lost") in bench.reported()


def test_fault_order_is_announced_and_then_injected_once(bench):
    injected = []

    async def scenario(bench):
        bench.controller._inject = lambda order: injected.append((order.number, bench.orchestrator.beats[-1].fault))
        for _ in range(2):  # the second assignment still has the order
            bench.orchestrator.assign(A)
            order = FaultOrder(number=7, kind="crash-host")
            bench.orchestrator.assignment = bench.orchestrator.assignment.model_copy(update={"faults": (order,)})
            generation = bench.orchestrator.assignment.generation
            await bench.until(lambda generation=generation: bench.controller.assignment.generation == generation)
        await bench.until(lambda: injected)

    bench.play(scenario)
    assert injected == [(7, 7)]
    assert bench.controller.assignment.faults == ()


class Unable(InProcessHost):
    """A host that never starts."""

    def start(self, assignment):
        pass

    def assign(self, assignment):
        pass

    async def changed(self):
        await asyncio.sleep(0.01)


def test_beat_names_the_assignment_of_which_nothing_runs(bench):
    async def scenario(bench):
        bench.orchestrator.assign()
        await bench.until(lambda: any(beat.unhosted == 1 for beat in bench.orchestrator.beats))
        bench.orchestrator.replaced()
        await bench.until(lambda: bench.orchestrator.beats[-1].term == 2 and bench.orchestrator.beats[-1].unhosted == 1)

    bench.play(scenario, host=Unable(lambda assigned: None))
    assert all(beat.host is None for beat in bench.orchestrator.beats)


class Gone(Unable):
    """A host that reported why it ended and has not started again."""

    def __init__(self, *, ready):
        super().__init__(lambda assigned: None)
        self.last_status = HostStatus(pid=1, started_s=0.0, beat_s=1.0, ready=ready, error="Spark's JVM was killed by SIGKILL")
        self.looks = 0

    def status(self):
        self.looks += 1
        return self.last_status


@pytest.mark.parametrize(("ready", "states"), [(False, ["failed"]), (True, [])])
def test_waiting_replicas_fail_only_if_the_host_could_not_start(bench, ready, states):
    host = Gone(ready=ready)

    async def scenario(bench):
        bench.orchestrator.assign(A)
        await bench.until(lambda: any(beat.unhosted == 1 for beat in bench.orchestrator.beats))
        looks = host.looks
        await bench.until(lambda: host.looks > looks + 10 and len(bench.reported()) >= len(states))
        assert [state for _, _, state in bench.reported()] == states

    bench.play(scenario, host=host)


def test_beat_of_a_living_host_leaves_unhosted_empty(bench):
    async def scenario(bench):
        await bench.until(bench.host.alive)
        bench.orchestrator.assign(A)
        await bench.until(lambda: (A.key, 1, "running") in bench.reported())
        assert bench.orchestrator.beats[-1].host is not None
        assert bench.orchestrator.beats[-1].unhosted is None

    bench.play(scenario)


def test_assignment_of_a_replaced_orchestrator_is_ignored(bench):
    """Its answer arrives after the node has registered with the next orchestrator, which has not assigned anything yet."""

    async def scenario(bench):
        bench.orchestrator.assign(AssignedReplica(job=1, pe="x", task=0, replica=0))
        await bench.until(lambda: bench.starts)
        late = bench.orchestrator.assignment.model_copy(update={"generation": 99, "replicas": ()})
        answers = [late, None]
        held = bench.orchestrator.held

        async def late_first(term, generation):
            if (answer := answers.pop(0) if answers else None) is not None:
                return HttpResponse(200, answer.model_dump_json().encode())
            return await held(term, generation)

        bench.orchestrator.held = late_first
        bench.orchestrator.replaced()
        bench.orchestrator.assignment = bench.orchestrator.assignment.model_copy(update={"generation": 2})
        await bench.until(lambda: bench.controller.assignment.term == 2)
        assert not answers
        assert len(bench.starts) == 1 and bench.controller.assignment.replicas

    bench.play(scenario)


def test_orchestrator_that_uses_a_term_twice_is_not_obeyed(bench):
    """Its database lost transactions in a failover, so it has taken a term that the node already knows."""

    async def scenario(bench):
        for _ in range(3):
            bench.orchestrator.assign(AssignedReplica(job=1, pe="x", task=0, replica=0))
        await bench.until(lambda: bench.controller.assignment.generation == 3)
        bench.orchestrator.known = False
        bench.orchestrator.assignment = Assignment(term=1, generation=1)
        await bench.until(lambda: any("uses term 1 for a second time" in line for line in bench.log))
        assert bench.controller.assignment.replicas
        bench.orchestrator.replaced()
        await bench.until(lambda: bench.controller.assignment.term == 2)

    bench.play(scenario)
