"""What changed on a node: what its PE host says now, against what is known. Pure; reports are made of the result.

A replica is started at most once per incarnation: what has ended stays ended, and what a dead PE host had is reported as failed.
Whether it is started anew is the orchestrator's decision, told by a higher incarnation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from holdfast.node.reports import Change, Known
from holdfast.protocol.messages import Assigned, Assignment, HostStatus


def order(of: Assignment | HostStatus) -> tuple[int, int]:
    """An assignment's place among all: a later term outranks any generation of an earlier one."""
    return (of.term, of.generation)


def runnable(assignment: Assignment, known: Mapping[str, Known]) -> Assignment:
    """The assignment as a PE host may see it: without replicas that have ended in the incarnation asked for."""

    def may_run(replica: Assigned) -> bool:
        k = known.get(replica.key)
        return k is None or not k.ended or k.incarnation < replica.incarnation

    return assignment.model_copy(update={"replicas": tuple(filter(may_run, assignment.replicas))})


def seen(known: Mapping[str, Known], assignment: Assignment, status: HostStatus) -> Iterator[Change]:
    """Changes that a living PE host's status shows.

    The status speaks for an assignment once it has its order. A replica that is neither asked for nor there any more
    was stopped; one that is asked for and was there, and is no longer there, was lost by its host and failed.
    """
    has = {replica.key: replica for replica in status.replicas}
    for key, replica in has.items():
        k = known.get(key)
        if k is None or k.ended or replica.incarnation != k.incarnation or replica.state == k.state:
            continue
        yield Change(key, replica.incarnation, replica.state, replica.error)
    if order(status) < order(assignment):
        return
    wanted = {replica.key for replica in assignment.replicas}
    for key, k in known.items():
        if key in has:
            continue
        if key not in wanted:
            yield Change(key, k.incarnation, "stopped")
        elif k.alive:
            yield Change(key, k.incarnation, "failed", "its PE host no longer has it")


def bereaved(known: Mapping[str, Known], assignment: Assignment, *, cause: str, unready: bool = False) -> Iterator[Change]:
    """Changes when the PE host has died: what it had has failed, what was to be stopped has stopped.

    What was assigned and never seen waits for the next host, unless hosts cannot start here (`unready`).
    """
    wanted = {replica.key for replica in assignment.replicas}
    for key, k in known.items():
        if key not in wanted:
            yield Change(key, k.incarnation, "stopped")
        elif k.alive or (unready and not k.ended):
            yield Change(key, k.incarnation, "failed", cause)
