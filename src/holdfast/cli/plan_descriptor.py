"""The part of holdfast plan that plans application descriptors (LAAR)."""

from __future__ import annotations

import json
from pathlib import Path

import click

from holdfast.errors import HoldfastError
from holdfast.model.descriptor import Descriptor
from holdfast.model.document import document_text, write_document
from holdfast.plan.laar import (
    BASELINES,
    SOLVERS,
    Account,
    InfeasibleError,
    Instance,
    Outcome,
    Strategy,
    account,
    baseline,
    negotiate,
    plan_strategy,
    reasons,
    violations,
)
from holdfast.plan.ppa.plot import check_path

COMPARED = ("best", *(name.lower() for name in BASELINES))
SAME_AS = {"exact": "milp"}


def plan_descriptor(
    descriptor: Descriptor,
    *,
    ic: float | None,
    solver: str,
    by_contract: bool,
    seconds: float,
    plot: Path | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Plan a descriptor's strategy and say so on stdout."""
    if plot is not None:
        check_path(plot)
    names = COMPARED if solver == "all" else (SAME_AS.get(solver, solver),)
    if by_contract and solver != "best":
        raise HoldfastError(f"--by-contract has a solver of its own, so it cannot go with --planner {solver}")
    if by_contract:
        found = [_bargain(descriptor, ic=ic, seconds=seconds)]
    else:
        found = [_strategy(descriptor, name, ic=ic, seconds=seconds) for name in names]
    strategy, lines = found[0]
    if out is not None:
        write_document(out, strategy)
    if plot is not None:
        _draw(plot, descriptor, seconds=seconds)
        click.echo(f"drew {plot}", err=True)
    if as_json:
        plain = [json.loads(document_text(one, json_text=True)) for one, _ in found]
        whole = plain[0] if len(plain) == 1 else {"application": descriptor.application, "strategies": plain}
        click.echo(json.dumps(whole, indent=2))
        return
    if len(found) > 1:
        click.echo(f"{'solver':12} {'IC':>7} {'cost':>14}  hosts")
        for one, _ in found:
            instance = Instance.of(descriptor, sla=ic, placement=one.placement)
            fits = not any(violations(instance, one.array(instance), sla=False))
            click.echo(
                f"{one.solver:12} {one.internal_completeness:7.4f} {one.cost:14.6g}  {'carry it' if fits else 'are overloaded'}"
            )
        click.echo()
    for line in lines:
        click.echo(line)
    if _has_prices(descriptor):
        instance = Instance.of(descriptor, sla=ic, placement=strategy.placement)
        click.echo(_money(account(instance, strategy.array(instance), descriptor.contract.pricing)))


def _has_prices(descriptor: Descriptor) -> bool:
    pricing = descriptor.contract.pricing
    return max(pricing.fare, pricing.cpu_second, pricing.penalty) > 0


def _money(found: Account) -> str:
    return (
        f"contract: running cost {found.running:.6g}, expected penalty {found.penalty:.6g}, fare {found.fare:.6g}; "
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
        f"IC {deal.ic:.4f} {kept} the SLA of {instance.sla:.4g}: running cost plus expected penalty is {deal.account.spending:.6g}"
        f" ({'no strategy has less' if deal.optimal else 'the least that was found'})"
    )
    strategy = Strategy.of(instance, deal.active, solver="contract", outcome=outcome.value)
    return strategy, [head, *reasons(instance, deal.active)]


def _strategy(descriptor: Descriptor, name: str, *, ic: float | None, seconds: float) -> tuple[Strategy, list[str]]:
    """The strategy of a solver or baseline, and its words."""
    if name in SOLVERS:
        planned = plan_strategy(descriptor, sla=ic, solver=name, seconds=seconds)
        return planned.strategy, planned.why()
    if name.upper() not in BASELINES:
        raise HoldfastError(
            f"there is no solver '{name}' of descriptors; solvers are: {', '.join([*SOLVERS, 'exact', *COMPARED[1:]])}, all"
        )
    instance = Instance.of(descriptor, sla=ic)
    active = baseline(name.upper(), instance)
    return Strategy.of(instance, active, solver=name), list(reasons(instance, active))


def _draw(path: Path, descriptor: Descriptor, *, seconds: float) -> None:
    """Cost against internal completeness: the cheapest strategy of each SLA as a line, the baselines as points."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    points = []
    for tenth in range(1, 11):
        try:
            strategy = plan_strategy(descriptor, sla=tenth / 10, seconds=seconds / 10).strategy
        except InfeasibleError:
            break
        points.append((strategy.cost, strategy.internal_completeness))
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    if points:
        axes.plot(*zip(*points, strict=True), marker="o", markersize=3.5, label="best")
    instance = Instance.of(descriptor)
    for name, marker in zip(BASELINES, "sv^Dx" * len(BASELINES), strict=False):
        active = baseline(name, instance)
        strategy = Strategy.of(instance, active, solver=name)
        label = f"{name}, overloads hosts" if any(violations(instance, active, sla=False)) else name
        axes.plot([strategy.cost], [strategy.internal_completeness], marker=marker, linestyle="", label=label)
    axes.set_xlabel("CPU seconds per billing period")
    axes.set_ylabel("internal completeness")
    axes.set_title(descriptor.application)
    axes.set_ylim(0, 1.02)
    axes.grid(alpha=0.3)
    axes.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
