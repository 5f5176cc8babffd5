"""The part of a job that stays while it runs: tasks with their places on the page, edges, the plan, the contract."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.documents.job import Contract, Job, Layout, Task
from holdfast.ui.graph_layout import arrange

Edge = tuple[str, str, str]
"""(maker, reader, stream): who makes a stream and who reads it, by task names."""


def edges_of(tasks: Sequence[Task]) -> list[Edge]:
    """Who reads whom within one job."""
    makers: dict[str, list[Task]] = {}
    for task in tasks:
        for stream in task.makes:
            makers.setdefault(stream, []).append(task)
    return [
        (maker.name, task.name, reading.stream)
        for task in tasks
        for reading in task.reads
        if reading.job is None
        for maker in makers.get(reading.stream, ())
        if maker.task in reading.tasks
    ]


def picture_of(
    number: int, job: Job, layout: Layout, *, edges: Sequence[Edge], plan: Mapping[str, Any], epoch_s: float | None
) -> dict[str, Any]:
    """The picture of a job. Edges name their ends by their place in the list of tasks."""
    names = [task.name for task in layout.tasks]
    place = {name: index for index, name in enumerate(names)}
    inner = [edge for edge in edges if edge[0] in place and edge[1] in place]
    arranged = arrange(names, [(maker, reader) for maker, reader, _ in inner])
    ways: dict[tuple[str, str], list[str]] = {}
    for maker, reader, stream in inner:
        ways.setdefault((maker, reader), []).append(stream)
    return {
        "job": number,
        "name": job.job,
        "application": layout.application,
        "host_kind": job.host_kind,
        "epoch_s": epoch_s,
        "size": list(arranged.size),
        "tasks": [_task(task, arranged.places[task.name], plan, job.contract_of(task.pe)) for task in layout.tasks],
        "edges": [
            {
                "from": place[a],
                "to": place[b],
                "streams": sorted(set(streams)),
                "via": [list(p) for p in arranged.routes.get((a, b), ())],
            }
            for (a, b), streams in ways.items()
        ],
        "plan": {name: value for name, value in plan.items() if name != "tasks"},
        "contract": job.contract.model_dump(mode="json"),
        "policy": job.policy.model_dump(mode="json"),
    }


def _task(task: Task, at: tuple[float, float], plan: Mapping[str, Any], contract: Contract) -> dict[str, Any]:
    return {
        "name": task.name,
        "kind": task.kind,
        "operators": list(task.operators),
        "reads": [f"{reading.job}:{reading.stream}" if reading.job else reading.stream for reading in task.reads],
        "makes": list(task.makes),
        "x": at[0],
        "y": at[1],
        "reason": plan["tasks"].get(task.name),
        "late": _late(contract),
    }


def _late(contract: Contract) -> str | None:
    """What is done about a PE that is merely late, where anything is."""
    match contract.protection:
        case "prediction":
            return f"When it is late by {contract.deadline_s:g} s, an agent predicts its output until it is there."
        case "upstream":
            return f"When it is late by {contract.reroute_after_s:g} s, its input is re-routed to a replica that was idle."
    return None
