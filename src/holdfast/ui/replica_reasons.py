"""Why each replica is there: what the plan, the strategy or the job says, per task."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from holdfast.documents.document import read_document
from holdfast.documents.job import Job, Task
from holdfast.errors import HoldfastError
from holdfast.planning.laar.strategy import Strategy
from holdfast.planning.ppa.plan_document import ADVISE, PlanDocument


def plan_of(job: Job, tasks: Sequence[Task]) -> dict[str, Any]:
    """The plan of a job as the page shows it: its head, a reason per task, and what the next unit of budget would buy.

    Reads the job's plan or strategy from its file; where that cannot be read, it says so and goes on with what the job says.
    """
    try:
        if job.plan is not None:
            return _of_plan(read_document(Path(job.plan), PlanDocument), job, tasks)
        if job.strategy is not None:
            return _of_strategy(read_document(Path(job.strategy), Strategy), job, tasks)
    except (HoldfastError, OSError) as error:
        return _document("plan that cannot be read", str(error), job, tasks, reasons={})
    if job.replicas or any(task.replicas > 1 for task in tasks):
        return _document("replicas by hand", "The job itself says how many replicas each PE has.", job, tasks, reasons={})
    return _document("no replicas", "Every task has one copy; checkpoints alone bring it back.", job, tasks, reasons={})


def _of_plan(plan: PlanDocument, job: Job, tasks: Sequence[Task]) -> dict[str, Any]:
    home = {f"{operator}/{task.task}": task.name for task in tasks for operator in (task.operators or (task.pe,))}
    reasons: dict[str, dict[str, Any]] = {}
    for replica in plan.replicated:
        name = home.get(replica.task, replica.task)
        reason = reasons.setdefault(name, {"planned": True, "why": [], "quality_without": None})
        reason["why"].append(replica.why or f"the plan replicates {replica.task}")
        if replica.quality_without is not None:
            least = reason["quality_without"]
            reason["quality_without"] = replica.quality_without if least is None else min(least, replica.quality_without)
    for left in plan.left:
        name = home.get(left.task, left.task)
        reason = reasons.setdefault(name, {"planned": False, "why": [], "quality_without": None})
        if left.why not in reason["why"]:
            reason["why"].append(left.why)
    said = f"{len(plan.replicated)} of a budget of {plan.budget} replicas, chosen by '{plan.planner}'{_worth(plan)}."
    document = _document("plan", said, job, tasks, reasons=reasons)
    document["quality"], document["objective"] = plan.quality, plan.objective
    document["next"] = (
        None if plan.next is None else {"why": plan.next.why, "start": list(plan.next.start), "quality": plan.next.quality}
    )
    return document


def _worth(plan: PlanDocument) -> str:
    if plan.quality is None:
        return ""
    if plan.planner == ADVISE:
        return f"; it spares {plan.quality:.1%} of the loss to be expected of single failures"
    proven = " (no plan of this budget is better)" if plan.proven else ""
    return f"; worth {plan.quality:.3f} by {plan.objective.upper()} when all else fails{proven}"


def _of_strategy(strategy: Strategy, job: Job, tasks: Sequence[Task]) -> dict[str, Any]:
    reasons: dict[str, dict[str, Any]] = {}
    for task in tasks:
        if task.pe not in strategy.placement:
            continue
        lines = []
        for configuration in strategy.configurations:
            active = configuration.active.get(task.pe, ())
            share = f" ({configuration.probability:.0%} of the time)" if configuration.probability is not None else ""
            lines.append(f"in '{configuration.name}'{share} {len(active)} of {strategy.replicas} replicas are active")
        reasons[task.name] = {"planned": True, "why": lines, "quality_without": None}
    said = (
        f"A strategy by '{strategy.solver}': internal completeness {strategy.internal_completeness:.3f} for the {strategy.sla:g} "
        f"agreed on, at {strategy.cost:.4g} CPU seconds per billing period."
    )
    document = _document("strategy", said, job, tasks, reasons=reasons)
    document["quality"], document["objective"] = strategy.internal_completeness, "ic"
    return document


def _document(kind: str, said: str, job: Job, tasks: Sequence[Task], *, reasons: dict[str, dict[str, Any]]) -> dict[str, Any]:
    return {
        "kind": kind,
        "said": said,
        "quality": None,
        "objective": None,
        "next": None,
        "replicas": sum(max(0, task.replicas - 1) for task in tasks if task.kind != "sink"),
        "tasks": {task.name: reasons.get(task.name) or _otherwise(task, job, kind) for task in tasks},
    }


def _otherwise(task: Task, job: Job, kind: str) -> dict[str, Any]:
    """The reason for a task that no plan names."""
    asked = job.replicas.get(task.name, job.replicas.get(task.pe))
    if asked is not None:
        why = f"the job asks for {asked} {'replicas' if asked > 1 else 'copy'} of it"
    elif task.kind == "sink" and task.replicas > 1:
        why = "a sink is cheap and writes each epoch once: it has as many replicas as the best protected task"
    elif task.replicas > 1:
        why = f"the job gives it {task.replicas} replicas"
    elif kind == "plan":
        why = "one copy: the plan has no replica of it"
    else:
        why = "one copy: nothing asks for more"
    return {"planned": False, "why": [why], "quality_without": None}
