"""The part of holdfast plan that plans task topologies (PPA)."""

from __future__ import annotations

import json
from pathlib import Path

import click

from holdfast.cli.plan_output import unwritable, write_output, write_page
from holdfast.documents.document import document_text
from holdfast.documents.topology import Topology
from holdfast.errors import HoldfastError
from holdfast.planning.ppa import (
    PLANNERS,
    Measure,
    internal_completeness,
    measured_criticality,
    output_fidelity,
    planner_names,
    planner_of,
)
from holdfast.planning.ppa.adaptation import Adaptation, adapt
from holdfast.planning.ppa.budget_plot import curves, draw
from holdfast.planning.ppa.criticality_document import read_impact
from holdfast.planning.ppa.explanation import OBJECTIVES, next_unit, reasons
from holdfast.planning.ppa.plan_document import PlanDocument, plan_document, read_plan
from holdfast.planning.ppa.planner import Plan, Planner, check_budget


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
    """Plan a topology and say so on stdout."""
    planners = _planners(planner)
    measure = _measure(topology, objective=objective, ic=ic, criticality=criticality)
    budget = _budget(measure, planners[0], budget=budget, ic=ic)
    held = None if current is None else read_plan(current, topology=topology).tasks
    documents = _documents(measure, planners, budget=budget, held=held, move_worth=move_worth)
    best = max(documents, key=lambda d: d.quality or 0.0)  # the first of equals: planners stand best first
    report: dict[str, str] = {}
    if out is not None:
        write_output(out, best)
        click.echo(f"wrote {out}", err=True)
        report = {"report": str(write_page(out, _page(best, measure, documents)))}
    if plot is not None:
        shown = planners if len(planners) > 1 else _compared(planners[0])
        try:
            draw(plot, measure, curves(measure, shown))
        except OSError as error:
            raise unwritable("--plot", plot, error) from error
        click.echo(f"drew {plot}", err=True)
    if as_json:
        plain = [json.loads(document_text(document, json_text=True)) for document in documents]
        whole = plain[0] if len(planners) == 1 else {"topology": topology.topology, "plans": plain, **report}
        click.echo(json.dumps(whole, indent=2))
    else:
        if len(planners) > 1:
            _compare(documents)
        _say(best)
    if report:
        click.echo(f"report: {report['report']}", err=True)


def _page(best: PlanDocument, measure: Measure, documents: list[PlanDocument]) -> str:
    from holdfast.planning.ppa.budget_curve import budget_curve
    from holdfast.report.plan import plan_page

    return plan_page(best, measure, worth=budget_curve(measure, planned=best.budget), others=documents)


def _planners(name: str) -> list[Planner]:
    return [planner_of(each) for each in (planner_names() if name == "all" else [name])]


def _compared(planner: Planner) -> list[Planner]:
    """What a planner is drawn beside: the paper's two."""
    return [planner, *(PLANNERS[name] for name in ("structure-aware", "greedy") if name != planner.name)]


def _measure(topology: Topology, *, objective: str | None, ic: float | None, criticality: Path | None) -> Measure:
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


def _budget(measure: Measure, planner: Planner, *, budget: int | None, ic: float | None) -> int:
    """The budget as given, or the least with which the planner reaches the internal completeness."""
    if budget is not None and ic is not None:
        raise HoldfastError(
            "--budget says how many replicas there may be, --ic how complete the output must be, with as few replicas as that "
            "takes; give one of them (--objective ic plans for internal completeness within a budget)"
        )
    if budget is None and ic is None:
        raise HoldfastError(f"topology '{measure.topology.topology}' wants either --budget N or --ic X")
    if budget is not None:
        check_budget(measure, budget)
        return budget
    low, high = 0, len(measure.weights)
    while low < high:
        middle = (low + high) // 2
        if planner.plan(measure, middle).quality >= (ic or 0.0) - 1e-9:
            high = middle
        else:
            low = middle + 1
    return low


def _documents(
    measure: Measure, planners: list[Planner], *, budget: int, held: tuple[str, ...] | None, move_worth: float
) -> list[PlanDocument]:
    """The plans of all planners. One of several that has none is told on stderr; if none has any, the first error is raised."""
    made: list[PlanDocument] = []
    refused: list[tuple[str, HoldfastError]] = []
    for planner in planners:
        try:
            made.append(_planned(measure, planner, budget=budget, held=held, move_worth=move_worth))
        except HoldfastError as error:
            refused.append((planner.name, error))
    if not made:
        raise refused[0][1]
    for name, why in refused:
        click.echo(f"{name}: {why}", err=True)
    return made


def _planned(measure: Measure, planner: Planner, *, budget: int, held: tuple[str, ...] | None, move_worth: float) -> PlanDocument:
    adaptation: Adaptation | None = None
    if held is None:
        plan: Plan = planner.plan(measure, budget)
    else:
        adaptation = adapt(measure, held, budget=budget, planner=planner, move_worth=move_worth)
        plan = adaptation.plan
    return plan_document(
        plan,
        measure.topology,
        reasons=reasons(measure, plan),
        next_unit=next_unit(measure, plan, None if adaptation else planner),
        adaptation=adaptation,
    )


def _compare(documents: list[PlanDocument]) -> None:
    click.echo(f"{'planner':16} {'replicas':>8} {'quality':>8} {'bound':>7}")
    for d in documents:
        click.echo(f"{d.planner:16} {len(d.replicated):8} {d.quality:8.4f} {d.bound:7.4f}")
    click.echo()


def _say(d: PlanDocument) -> None:
    """The plan in words."""
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
            f"the current plan is now worth {d.changes.current_quality:.3f}, this one {quality:.3f}, the best one"
            f" {d.changes.best_quality:.3f}; a start must bring {d.changes.move_worth:g}"
        )
