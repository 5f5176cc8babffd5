"""Describe what does not change while a job runs: its tasks and where to draw them, its edges, its plan and its contract."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.documents.job import Contract, Job, Layout, Task
from holdfast.ui.graph_layout import Point, arrange

Edge = tuple[str, str, str]
"""(producer, reader, stream): the names of the tasks that produce and read a stream."""


def find_edges(tasks: Sequence[Task]) -> list[Edge]:
    """Return the edges between tasks of the same job."""
    producers: dict[str, list[Task]] = {}
    for task in tasks:
        for stream in task.makes:
            producers.setdefault(stream, []).append(task)
    return [
        (producer.name, task.name, reading.stream)
        for task in tasks
        for reading in task.reads
        if reading.job is None
        for producer in producers.get(reading.stream, ())
        if producer.task in reading.tasks
    ]


def find_readers(tasks: Sequence[Task], edges: Sequence[Edge]) -> dict[str, tuple[str, ...]]:
    """Return the tasks that read each task's output."""
    readers: dict[str, dict[str, None]] = {task.name: {} for task in tasks}
    for producer, reader, _ in edges:
        readers[producer][reader] = None
    return {name: tuple(names) for name, names in readers.items()}


def build_picture(
    number: int, job: Job, layout: Layout, *, edges: Sequence[Edge], plan: Mapping[str, Any], epoch_s: float | None
) -> dict[str, Any]:
    """Return the picture of a job. An edge refers to its tasks by their indexes in the list of tasks."""
    names = [task.name for task in layout.tasks]
    index = {name: k for k, name in enumerate(names)}
    streams: dict[tuple[str, str], set[str]] = {}
    for producer, reader, stream in edges:
        if producer in index and reader in index:
            streams.setdefault((producer, reader), set()).add(stream)
    arrangement = arrange(names, list(streams))
    return {
        "job": number,
        "name": job.job,
        "application": layout.application,
        "host_kind": job.host_kind,
        "epoch_s": epoch_s,
        "size": list(arrangement.size),
        "tasks": [_describe_task(task, arrangement.points[task.name], plan, job.contract_of(task.pe)) for task in layout.tasks],
        "edges": [
            {
                "from": index[a],
                "to": index[b],
                "streams": sorted(names_of_streams),
                "via": [list(point) for point in arrangement.routes.get((a, b), ())],
            }
            for (a, b), names_of_streams in streams.items()
        ],
        "plan": {name: value for name, value in plan.items() if name != "tasks"},
        "contract": job.contract.model_dump(mode="json"),
        "policy": job.policy.model_dump(mode="json"),
    }


def _describe_task(task: Task, point: Point, plan: Mapping[str, Any], contract: Contract) -> dict[str, Any]:
    return {
        "name": task.name,
        "kind": task.kind,
        "operators": list(task.operators),
        "reads": [f"{reading.job}:{reading.stream}" if reading.job else reading.stream for reading in task.reads],
        "makes": list(task.makes),
        "x": point[0],
        "y": point[1],
        "reason": plan["tasks"].get(task.name),
        "late": _describe_lateness(contract),
    }


def _describe_lateness(contract: Contract) -> str | None:
    """Say what happens when a PE is late but alive, or return None if nothing does."""
    match contract.protection:
        case "prediction":
            return f"If it is {contract.deadline_s:g} s late, an agent predicts its output until it catches up."
        case "upstream":
            return f"If it is {contract.reroute_after_s:g} s late, the orchestrator wakes an idle replica to process its input."
    return None
