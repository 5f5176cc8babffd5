"""Write the chosen plan of an advice as the plan document of `holdfast run`."""

from holdfast.advise.advice import Advice
from holdfast.advise.reasons import counted
from holdfast.documents.topology import Topology
from holdfast.planning.ppa.plan_document import ADVISE, NextUnit, PlanDocument, PlannedReplica, UnreplicatedTask


def plan_document(advice: Advice, topology: Topology) -> PlanDocument:
    """Return the chosen plan. Its quality is the share of the expected loss of single failures that it avoids.

    The plan names tasks of operators, as the topology does. Fused operators are all named, although a replica is of their PE.
    """
    replicated = [
        PlannedReplica(task=task, quality_without=spared_share(advice, without=name), why=advice.why(name))
        for name in advice.chosen.candidate.protected
        for task in _tasks(advice, name)
    ]
    unreplicated = [
        UnreplicatedTask(task=task, why=advice.why(name))
        for name in advice.ranking
        if name not in advice.chosen.candidate.protected
        for task in _tasks(advice, name)
    ]
    return PlanDocument(
        topology=topology.topology,
        parallelism={name: topology.operators[name].parallelism for name in topology.order},
        planner=ADVISE,
        objective=advice.chosen.candidate.objective,
        budget=max(len(replicated), advice.budget.replicas or 0),
        quality=spared_share(advice),
        replicated=tuple(replicated),
        unreplicated=tuple(unreplicated),
        next=_next(advice),
    )


def spared_share(advice: Advice, *, without: str | None = None) -> float:
    """Return the share of the expected loss of single failures that the plan avoids, optionally without one of its replicas."""
    before, mean = advice.unprotected.mean, advice.chosen.single.mean
    if without is not None:
        mean += (advice.single[without].mean - advice.failing_over[without].mean) / len(advice.single)
    return min(1.0, max(0.0, 1 - mean / before)) if before else 0.0


def _tasks(advice: Advice, name: str) -> list[str]:
    return [f"{operator}/{number}" for operator in advice.units[name] for number in range(advice.prices.tasks[name])]


def _next(advice: Advice) -> NextUnit | None:
    following = advice.next_unit()
    if following is None:
        return None
    why = (
        f"{counted(following.replicas)} of {following.operator} would leave {following.remaining:.1%} of the expected loss of "
        f"single failures, for {following.cpu:.0%} more of full replication's CPU"
    )
    start = tuple(_tasks(advice, following.operator))
    return NextUnit(replicas=following.replicas, quality=max(0.0, 1 - following.remaining), start=start, why=why)
