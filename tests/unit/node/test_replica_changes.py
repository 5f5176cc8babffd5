"""The pure functions that find the changes of a node's replicas."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.node.replica_changes import changes_in_status, fail_replicas_of_dead_host, runnable_assignment
from holdfast.node.reports import KnownReplica, ReplicaChange
from holdfast.protocol.messages import AssignedReplica, Assignment, HostStatus, ReplicaStatus

A = AssignedReplica(job=1, pe="a", task=0, replica=0)
B = AssignedReplica(job=1, pe="b", task=0, replica=0)


def asked(*replicas: AssignedReplica, generation: int = 1) -> Assignment:
    return Assignment(term=1, generation=generation, replicas=replicas)


def says(*replicas: tuple[AssignedReplica, str], generation: int = 1) -> HostStatus:
    return HostStatus(
        pid=1,
        started_s=0,
        beat_s=0,
        term=1,
        generation=generation,
        replicas=tuple(ReplicaStatus(key=r.key, incarnation=r.incarnation, state=state) for r, state in replicas),
    )


def test_unchanged_state_is_no_change():
    known = {A.key: KnownReplica(1, "assigned"), B.key: KnownReplica(1, "running")}
    status = says((A, "starting"), (B, "running"))
    assert list(changes_in_status(known, asked(A, B), status)) == [ReplicaChange(A.key, 1, "starting")]


def test_ended_replica_stays_ended_in_its_incarnation():
    known = {A.key: KnownReplica(1, "failed")}
    assert list(changes_in_status(known, asked(A), says((A, "running")))) == []


def test_status_of_an_earlier_incarnation_is_ignored():
    known = {A.key: KnownReplica(2, "assigned")}
    assert list(changes_in_status(known, asked(A), says((A, "failed")))) == []


def test_replica_is_stopped_once_the_host_applied_the_assignment_without_it():
    known = {A.key: KnownReplica(1, "running")}
    assert list(changes_in_status(known, asked(generation=2), says(generation=1))) == []
    assert list(changes_in_status(known, asked(generation=2), says((A, "running"), generation=2))) == []
    assert list(changes_in_status(known, asked(generation=2), says(generation=2))) == [ReplicaChange(A.key, 1, "stopped")]


def test_assigned_replica_missing_from_the_status_has_failed():
    known = {A.key: KnownReplica(1, "running"), B.key: KnownReplica(1, "assigned")}
    assert list(changes_in_status(known, asked(A, B), says())) == [
        ReplicaChange(A.key, 1, "failed", "its PE host no longer has it")
    ]


def test_dead_host_loses_its_replicas_but_not_those_never_started():
    known = {A.key: KnownReplica(1, "running"), B.key: KnownReplica(1, "assigned")}
    assert list(fail_replicas_of_dead_host(known, asked(A, B), cause="killed")) == [ReplicaChange(A.key, 1, "lost", "killed")]
    assert list(fail_replicas_of_dead_host(known, asked(B), cause="killed")) == [ReplicaChange(A.key, 1, "stopped")]


def test_waiting_replicas_fail_if_no_host_can_start():
    known = {A.key: KnownReplica(1, "assigned"), B.key: KnownReplica(1, "finished")}
    assert list(fail_replicas_of_dead_host(known, asked(A, B), cause="no Java", cannot_start=True)) == [
        ReplicaChange(A.key, 1, "failed", "no Java")
    ]


def test_host_does_not_see_ended_replicas():
    known = {A.key: KnownReplica(1, "failed"), B.key: KnownReplica(1, "running")}
    assert runnable_assignment(asked(A, B), known).replicas == (B,)
    anew = A.model_copy(update={"incarnation": 2})
    assert runnable_assignment(asked(anew, B), known).replicas == (anew, B)


STATES = ("starting", "running", "idle", "finished", "failed")


@given(st.lists(st.tuples(st.sampled_from(STATES), st.booleans()), max_size=12))
def test_replica_ends_at_most_once_per_incarnation(steps):
    known = {A.key: KnownReplica(1, "assigned")}
    reported = []
    for state, dies in steps:
        shown = {r.key for r in runnable_assignment(asked(A), known).replicas}
        status = says((A, state)) if A.key in shown else says()
        changes = [*changes_in_status(known, asked(A), status)]
        for change in changes:
            known[change.key] = KnownReplica(change.incarnation, change.state)
        if dies:
            more = [*fail_replicas_of_dead_host(known, asked(A), cause="killed")]
            for change in more:
                known[change.key] = KnownReplica(change.incarnation, change.state)
            changes += more
        reported += [change.state for change in changes]
    ends = [state for state in reported if state in ("finished", "failed", "lost")]
    assert len(ends) <= 1
    assert not ends or reported[-1] == ends[0]
