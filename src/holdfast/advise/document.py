"""The plan of an advice as the document that a run takes: why each replica is there, what is lost without it, and what is next."""

from holdfast.advise.advice import Advice
from holdfast.model.topology import Topology
from holdfast.plan.ppa.document import ADVISE, NextUnit, PlanDocument, Replica


def plan_document(advice: Advice, topology: Topology) -> PlanDocument:
    """The chosen plan. Its worth is the share of what single failures are expected to cost that it spares."""
    tasks = {name: [f"{name}/{n}" for n in range(topology.operators[name].parallelism)] for name in topology.order}
    held = advice.chosen.candidate.protected
    replicated = [
        Replica(task=task, quality_without=spared(advice, without=name), why=f"{advice.why[name]} {_costs(advice, name)}")
        for name in held
        for task in tasks[name]
    ]
    return PlanDocument(
        topology=topology.topology,
        parallelism={name: len(tasks[name]) for name in topology.order},
        planner=ADVISE,
        objective=advice.chosen.candidate.objective,
        budget=len(replicated),
        quality=spared(advice),
        replicated=tuple(replicated),
        next=_next(advice, tasks),
    )


def spared(advice: Advice, *, without: str | None = None) -> float:
    """The share of the expected loss of single failures that the plan spares, or what it would without one of its replicas."""
    before, mean = advice.unprotected.mean, advice.chosen.single.mean
    if without is not None:
        mean += (advice.single[without].mean - advice.failing_over[without].mean) / len(advice.single)
    return min(1.0, max(0.0, 1 - mean / before)) if before else 0.0


def _costs(advice: Advice, name: str) -> str:
    return f"Its failure costs {advice.failing_over[name].mean:,.4g} with the replica and {advice.single[name].mean:,.4g} without."


def _next(advice: Advice, tasks: dict[str, list[str]]) -> NextUnit | None:
    following = advice.next_unit()
    if following is None:
        return None
    why = (
        f"a replica of {following.operator} would leave {following.left:.1%} of the loss to be expected of single failures, for "
        f"{following.cpu:.0%} more of full replication's CPU"
    )
    start = tuple(tasks[following.operator])
    return NextUnit(replicas=len(start), quality=max(0.0, 1 - following.left), start=start, why=why)
