"""The documents about jobs and nodes that the API returns, built from the orchestrator's state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from holdfast.control.jobs.job_state import JobState
from holdfast.control.jobs.state_machine import StateChange
from holdfast.control.nodes.replicas import LIVING, PlacedReplica
from holdfast.control.storage.stored_jobs import StoredJob
from holdfast.documents.document import restore_document
from holdfast.documents.job import Layout, Task

if TYPE_CHECKING:
    from holdfast.control.nodes.resource_manager import Node
    from holdfast.control.orchestrator import Orchestrator


def job_line(job: JobState) -> dict[str, Any]:
    """Return a job as an entry of a list."""
    return {
        "id": job.id,
        "name": job.name,
        "type": job.document.type,
        "host_kind": job.document.host_kind,
        "state": job.lifecycle.state,
        "ended": job.ended,
        "reason": job.reason,
        "submitted_s": job.submitted_s,
        "changed_s": job.lifecycle.history[-1].at_s if job.lifecycle.history else job.submitted_s,
    }


def live_job_document(orchestrator: Orchestrator, job: JobState) -> dict[str, Any]:
    """Return the full document of a job that has not ended."""
    graph = orchestrator.dataflow.graph
    tasks = []
    if job.layout is not None:
        for task in job.layout.tasks:
            owner, name = _owner(job, task)
            replicas = orchestrator.replicas.of(owner, [name])
            tasks.append({**_task(task), "owner": owner, "replicas": [replica_line(r) for r in replicas]})
    return {
        **job_line(job),
        "document": job.document.model_dump(mode="json", exclude_none=True),
        "history": _history(job.lifecycle.history),
        "tasks": tasks,
        "connections": [
            {
                "stream": connection.stream,
                "maker": ":".join(map(str, connection.maker)),
                "reader": ":".join(map(str, connection.reader)),
            }
            for connection in graph.connections(job.id)
        ],
        "term": orchestrator.term,
    }


def ended_job_document(stored: StoredJob, history: Sequence[StateChange], *, document: dict[str, Any], term: int) -> dict[str, Any]:
    """Return all that is stored about a job that has ended."""
    try:
        layout = restore_document(stored.layout, Layout) if stored.layout else None
    except ValidationError:  # another version of holdfast stored it, and the job has ended
        layout = None
    return {
        "id": stored.id,
        "name": stored.name,
        "type": stored.type,
        "host_kind": stored.host_kind,
        "state": stored.state,
        "ended": stored.ended,
        "reason": stored.reason,
        "submitted_s": stored.submitted_s,
        "changed_s": stored.changed_s,
        "document": document,
        "history": _history(history),
        "tasks": [{**_task(task), "replicas": []} for task in layout.tasks] if layout is not None else [],
        "connections": [],
        "term": term,
    }


def node_line(orchestrator: Orchestrator, node: Node) -> dict[str, Any]:
    """Return a node as an entry of a list: what it offers and how many replicas it runs."""
    living = sum(replica.state in LIVING for replica in orchestrator.replicas.at(node.name))
    state = node.state if node.state == "lost" or not node.draining else ("draining" if living else "drained")
    return {
        "name": node.name,
        "state": state,
        "host_kind": node.offer.host_kind,
        "cores": node.offer.cores,
        "memory_bytes": node.offer.memory_bytes,
        "labels": dict(node.offer.labels),
        "metrics": node.offer.metrics,
        "since_s": node.since_s,
        "slots": node.slots,
        "replicas": living,
        "generation": node.generation,
        "acknowledged": node.acknowledged,
        "stalled_s": node.stalled_s,
        "host_status": None if node.host is None else node.host.model_dump(mode="json", exclude={"replicas"}),
    }


def replica_line(replica: PlacedReplica) -> dict[str, Any]:
    return {
        "key": replica.key,
        "replica": replica.replica,
        "node": replica.node,
        "incarnation": replica.incarnation,
        "rank": replica.rank,
        "active": replica.active,
        "state": replica.state,
        "since_s": replica.since_s,
        "failures": replica.failures,
        "error": replica.error,
        "status": None if replica.status is None else replica.status.model_dump(mode="json"),
    }


def _owner(job: JobState, task: Task) -> tuple[int, str]:
    if task.shared is None:
        return job.id, task.name
    name, _, pe = task.shared.partition(":")
    return job.refs.get(name, job.id), f"{pe}/{task.task}"


def _task(task: Task) -> dict[str, Any]:
    return {
        "task": task.name,
        "kind": task.kind,
        "reads": [f"{reading.job}:{reading.stream}" if reading.job else reading.stream for reading in task.reads],
        "makes": list(task.makes),
        "shared": task.shared,
    }


def _history(history: Sequence[StateChange]) -> list[dict[str, Any]]:
    return [{"state": change.state, "at_s": change.at_s, "event": change.event, "cause": change.cause} for change in history]
