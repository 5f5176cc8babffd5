"""holdfast plan: which replicas are worth their price."""

from math import isfinite
from pathlib import Path

import click
from pydantic import BaseModel, ConfigDict

from holdfast.cli.plan_descriptor import plan_descriptor
from holdfast.cli.plan_topology import plan_topology
from holdfast.errors import DocumentError, HoldfastError
from holdfast.model.descriptor import Descriptor
from holdfast.model.document import read_document
from holdfast.model.topology import Topology


class _Heading(BaseModel):
    """Enough of a document to tell what it is."""

    model_config = ConfigDict(extra="allow")

    topology: object = None
    application: object = None
    replicated: object = None
    solver: object = None


@click.command()
@click.argument("document", type=click.Path(path_type=Path))
@click.option("--budget", type=int, help="Replicas that may be active (topologies).")
@click.option("--ic", type=float, help="Internal completeness to reach: at least cost, or with as few replicas as do.")
@click.option("--planner", help="Name of a planner or solver, or 'all' to compare them. [default: the best one]")
@click.option(
    "--objective",
    type=click.Choice(["of", "ic", "criticality"]),
    help="What a topology's plan is measured by: output fidelity (default), internal completeness, measured criticality.",
)
@click.option(
    "--criticality",
    type=click.Path(path_type=Path),
    help="What each operator's loss costs: report.json of holdfast assess, or a document with 'impact'.",
)
@click.option("--current", type=click.Path(path_type=Path), help="Plan in force: prefer few moves away from it.")
@click.option(
    "--move-worth",
    type=float,
    default=0.005,
    show_default=True,
    help="With --current: the quality that starting one replica must bring.",
)
@click.option("--seconds", type=float, default=60.0, show_default=True, help="Time limit of a descriptor's solver.")
@click.option(
    "--by-contract",
    is_flag=True,
    help="Of a descriptor: least running cost plus expected penalty under its prices, even if that breaks the SLA.",
)
@click.option("--plot", type=click.Path(path_type=Path), help="Draw quality against budget (.svg, .png or .pdf).")
@click.option("--out", type=click.Path(path_type=Path), help="Write the plan or strategy here (JSON, or YAML by suffix).")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout, all else on stderr.")
def plan(
    document: Path,
    budget: int | None,
    ic: float | None,
    planner: str | None,
    objective: str | None,
    criticality: Path | None,
    current: Path | None,
    move_worth: float,
    seconds: float,
    by_contract: bool,
    plot: Path | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Plan the replicas of a task topology, or the replica activation strategy of an application descriptor.

    Planners of topologies: frontier (the default; says how far from the best its plan can be), structure-aware,
    structured, full, greedy, dynamic. Solvers of descriptors: best (the default), ft-search, milp (or exact),
    exhaustive, and the baselines nr, sr, grd.

    \b
    Examples:
      holdfast plan topology.yaml --budget 12 --out plan.json
      holdfast plan topology.yaml --budget 12 --planner all --plot quality.svg
      holdfast plan topology.yaml --budget 12 --current plan.json --out next.json
      holdfast plan topology.yaml --budget 12 --criticality assessment/report.json
      holdfast plan descriptor.yaml --ic 0.7 --out strategy.json
      holdfast plan descriptor.yaml --by-contract --out strategy.json
    """
    if ic is not None and not 0 <= ic <= 1:
        raise HoldfastError(f"--ic wants a number from 0 to 1, got {ic:g}")
    if not (isfinite(seconds) and seconds > 0):
        raise HoldfastError(f"--seconds wants a number above 0, got {seconds:g}")
    if not 0 <= move_worth <= 1:
        raise HoldfastError(f"--move-worth wants a number from 0 to 1, got {move_worth:g}")
    heading = read_document(document, _Heading)
    if heading.replicated is not None or heading.solver is not None:
        made, wanted = ("plan", "task topology") if heading.replicated is not None else ("strategy", "application descriptor")
        raise DocumentError(str(document), [f"is a {made}, which is what this command makes; give the {wanted} to plan for"])
    if heading.topology is not None:
        if by_contract:
            raise HoldfastError(f"--by-contract: for application descriptors only, and '{document}' is a task topology")
        topology = read_document(document, Topology)
        plan_topology(
            topology,
            budget=budget,
            ic=ic,
            planner=planner or "frontier",
            objective=objective,
            criticality=criticality,
            current=current,
            move_worth=move_worth,
            plot=plot,
            out=out,
            as_json=as_json,
        )
    elif heading.application is not None:
        given = {
            "--budget": budget,
            "--objective": objective,
            "--criticality": criticality,
            "--current": current,
        }
        wrong = [name for name, value in given.items() if value is not None]
        if wrong:
            raise HoldfastError(
                f"{', '.join(wrong)}: for task topologies only, and '{document}' is an application descriptor;"
                " its strategy is the cheapest that reaches --ic"
            )
        descriptor = read_document(document, Descriptor)
        plan_descriptor(
            descriptor,
            ic=ic,
            solver=planner or "best",
            by_contract=by_contract,
            seconds=seconds,
            plot=plot,
            out=out,
            as_json=as_json,
        )
    else:
        raise DocumentError(
            str(document),
            ["is neither a task topology (field 'topology') nor an application descriptor (field 'application')"],
        )
