"""holdfast plan for application descriptors (LAAR): output of strategies."""

from __future__ import annotations

import json
from pathlib import Path

import click

from holdfast.cli.plan_output import write_output, write_page, write_plot
from holdfast.documents.descriptor import Descriptor
from holdfast.documents.document import document_text
from holdfast.errors import HoldfastError
from holdfast.planning.laar import FailureModel, Instance, Pessimistic, Strategy
from holdfast.planning.laar.comparison import ExplainedStrategy, cheapest_by_sla, compare_solvers, strategy_by, strategy_by_contract
from holdfast.planning.laar.strategy import Money


def plan_descriptor(
    descriptor: Descriptor,
    *,
    ic: float | None,
    solver: str | None,
    failure: FailureModel,
    by_contract: bool,
    seconds: float,
    plot: Path | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Plan a descriptor's strategy (by `milp` without a solver), write the requested files and print the result."""
    if by_contract and solver is not None:
        raise HoldfastError(f"--by-contract has its own solver and excludes --planner {solver}")
    if not isinstance(failure, Pessimistic) and (by_contract or plot is not None):
        raise HoldfastError(f"--failure {failure.name} excludes --by-contract and --plot, which are for pessimistic failures")
    if by_contract:
        results = [strategy_by_contract(descriptor, ic=ic, seconds=seconds)]
    elif solver == "all":
        results = _compare(descriptor, ic=ic, failure=failure, seconds=seconds)
    else:
        results = [strategy_by(solver or "milp", descriptor, ic=ic, failure=failure, seconds=seconds)]
    strategy, strategies = results[0].strategy, [result.strategy for result in results]
    if out is not None:
        write_output(out, strategy)
        click.echo(f"wrote {out}", err=True)
    points = [] if plot is None else cheapest_by_sla(descriptor, seconds=seconds)
    report: dict[str, str] = {}
    if out is not None:
        from holdfast.report.strategy import strategy_page

        page = strategy_page(strategy, Instance.of(descriptor, sla=strategy.sla), others=strategies, cheapest=points)
        report = {"report": str(write_page(out, page))}
    if plot is not None:
        from holdfast.report.strategy import cost_plot

        write_plot(plot, cost_plot(strategy, strategies, points))
    if as_json:
        documents = [json.loads(document_text(one, json_text=True)) for one in strategies]
        whole = {"application": descriptor.application, "strategies": documents, **report} if solver == "all" else documents[0]
        click.echo(json.dumps(whole, indent=2))
    else:
        if solver == "all":
            _print_table(strategies)
        for line in results[0].lines:
            click.echo(line)
        if strategy.money is not None:
            click.echo(_money_line(strategy.money))
    if report:
        click.echo(f"report: {report['report']}", err=True)


def _compare(descriptor: Descriptor, *, ic: float | None, failure: FailureModel, seconds: float) -> list[ExplainedStrategy]:
    """Return the strategies of all solvers and baselines. Prints errors; raises the first one if no solver has a strategy."""
    comparison = compare_solvers(descriptor, ic=ic, failure=failure, seconds=seconds)
    for name, error in comparison.reportable_errors.items():
        click.echo(f"{name}: {error}", err=True)
    if not comparison.solved:
        _print_table([result.strategy for result in comparison.strategies], err=True)
        raise next(iter(comparison.errors.values()))
    return comparison.strategies


def _print_table(strategies: list[Strategy], *, err: bool = False) -> None:
    click.echo(f"{'solver':18} {'outcome':>7} {'IC':>7} {'cost':>14} {'seconds':>8}  nodes", err=err)
    for one in strategies:
        overloaded = any("is overloaded" in text for text in one.breaks)
        took = f"{one.search.seconds:8.2f}" if one.search else f"{'':8}"
        click.echo(
            f"{one.solver:18} {one.outcome:>7} {one.internal_completeness:7.4f} {one.cost:14.6g} {took}"
            f"  {'are overloaded' if overloaded else 'carry it'}",
            err=err,
        )
    click.echo(err=err)


def _money_line(money: Money) -> str:
    return (
        f"contract: running cost {money.running_cost:.6g}, expected penalty {money.expected_penalty:.6g}, fare {money.fare:.6g}; "
        f"profit {money.profit:.6g} per billing period"
    )
