"""holdfast plan for task topologies (PPA): options and output of plans."""

from __future__ import annotations

import json
from pathlib import Path

import click

from holdfast.cli.plan_output import write_output, write_page, write_plot
from holdfast.documents.document import document_text
from holdfast.documents.topology import Topology
from holdfast.errors import HoldfastError
from holdfast.planning.ppa import (
    Measure,
    internal_completeness,
    measured_criticality,
    output_fidelity,
    planner_names,
    planner_of,
)
from holdfast.planning.ppa.criticality_document import read_impact
from holdfast.planning.ppa.explained_plan import explained_plans, smallest_budget
from holdfast.planning.ppa.explanation import OBJECTIVES
from holdfast.planning.ppa.plan_document import PlanDocument, read_plan
from holdfast.planning.ppa.planner import check_budget


def plan_topology(
    topology: Topology,
    *,
    budget: int | None,
    ic: float | None,
    planner: str,
    objective: str | None,
    criticality: Path | None,
    current: Path | None,
    move_worth: float,
    plot: Path | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Plan a topology, write the requested files and print the result."""
    planners = [planner_of(name) for name in (planner_names() if planner == "all" else [planner])]
    measure = _measure(topology, objective=objective, ic=ic, criticality=criticality)
    if budget is not None and ic is not None:
        raise HoldfastError(
            "--budget limits the replicas, and --ic asks for the fewest replicas that reach an internal completeness; give one of"
            " them (--objective ic plans for internal completeness within a budget)"
        )
    if budget is None and ic is None:
        raise HoldfastError(f"topology '{topology.topology}' wants either --budget N or --ic X")
    if budget is None:
        budget = smallest_budget(measure, planners[0], quality=ic or 0.0)
    check_budget(measure, budget)
    current_tasks = None if current is None else read_plan(current, topology=topology).tasks
    documents, errors = explained_plans(measure, planners, budget=budget, current=current_tasks, move_worth=move_worth)
    if not documents:
        raise next(iter(errors.values()))
    for name, error in errors.items():
        click.echo(f"{name}: {error}", err=True)
    best = max(documents, key=lambda document: document.quality or 0.0)  # the first among equals: the best planner comes first
    report: dict[str, str] = {}
    if out is not None:
        write_output(out, best)
        click.echo(f"wrote {out}", err=True)
    if out is not None or plot is not None:
        from holdfast.planning.ppa.budget_curve import budget_curve
        from holdfast.report.plan import budget_plot, plan_page

        curve = budget_curve(measure, planned=best.budget)
        if out is not None:
            report = {"report": str(write_page(out, plan_page(best, measure, curve=curve, others=documents)))}
        if plot is not None:
            write_plot(plot, budget_plot(best, curve, documents))
    if as_json:
        plans = [json.loads(document_text(document, json_text=True)) for document in documents]
        whole = plans[0] if len(planners) == 1 else {"topology": topology.topology, "plans": plans, **report}
        click.echo(json.dumps(whole, indent=2))
    else:
        if len(planners) > 1:
            _print_table(documents)
        _print_plan(best)
    if report:
        click.echo(f"report: {report['report']}", err=True)


def _measure(topology: Topology, *, objective: str | None, ic: float | None, criticality: Path | None) -> Measure:
    """Return the measure that the options ask for. Raises HoldfastError for options that contradict each other."""
    if ic is not None and objective not in (None, "ic"):
        raise HoldfastError(f"--ic asks for internal completeness, --objective for {objective}; give one of them")
    if criticality is not None and objective not in (None, "criticality"):
        raise HoldfastError(f"--criticality goes with --objective criticality, not {objective}")
    if objective == "criticality" and criticality is None:
        raise HoldfastError(
            "--objective criticality wants --criticality FILE: the report.json of an assessment, or a document with "
            "each operator's impact"
        )
    if criticality is not None and ic is not None:
        raise HoldfastError("--ic asks for internal completeness, --criticality for measured quality; give one of them")
    if criticality is not None:
        return measured_criticality(topology, read_impact(criticality, topology=topology), thing=str(criticality))
    return internal_completeness(topology) if ic is not None or objective == "ic" else output_fidelity(topology)


def _print_table(documents: list[PlanDocument]) -> None:
    click.echo(f"{'planner':16} {'replicas':>8} {'quality':>8} {'bound':>7}")
    for d in documents:
        click.echo(f"{d.planner:16} {len(d.replicated):8} {d.quality:8.4f} {d.bound:7.4f}")
    click.echo()


def _print_plan(d: PlanDocument) -> None:
    """Print the plan and its explanation."""
    quality, bound = d.quality or 0.0, 1.0 if d.bound is None else d.bound
    proof = "no plan is better" if d.proven else f"no plan exceeds {bound:.3f}" if bound < 1 else "no bound is known"
    click.echo(
        f"{d.topology}: {len(d.replicated)} of at most {d.budget} replicas by {d.planner}; {OBJECTIVES[d.objective]}"
        f" {quality:.3f} when all other tasks fail; {proof}"
    )
    for replica in d.replicated:
        click.echo(f"  {replica.task}: {replica.why}")
    if d.next is not None:
        click.echo(f"next: {d.next.why}")
    else:
        click.echo("next: more replicas buy nothing")
    if d.changes is not None:
        click.echo(f"stop: {', '.join(d.changes.stop) or 'none'}")
        click.echo(f"start: {', '.join(d.changes.start) or 'none'}")
        click.echo(
            f"the current plan now has quality {d.changes.current_quality:.3f}, this one {quality:.3f}, the best one"
            f" {d.changes.best_quality:.3f}; a start must add {d.changes.move_worth:g}"
        )
