"""Pure functions that find the changes of a node's replicas: the PE host's present state against what the node knows.

A replica is started at most once per incarnation. One that has ended stays ended, and one whose PE host died is reported as lost.
Only the orchestrator decides to start a replica again, by a higher incarnation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from holdfast.node.reports import KnownReplica, ReplicaChange
from holdfast.protocol.messages import AssignedReplica, Assignment, HostStatus


def assignment_order(document: Assignment | HostStatus) -> tuple[int, int]:
    """Return the sort key of assignments: a later term outranks any generation of an earlier one."""
    return (document.term, document.generation)


def runnable_assignment(assignment: Assignment, known: Mapping[str, KnownReplica]) -> Assignment:
    """Return the assignment without the replicas that have ended in the assigned incarnation. This is what a PE host may see."""

    def may_run(replica: AssignedReplica) -> bool:
        k = known.get(replica.key)
        return k is None or not k.ended or k.incarnation < replica.incarnation

    return assignment.model_copy(update={"replicas": tuple(filter(may_run, assignment.replicas))})


def changes_in_status(known: Mapping[str, KnownReplica], assignment: Assignment, status: HostStatus) -> Iterator[ReplicaChange]:
    """Yield the changes that the status of a PE host shows.

    Only a status that is as new as the assignment shows that a replica is missing. If a missing replica is no longer assigned, it
    was stopped. If it is assigned and was there before, its PE host lost it, and it has failed.
    """
    reported = {replica.key: replica for replica in status.replicas}
    for key, replica in reported.items():
        k = known.get(key)
        if k is None or k.ended or replica.incarnation != k.incarnation or replica.state == k.state:
            continue
        yield ReplicaChange(key, replica.incarnation, replica.state, replica.error)
    if assignment_order(status) < assignment_order(assignment):
        return
    assigned = {replica.key for replica in assignment.replicas}
    for key, k in known.items():
        if key in reported:
            continue
        if key not in assigned:
            yield ReplicaChange(key, k.incarnation, "stopped")
        elif k.alive:
            yield ReplicaChange(key, k.incarnation, "failed", "its PE host no longer has it")


def fail_replicas_of_dead_host(
    known: Mapping[str, KnownReplica], assignment: Assignment, *, cause: str, cannot_start: bool = False
) -> Iterator[ReplicaChange]:
    """Yield the changes that follow from the death of the PE host: its replicas are lost, or stopped if not assigned any more.

    A replica that never ran waits for the next PE host, unless PE hosts cannot start on this node (`cannot_start`). All replicas
    have then failed.
    """
    assigned = {replica.key for replica in assignment.replicas}
    for key, k in known.items():
        if key not in assigned:
            yield ReplicaChange(key, k.incarnation, "stopped")
        elif k.alive or (cannot_start and not k.ended):
            yield ReplicaChange(key, k.incarnation, "failed" if cannot_start else "lost", cause)
