"""Explain why each task has the replicas it has: by the job's plan, its strategy, or its own settings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from holdfast.documents.document import read_document
from holdfast.documents.job import Job, Task
from holdfast.errors import HoldfastError
from holdfast.planning.laar.strategy import Strategy
from holdfast.planning.ppa.plan_document import ADVISE, PlanDocument


def describe_plan(job: Job, tasks: Sequence[Task]) -> dict[str, Any]:
    """Return a job's plan as the page shows it: a summary, a reason per task, and what the next unit of budget would buy.

    The plan or strategy is read from its file. If that fails, the summary is the error and the reasons come from the job alone.
    """
    try:
        if job.plan is not None:
            return _describe_plan_document(read_document(Path(job.plan), PlanDocument), job, tasks)
        if job.strategy is not None:
            return _describe_strategy(read_document(Path(job.strategy), Strategy), job, tasks)
    except (HoldfastError, OSError) as error:
        return _build_document("plan that cannot be read", str(error), job, tasks, reasons={})
    if job.replicas or any(task.replicas > 1 for task in tasks):
        summary = "The job document states how many replicas each PE has."
        return _build_document("replicas by hand", summary, job, tasks, reasons={})
    summary = "Every task has one replica. After a failure it restarts from its checkpoint."
    return _build_document("no replicas", summary, job, tasks, reasons={})


def _describe_plan_document(plan: PlanDocument, job: Job, tasks: Sequence[Task]) -> dict[str, Any]:
    task_names = {f"{operator}/{task.task}": task.name for task in tasks for operator in (task.operators or (task.pe,))}
    reasons: dict[str, dict[str, Any]] = {}
    for replica in plan.replicated:
        name = task_names.get(replica.task, replica.task)
        reason = reasons.setdefault(name, _reason(planned=True))
        reason["why"].append(replica.why or f"the plan replicates {replica.task}")
        if replica.quality_without is not None:
            least = reason["quality_without"]
            reason["quality_without"] = replica.quality_without if least is None else min(least, replica.quality_without)
    for omitted in plan.unreplicated:
        name = task_names.get(omitted.task, omitted.task)
        reason = reasons.setdefault(name, _reason(planned=False))
        if omitted.why not in reason["why"]:
            reason["why"].append(omitted.why)
    summary = f"'{plan.planner}' uses {len(plan.replicated)} of a budget of {plan.budget} replicas{_describe_quality(plan)}."
    document = _build_document("plan", summary, job, tasks, reasons=reasons)
    document["quality"], document["objective"] = plan.quality, plan.objective
    if plan.next is not None:
        document["next"] = {"why": plan.next.why, "start": list(plan.next.start), "quality": plan.next.quality}
    return document


def _describe_quality(plan: PlanDocument) -> str:
    if plan.quality is None:
        return ""
    if plan.planner == ADVISE:
        return f"; it avoids {plan.quality:.1%} of the expected loss from single failures"
    proof = " (no plan with this budget is better)" if plan.proven else ""
    return f"; if all other tasks fail, {plan.objective.upper()} is {plan.quality:.3f}{proof}"


def _describe_strategy(strategy: Strategy, job: Job, tasks: Sequence[Task]) -> dict[str, Any]:
    reasons: dict[str, dict[str, Any]] = {}
    for task in tasks:
        if task.pe not in strategy.placement:
            continue
        lines = []
        for configuration in strategy.configurations:
            active = configuration.active.get(task.pe, ())
            share = f" ({configuration.probability:.0%} of the time)" if configuration.probability is not None else ""
            lines.append(f"in '{configuration.name}'{share} {len(active)} of {strategy.replicas} replicas are active")
        reasons[task.name] = _reason(*lines, planned=True)
    summary = (
        f"A strategy by '{strategy.solver}': internal completeness is {strategy.internal_completeness:.3f}, the contract requires "
        f"{strategy.sla:g}, and the cost is {strategy.cost:.4g} CPU seconds per billing period."
    )
    document = _build_document("strategy", summary, job, tasks, reasons=reasons)
    document["quality"], document["objective"] = strategy.internal_completeness, "ic"
    return document


def _build_document(
    kind: str, summary: str, job: Job, tasks: Sequence[Task], *, reasons: dict[str, dict[str, Any]]
) -> dict[str, Any]:
    return {
        "kind": kind,
        "summary": summary,
        "quality": None,
        "objective": None,
        "next": None,
        "replicas": sum(max(0, task.replicas - 1) for task in tasks if task.kind != "sink"),
        "tasks": {task.name: reasons.get(task.name) or _default_reason(task, job, kind) for task in tasks},
    }


def _default_reason(task: Task, job: Job, kind: str) -> dict[str, Any]:
    """Return the reason for a task that no plan or strategy names."""
    requested = job.replicas.get(task.name, job.replicas.get(task.pe))
    if requested is not None:
        why = f"the job requests {requested} {'replicas' if requested > 1 else 'replica'}"
    elif task.kind == "sink" and task.replicas > 1:
        why = "a sink is cheap and writes each epoch once, so it has as many replicas as the best protected task"
    elif task.replicas > 1:
        why = f"the job gives it {task.replicas} replicas"
    elif kind == "plan":
        why = "one replica: the plan adds none"
    else:
        why = "one replica: nothing requests more"
    return _reason(why, planned=False)


def _reason(*why: str, planned: bool) -> dict[str, Any]:
    return {"planned": planned, "why": list(why), "quality_without": None}
