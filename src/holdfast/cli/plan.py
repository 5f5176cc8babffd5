"""The command holdfast plan: plans the replicas of a topology or the strategy of a descriptor."""

from math import isfinite
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from holdfast.cli.plan_descriptor import plan_descriptor
from holdfast.cli.plan_output import FILE, check_output
from holdfast.cli.plan_questions import fidelity, lookup
from holdfast.cli.plan_topology import plan_topology
from holdfast.documents.descriptor import Descriptor
from holdfast.documents.topology import Topology
from holdfast.errors import DocumentError, HoldfastError
from holdfast.planning.document_kinds import DESCRIPTOR, PLAN, STRATEGY, TOPOLOGY, kind_of, read_kind
from holdfast.planning.laar.failure_models import failure_model

SUBCOMMANDS = {command.name or "": command for command in (fidelity, lookup)}
TOPOLOGIES_ONLY = ("budget", "objective", "criticality", "current", "move_worth")
DESCRIPTORS_ONLY = ("seconds", "by_contract", "failure")


class PlanCommand(click.Command):
    """`holdfast plan DOCUMENT`, and subcommands whose name replaces the document."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        if args and args[0] in SUBCOMMANDS:
            return SUBCOMMANDS[args[0]].make_context(f"{info_name} {args[0]}", args[1:], parent=parent, **extra)
        return super().make_context(info_name, args, parent=parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        return super().invoke(ctx) if ctx.command is self else ctx.command.invoke(ctx)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("In place of DOCUMENT"):
            formatter.write_dl([(name, command.get_short_help_str(90)) for name, command in sorted(SUBCOMMANDS.items())])


@click.command(cls=PlanCommand)
@click.argument("document", type=FILE)
@click.option("--budget", type=int, help="Replicas that may be active (topologies).")
@click.option("--ic", type=float, help="Internal completeness to reach: at least cost, or with the fewest replicas.")
@click.option("--planner", help="Name of a planner or solver, or 'all' to compare them. [default: the best one]")
@click.option(
    "--objective",
    type=click.Choice(["of", "ic", "criticality"]),
    help="The measure of a topology's plan: output fidelity (default), internal completeness, measured criticality (default "
    "with --criticality).",
)
@click.option(
    "--criticality",
    type=FILE,
    help="The impact of losing each operator: report.json of holdfast assess, or a document with 'impact'.",
)
@click.option("--current", type=FILE, help="The current plan: prefer plans that differ little from it.")
@click.option(
    "--move-worth",
    type=float,
    default=0.005,
    show_default=True,
    help="With --current: the quality that each started replica must add.",
)
@click.option("--seconds", type=float, default=60.0, show_default=True, help="Time limit of each of a descriptor's solvers.")
@click.option(
    "--failure",
    default="pessimistic",
    show_default=True,
    metavar="MODEL",
    help="Failure model of a descriptor's strategy: pessimistic (all replicas of a PE but one fail), independent:P (each is down"
    " with probability P), node-crash (one node, any) or node-crash:NODE.",
)
@click.option(
    "--by-contract",
    is_flag=True,
    help="For a descriptor: minimise running cost plus expected penalty at its prices, even if that breaks the SLA.",
)
@click.option("--plot", type=FILE, help="Draw quality against budget, or IC against cost (.svg).")
@click.option("--out", type=FILE, help="Write the plan or strategy here (JSON or YAML by suffix), and its HTML page next to it.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout, and messages on stderr.")
@click.pass_context
def plan(
    context: click.Context,
    /,
    document: Path,
    budget: int | None,
    ic: float | None,
    planner: str | None,
    objective: str | None,
    criticality: Path | None,
    current: Path | None,
    move_worth: float,
    seconds: float,
    failure: str,
    by_contract: bool,
    plot: Path | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Plan the replicas of a task topology, or the replica activation strategy of an application descriptor.

    Planners of topologies: frontier (the default; also gives a bound on the best plan), structure-aware, greedy.
    Solvers of descriptors: milp (the default), exhaustive, and the baselines nr, sr, grd. Packages may add
    others; --planner all shows them.

    \b
    Examples:
      holdfast plan topology.yaml --budget 12 --out plan.json
      holdfast plan topology.yaml --budget 12 --planner all --plot quality.svg
      holdfast plan topology.yaml --budget 12 --current plan.json --out next.json
      holdfast plan topology.yaml --budget 12 --criticality assessment/report.json
      holdfast plan descriptor.yaml --ic 0.7 --out strategy.json
      holdfast plan descriptor.yaml --by-contract --out strategy.json
      holdfast plan descriptor.yaml --ic 0.95 --failure independent:0.01
    """
    if ic is not None and not 0 <= ic <= 1:
        raise HoldfastError(f"--ic wants a number from 0 to 1, got {ic:g}")
    if not (isfinite(seconds) and seconds > 0):
        raise HoldfastError(f"--seconds wants a number above 0, got {seconds:g}")
    if not 0 <= move_worth <= 1:
        raise HoldfastError(f"--move-worth wants a number from 0 to 1, got {move_worth:g}")
    check_output(out, plot=plot, inputs={"DOCUMENT": document, "--criticality": criticality, "--current": current})
    kind = kind_of(document)
    if kind is TOPOLOGY:
        _refuse(context, DESCRIPTORS_ONLY, f"for application descriptors only, and '{document}' is a task topology")
        if current is None:
            _refuse(context, ("move_worth",), "requires --current PLAN")
        plan_topology(
            read_kind(document, Topology, kinds=[TOPOLOGY]),
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
    elif kind is DESCRIPTOR:
        only = f"for task topologies only, and '{document}' is an application descriptor;"
        _refuse(context, TOPOLOGIES_ONLY, f"{only} its strategy is the cheapest that reaches --ic")
        plan_descriptor(
            read_kind(document, Descriptor, kinds=[DESCRIPTOR]),
            ic=ic,
            solver=planner,
            failure=failure_model(failure),
            by_contract=by_contract,
            seconds=seconds,
            plot=plot,
            out=out,
            as_json=as_json,
        )
    elif kind in (PLAN, STRATEGY):
        name, right_kind = ("plan", "task topology") if kind is PLAN else ("strategy", "application descriptor")
        raise DocumentError(str(document), [f"is a {name}, which is the output of this command; give the {right_kind} to plan for"])
    else:
        actual = f"is {kind.name}, " if kind else "is "
        raise DocumentError(
            str(document),
            [f"{actual}neither a task topology (field 'topology') nor an application descriptor (field 'application')"],
        )


def _refuse(context: click.Context, names: tuple[str, ...], why: str) -> None:
    """Raise HoldfastError if any of these options was given, because it would have no effect."""
    ineffective = [name for name in names if context.get_parameter_source(name) is not ParameterSource.DEFAULT]
    if ineffective:
        raise HoldfastError(f"{', '.join('--' + name.replace('_', '-') for name in ineffective)}: {why}")
