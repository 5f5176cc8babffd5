"""The part of holdfast plan that plans application descriptors (LAAR)."""

from __future__ import annotations

import json
from pathlib import Path

import click

from holdfast.cli.plan_output import unwritable, write_output, write_page
from holdfast.documents.descriptor import Descriptor
from holdfast.documents.document import document_text
from holdfast.errors import HoldfastError
from holdfast.planning.laar import (
    BASELINES,
    SOLVERS,
    Account,
    BestOfTwo,
    FailureModel,
    InfeasibleError,
    Instance,
    Outcome,
    Pessimistic,
    Strategy,
    account,
    baseline,
    negotiate,
    plan_strategy,
    violations,
)
from holdfast.planning.laar.instance import Active
from holdfast.planning.laar.strategy import Money
from holdfast.planning.ppa.budget_plot import save

COMPARED = (*SOLVERS, *(name.lower() for name in BASELINES))
SAME_AS = {"exact": "milp"}


def plan_descriptor(
    descriptor: Descriptor,
    *,
    ic: float | None,
    solver: str,
    failure: FailureModel,
    by_contract: bool,
    seconds: float,
    plot: Path | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Plan a descriptor's strategy and say so on stdout."""
    if by_contract and solver != "best":
        raise HoldfastError(f"--by-contract has a solver of its own, so it cannot go with --planner {solver}")
    if not isinstance(failure, Pessimistic) and (by_contract or plot is not None):
        raise HoldfastError(
            f"--failure {failure.name} goes with neither --by-contract nor --plot, which are for pessimistic failures"
        )
    if by_contract:
        found = [_bargain(descriptor, ic=ic, seconds=seconds)]
    elif solver == "all":
        found = _compared(descriptor, ic=ic, failure=failure, seconds=seconds)
    else:
        found = [_strategy(descriptor, SAME_AS.get(solver, solver), ic=ic, failure=failure, seconds=seconds)]
    strategy, lines = found[0]
    if out is not None:
        write_output(out, strategy)
        click.echo(f"wrote {out}", err=True)
    points = [] if plot is None else _cheapest(descriptor, seconds=seconds)
    report: dict[str, str] = {}
    if out is not None:
        report = {"report": str(write_page(out, _page(strategy, descriptor, [one for one, _ in found], points)))}
    if plot is not None:
        _draw(plot, descriptor, points, seconds=seconds)
        click.echo(f"drew {plot}", err=True)
    if as_json:
        plain = [json.loads(document_text(one, json_text=True)) for one, _ in found]
        whole = {"application": descriptor.application, "strategies": plain, **report} if solver == "all" else plain[0]
        click.echo(json.dumps(whole, indent=2))
    else:
        _say(strategy, lines, compared=[one for one, _ in found] if solver == "all" else [])
    if report:
        click.echo(f"report: {report['report']}", err=True)


def _say(strategy: Strategy, lines: list[str], *, compared: list[Strategy]) -> None:
    """The strategy in words, after a table of those it was compared with."""
    if compared:
        _table(compared)
    for line in lines:
        click.echo(line)
    if strategy.money is not None:
        click.echo(_money(strategy.money))


def _page(strategy: Strategy, descriptor: Descriptor, found: list[Strategy], points: list[tuple[float, float]]) -> str:
    from holdfast.report.strategy import strategy_page

    return strategy_page(strategy, Instance.of(descriptor, sla=strategy.sla), others=found, cheapest=points)


def _compared(
    descriptor: Descriptor, *, ic: float | None, failure: FailureModel, seconds: float
) -> list[tuple[Strategy, list[str]]]:
    """The strategies of all solvers and baselines. A solver without one is told on stderr; if none has any, its error is raised."""
    found: list[tuple[Strategy, list[str]]] = []
    refused: list[HoldfastError] = []
    for name in COMPARED:
        try:
            strategy, lines = _strategy(descriptor, name, ic=ic, failure=failure, seconds=seconds)
            label = strategy.solver if strategy.solver.startswith(name) else f"{name} ({strategy.solver})"
            found.append((strategy.model_copy(update={"solver": label}), lines))
        except HoldfastError as error:
            refused.append(error)
            if not isinstance(error, InfeasibleError):
                click.echo(f"{name}: {error}", err=True)
    if not found or found[0][0].solver.upper() in BASELINES:
        _table([one for one, _ in found], err=True)
        raise refused[0]
    return found


def _table(strategies: list[Strategy], *, err: bool = False) -> None:
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


def _account(descriptor: Descriptor, instance: Instance, active: Active, failure: FailureModel) -> Account | None:
    """The strategy's account, where there are prices and its IC is the one that the contract speaks of."""
    pricing = descriptor.contract.pricing
    if max(pricing.fare, pricing.cpu_second, pricing.penalty) <= 0 or not isinstance(failure, Pessimistic):
        return None
    return account(instance, active, pricing)


def _money(found: Money) -> str:
    return (
        f"contract: running cost {found.running_cost:.6g}, expected penalty {found.expected_penalty:.6g}, fare {found.fare:.6g}; "
        f"profit {found.profit:.6g} per billing period"
    )


def _bargain(descriptor: Descriptor, *, ic: float | None, seconds: float) -> tuple[Strategy, list[str]]:
    """The strategy of least running cost plus expected penalty, and its words."""
    pricing = descriptor.contract.pricing
    if pricing.cpu_second <= 0 and pricing.penalty <= 0:
        raise HoldfastError(
            f"--by-contract wants prices, and the contract of '{descriptor.application}' has none; "
            "give contract.pricing.cpu_second, penalty or both"
        )
    instance = Instance.of(descriptor, sla=ic)
    deal = negotiate(instance, pricing, seconds=seconds)
    outcome = Outcome.BST if deal.optimal else Outcome.SOL
    kept = "keeps" if deal.meets_sla else "breaks"
    head = (
        f"IC {deal.ic:.4f} {kept} the SLA of {instance.sla:.10g}: running cost plus expected penalty is {deal.account.spending:.6g}"
        f" ({'no strategy has less' if deal.optimal else 'the least that was found'})"
    )
    strategy = Strategy.of(instance, deal.active, solver="contract", outcome=outcome.value)
    strategy = strategy.explained(instance, account=deal.account)
    return strategy, [head, *_warned(strategy), *strategy.explanation_lines()]


def _strategy(
    descriptor: Descriptor, name: str, *, ic: float | None, failure: FailureModel, seconds: float
) -> tuple[Strategy, list[str]]:
    """The strategy of a solver or baseline, and its words."""
    if name in SOLVERS:
        planned = plan_strategy(descriptor, sla=ic, solver=name, seconds=seconds, failure=failure)
        explained = planned.explained(_account(descriptor, planned.instance, planned.active, failure))
        return explained, planned.why(explained)
    if name.upper() not in BASELINES:
        raise HoldfastError(
            f"there is no solver '{name}' of descriptors; solvers are: {', '.join([*COMPARED[:3], 'exact', *COMPARED[3:]])}, all"
        )
    instance = Instance.of(descriptor, sla=ic)
    active = baseline(name.upper(), instance, seconds=seconds)
    strategy = Strategy.of(instance, active, solver=name, failure=failure)
    strategy = strategy.explained(instance, failure=failure, account=_account(descriptor, instance, active, failure))
    under = "" if isinstance(failure, Pessimistic) else f" under failure model {failure.name}"
    head = (
        f"IC {strategy.internal_completeness:.4f}{under} for an SLA of {strategy.sla:.10g}, at {strategy.cost:.6g} CPU s per "
        f"billing period (baseline {name.upper()}, which does not go by the SLA)"
    )
    broken = [f"breaks: {text}" for text in strategy.breaks] or ["breaks nothing: nodes carry it, and the SLA is met"]
    return strategy, [head, *broken, *_warned(strategy), *strategy.explanation_lines()]


def _warned(strategy: Strategy) -> list[str]:
    return [f"warning: {text}" for text in strategy.warnings]


def _cheapest(descriptor: Descriptor, *, seconds: float) -> list[tuple[float, float]]:
    """Cost and internal completeness of the cheapest strategy of each tenth, as far as there are any."""
    instance = Instance.of(descriptor)
    points = []
    for tenth in range(1, 11):
        solution = BestOfTwo().solve(instance.at(tenth / 10), seconds=seconds / 10)
        if solution.cost is None or solution.ic is None:
            break
        points.append((solution.cost, solution.ic))
    return points


def _draw(path: Path, descriptor: Descriptor, points: list[tuple[float, float]], *, seconds: float) -> None:
    """Cost against internal completeness: the cheapest strategy of each SLA as a line, the baselines as points."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    instance = Instance.of(descriptor)
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    if points:
        axes.plot(*zip(*points, strict=True), marker="o", markersize=3.5, label="best")
    for name, marker in zip(BASELINES, "sv^Dx" * len(BASELINES), strict=False):
        active = baseline(name, instance, seconds=seconds / 10)
        strategy = Strategy.of(instance, active, solver=name)
        label = f"{name}, overloads nodes" if any(violations(instance, active, sla=False)) else name
        axes.plot([strategy.cost], [strategy.internal_completeness], marker=marker, linestyle="", label=label)
    axes.set_xlabel("CPU seconds per billing period")
    axes.set_ylabel("internal completeness")
    axes.set_title(descriptor.application, parse_math=False)
    axes.set_ylim(0, 1.02)
    axes.grid(alpha=0.3)
    axes.legend()
    try:
        save(figure, path)
    except OSError as error:
        raise unwritable("--plot", path, error) from error
