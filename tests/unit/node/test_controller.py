"""A node controller with light PEs, against an orchestrator in memory."""

import asyncio
import contextlib
import os
import re

import pytest

from holdfast.errors import HoldfastError
from holdfast.protocol.messages import AgentStatus, AssignedReplica, HostStatus
from holdfast.protocol.node_link import CallRefused
from holdfast.trial.node_fleet import InnerHost

A = AssignedReplica(job=1, pe="a", task=0, replica=0)
B = AssignedReplica(job=1, pe="b", task=0, replica=0)


def again(replica: AssignedReplica, incarnation: int) -> AssignedReplica:
    return replica.model_copy(update={"incarnation": incarnation})


def test_a_replica_is_started_once_and_every_state_is_reported_in_order(bench):
    async def story(bench):
        bench.orchestrator.assign(A)
        await bench.until(lambda: bench.told()[-1:] == [(A.key, 1, "running")])
        bench.orchestrator.assign()
        await bench.until(lambda: bench.told()[-1:] == [(A.key, 1, "stopped")])

    bench.play(story)
    assert [state for _, _, state in bench.told()] == ["starting", "running", "stopped"]
    assert bench.starts == [(A.key, 1)]


def test_reports_made_while_the_orchestrator_is_away_arrive_in_order_when_it_is_back(bench):
    async def story(bench):
        bench.orchestrator.assign(A, B)
        await bench.until(lambda: len(bench.told()) == 4)
        bench.orchestrator.away = True
        bench.host.fail((A.key,), "first")
        await bench.until(lambda: len(bench.controller.reports) == 1)
        bench.host.fail((B.key,), "second")
        await bench.until(lambda: len(bench.controller.reports) == 2)
        bench.orchestrator.replaced()
        bench.orchestrator.away, bench.orchestrator.recovering = False, True
        await bench.until(lambda: len(bench.orchestrator.registrations) > 1)
        assert len(bench.controller.reports) == 2
        bench.orchestrator.recovering = False
        await bench.until(lambda: len(bench.told()) == 6)

    bench.play(story)
    assert [(r.key, r.state, r.error) for r in bench.orchestrator.reports[4:6]] == [
        (A.key, "failed", "first"),
        (B.key, "failed", "second"),
    ]
    back = bench.orchestrator.registrations[-1]
    assert {(r.key, r.state) for r in back.replicas} == {(A.key, "failed"), (B.key, "failed")}


def test_a_new_orchestrator_is_told_of_the_agents_with_the_registration(bench):
    class Agents:
        def statuses(self):
            return (AgentStatus(key="1:a/0", alive=True, revision=3, orders={"lead_s": 0.1}),)

        def assign(self, assignment):
            pass

        def check(self):
            pass

        async def stop(self):
            pass

    async def story(bench):
        await bench.until(lambda: bench.orchestrator.registrations)
        bench.controller.agents = Agents()
        bench.orchestrator.replaced()
        await bench.until(lambda: len(bench.orchestrator.registrations) > 1)

    bench.play(story)
    (agent,) = bench.orchestrator.registrations[-1].agents
    assert (agent.key, agent.revision, agent.orders) == ("1:a/0", 3, {"lead_s": 0.1})


def test_a_new_orchestrator_is_told_of_the_pe_host_with_the_registration(bench):
    async def story(bench):
        bench.orchestrator.assign(A)
        await bench.until(lambda: (A.key, 1, "running") in bench.told())
        bench.orchestrator.replaced()
        await bench.until(lambda: len(bench.orchestrator.registrations) > 1)

    bench.play(story)
    back = bench.orchestrator.registrations[-1]
    assert (back.process.pid, back.process.ready, back.process.replicas) == (os.getpid(), True, ())
    assert [replica.key for replica in back.replicas] == [A.key]


def test_a_report_whose_answer_was_lost_is_sent_again_and_counts_once(bench):
    async def story(bench):
        bench.orchestrator.lose_answers = 3
        bench.orchestrator.assign(A)
        await bench.until(lambda: (A.key, 1, "running") in bench.told() and not len(bench.controller.reports))

    bench.play(story)
    assert bench.told()[:2] == [(A.key, 1, "starting"), (A.key, 1, "running")]
    numbers = [report.number for report in bench.orchestrator.reports]
    assert numbers == sorted(set(numbers))


def test_a_failed_replica_is_started_anew_by_a_higher_incarnation_only(bench):
    async def story(bench):
        bench.orchestrator.assign(A)
        await bench.until(lambda: (A.key, 1, "running") in bench.told())
        bench.host.fail((A.key,), "broken")
        await bench.until(lambda: (A.key, 1, "failed") in bench.told())
        bench.orchestrator.assign(A, B)
        await bench.until(lambda: (B.key, 1, "running") in bench.told())
        assert bench.starts == [(A.key, 1), (B.key, 1)]
        bench.orchestrator.assign(again(A, 2), B)
        await bench.until(lambda: (A.key, 2, "running") in bench.told())

    bench.play(story)
    assert bench.starts == [(A.key, 1), (B.key, 1), (A.key, 2)]


def test_a_finished_replica_stays_finished_when_another_orchestrator_asks_for_it_again(bench):
    async def story(bench):
        bench.orchestrator.assign(A, jobs={1: {"pes": {"a": {"lives_s": 0.1}}}})
        await bench.until(lambda: (A.key, 1, "finished") in bench.told())
        bench.orchestrator.replaced()
        await bench.until(lambda: bench.controller.assignment.term == 2)
        assert [(r.key, r.state) for r in bench.orchestrator.registrations[-1].replicas] == [(A.key, "finished")]

    bench.play(story)
    assert bench.starts == [(A.key, 1)]


def test_inactive_replicas_are_idle_and_wake_when_told(bench):
    async def story(bench):
        bench.orchestrator.assign(A.model_copy(update={"active": False}))
        await bench.until(lambda: (A.key, 1, "idle") in bench.told())
        bench.orchestrator.assign(A)
        await bench.until(lambda: (A.key, 1, "running") in bench.told())

    bench.play(story)
    assert bench.starts == [(A.key, 1)]


def test_an_assignment_of_an_older_term_is_not_carried_out(bench):
    async def story(bench):
        bench.orchestrator.replaced()
        bench.orchestrator.assign(A)
        await bench.until(lambda: (A.key, 1, "running") in bench.told())
        bench.orchestrator.term = 1
        bench.orchestrator.known = False
        await bench.until(lambda: any("already obeyed term 2" in line for line in bench.log))
        assert bench.controller.assignment.replicas == (A,)

    bench.play(story)


def test_a_node_that_is_stopped_says_what_became_of_its_replicas(bench):
    async def story(bench):
        bench.orchestrator.assign(A)
        await bench.until(lambda: (A.key, 1, "running") in bench.told())

    bench.play(story)
    last = bench.orchestrator.reports[-1]
    assert (last.key, last.state, last.error) == (A.key, "failed", "node n1 was stopped")


class Silent(InnerHost):
    """A host that lives and, once it is hung, beats no more until it is stopped."""

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


def test_a_host_that_is_silent_for_too_long_is_killed_and_what_it_had_has_failed(bench):
    bench.host = Silent(lambda assigned: bench.starts.append((assigned.key, assigned.incarnation)))
    bench.hung_after_s = 0.3

    async def story(bench):
        bench.orchestrator.assign(A)
        await bench.until(lambda: (A.key, 1, "running") in bench.told())
        bench.host.hung = True
        await bench.until(lambda: (A.key, 1, "failed") in bench.told())
        bench.orchestrator.assign(again(A, 2))
        await bench.until(lambda: (A.key, 2, "running") in bench.told())

    bench.play(story)
    (error,) = [r.error for r in bench.orchestrator.reports if (r.incarnation, r.state) == (1, "failed")]
    assert re.fullmatch(r"the PE host was silent for \d s and was killed", error)
    assert bench.starts == [(A.key, 1), (A.key, 2)]


class LeftBehind(InnerHost):
    """A host that was gone before its controller came, and whose last words are still there."""

    left = HostStatus(pid=1, started_s=0.0, beat_s=1.0, error="there was no Java")

    def status(self):
        return super().status() or self.left


def test_a_host_that_was_gone_when_its_controller_came_is_no_death_and_the_next_is_started_at_once(bench):
    async def assigned(bench):
        bench.orchestrator.assign(A)
        await bench.until(lambda: bench.controller.assignment.replicas == (A,))

    bench.play(assigned, host=Unable(lambda assigned: None))

    async def back(bench):
        await bench.until(lambda: (A.key, 1, "running") in bench.told())
        assert [state for _, _, state in bench.told()] == ["starting", "running"]

    bench.log.clear()
    bench.play(back, host=LeftBehind(lambda assigned: None))
    assert [line for line in bench.log if "starting it again" in line] == []


def test_a_node_with_a_wrong_token_ends_with_what_the_orchestrator_said(bench):
    bench.token = "guess"

    async def story(bench):
        await bench.until(lambda: bench.running.done())

    with pytest.raises(CallRefused, match=r"answered 401: wrong token"):
        bench.play(story)


def test_the_log_tells_once_that_the_orchestrator_is_away(bench):
    async def story(bench):
        bench.orchestrator.assign(A)
        await bench.until(lambda: (A.key, 1, "running") in bench.told())
        bench.orchestrator.away = True
        await bench.until(lambda: bench.orchestrator.refused >= 3)
        bench.orchestrator.away = False
        tries = len(bench.orchestrator.registrations)
        await bench.until(lambda: len(bench.orchestrator.registrations) > tries)

    bench.play(story)
    assert sum("is unreachable" in line for line in bench.log) == 1


@pytest.mark.parametrize("status", [401, 422, 500, 502])
def test_a_controller_that_was_killed_and_is_refused_when_it_is_back_leaves_its_pes_alone(bench, status):
    async def story(bench):
        bench.orchestrator.assign(A)
        await bench.until(lambda: (A.key, 1, "running") in bench.told())

    bench.play(story)

    async def back(bench):
        bench.orchestrator.answers = status
        await bench.until(lambda: any(f"answered {status}" in line for line in bench.log))
        bench.orchestrator.answers = None
        await bench.until(lambda: any("registered as n1" in line for line in bench.log))

    bench.log.clear()
    bench.play(back, host=InnerHost(lambda assigned: None))


def test_a_controller_waits_while_another_one_is_its_node(bench):
    async def story(bench):
        bench.orchestrator.answers = 409
        await bench.until(lambda: any("answered 409" in line for line in bench.log))
        assert not bench.running.done()
        bench.orchestrator.answers = None
        bench.orchestrator.assign(A)
        await bench.until(lambda: (A.key, 1, "running") in bench.told())
        owner = bench.controller.reports.owner
        assert len(owner) == 32
        assert {message.controller for message in (*bench.orchestrator.registrations, *bench.orchestrator.beats)} == {owner}

    bench.play(story)


def test_a_full_disk_costs_a_controller_nothing_but_time(bench, monkeypatch):
    monkeypatch.setattr("holdfast.node.controller.RETRY_MAX_S", 0.1)
    assign, full = bench.host.assign, [False]

    def assigned(assignment):
        if full[0]:
            raise OSError(28, "No space left on device")
        assign(assignment)

    bench.host.assign = assigned

    async def story(bench):
        await bench.until(bench.host.alive)
        full[0] = True
        bench.orchestrator.assign(A)
        await bench.until(lambda: any("cannot store the assignment" in line for line in bench.log))
        full[0] = False
        bench.orchestrator.assign(A)  # as after any registration: the generation has grown
        await bench.until(lambda: (A.key, 1, "running") in bench.told())

    bench.play(story)


def test_a_trouble_with_its_files_is_told_once_and_without_their_folder_a_node_ends(bench, monkeypatch):
    monkeypatch.setattr("holdfast.node.controller.RETRY_MAX_S", 0.01)
    tries = []

    def assigned(assignment):
        tries.append(assignment)
        raise FileNotFoundError(2, "No such file or directory")

    async def story(bench):
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
        bench.play(story)
    bench.controller.reports.close()


def test_a_node_that_is_stopped_soon_after_a_recovery_still_says_what_became_of_its_replicas(bench):
    async def story(bench):
        bench.orchestrator.assign(A)
        await bench.until(lambda: (A.key, 1, "running") in bench.told())
        bench.orchestrator.recovering = True
        bench.host.fail((A.key,), "broken")
        await bench.until(lambda: any("answered 503" in line for line in bench.log))
        bench.orchestrator.recovering = False
        await bench.until(lambda: (A.key, 1, "failed") in bench.told())
        bench.orchestrator.assign(A, B)
        await bench.until(lambda: (B.key, 1, "running") in bench.told())

    bench.play(story)
    assert (B.key, 1, "failed") in bench.told()


class Unable(InnerHost):
    """A host that never starts."""

    def start(self, assignment):
        pass

    def assign(self, assignment):
        pass

    async def changed(self):
        await asyncio.sleep(0.01)


def test_a_node_whose_host_cannot_start_says_which_assignment_nothing_runs_of(bench):
    async def story(bench):
        bench.orchestrator.assign()
        await bench.until(lambda: any(beat.unhosted == 1 for beat in bench.orchestrator.beats))
        bench.orchestrator.replaced()
        await bench.until(lambda: bench.orchestrator.beats[-1].term == 2 and bench.orchestrator.beats[-1].unhosted == 1)

    bench.play(story, host=Unable(lambda assigned: None))
    assert all(beat.host is None for beat in bench.orchestrator.beats)


class Gone(Unable):
    """A host that has said why it ended, before it was ready or later, and is not back yet."""

    def __init__(self, *, ready):
        super().__init__(lambda assigned: None)
        self.said = HostStatus(pid=1, started_s=0.0, beat_s=1.0, ready=ready, error="Spark's JVM was killed by SIGKILL")
        self.looks = 0

    def status(self):
        self.looks += 1
        return self.said


@pytest.mark.parametrize(("ready", "told"), [(False, ["failed"]), (True, [])])
def test_what_waits_for_a_host_has_failed_only_where_it_could_not_start(bench, ready, told):
    host = Gone(ready=ready)

    async def story(bench):
        bench.orchestrator.assign(A)
        await bench.until(lambda: any(beat.unhosted == 1 for beat in bench.orchestrator.beats))
        looks = host.looks
        await bench.until(lambda: host.looks > looks + 10 and len(bench.told()) >= len(told))
        assert [state for _, _, state in bench.told()] == told

    bench.play(story, host=host)


def test_a_node_whose_host_lives_leaves_it_to_that_to_say_what_it_has(bench):
    async def story(bench):
        await bench.until(bench.host.alive)
        bench.orchestrator.assign(A)
        await bench.until(lambda: (A.key, 1, "running") in bench.told())
        assert bench.orchestrator.beats[-1].host is not None
        assert bench.orchestrator.beats[-1].unhosted is None

    bench.play(story)
