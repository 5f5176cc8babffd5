"""Subcommands of holdfast plan that only evaluate: fidelity after failures, and the configuration for measured rates."""

from __future__ import annotations

from math import isfinite
from pathlib import Path

import click
import numpy as np

from holdfast.cli.plan_output import FILE
from holdfast.cli.shared import json_option
from holdfast.documents.topology import Topology
from holdfast.errors import HoldfastError
from holdfast.planning.document_kinds import TOPOLOGY, read_kind
from holdfast.planning.laar.strategy import read_strategy
from holdfast.planning.ppa import internal_completeness, output_fidelity, read_plan
from holdfast.terminal import print_json


@click.command("fidelity")
@click.argument("document", type=FILE)
@click.option(
    "--failed", multiple=True, metavar="TASK", help="A failed task, or an operator whose tasks have all failed. Repeatable."
)
@click.option("--with-plan", type=FILE, help="A plan: all tasks that it does not replicate have failed.")
@json_option
def fidelity(document: Path, failed: tuple[str, ...], with_plan: Path | None, as_json: bool) -> None:
    """Print the output fidelity of a task topology after some tasks have failed.

    \b
    Examples:
      holdfast plan fidelity topology.yaml --failed filter/0 --failed join
      holdfast plan fidelity topology.yaml --with-plan plan.json
    """
    if bool(failed) == (with_plan is not None):
        raise HoldfastError("give either --failed tasks or --with-plan, not both")
    topology = read_kind(document, Topology, kinds=[TOPOLOGY])
    if with_plan is not None:
        down = sorted(set(topology.number.values()) - {topology.number[t] for t in read_plan(with_plan, topology=topology).tasks})
    else:
        down = _task_numbers(topology, failed)
    alive = np.ones(len(topology.tasks))
    alive[down] = 0.0
    measure = output_fidelity(topology)
    values = measure.fidelities(alive[:, None])[:, 0]
    sink_tasks = [i for at in topology.sinks for i in range(*topology.spans[at].indices(len(values)))]
    outputs = {topology.tasks[i]: float(values[i]) for i in sink_tasks}
    of, ic = (float(m.values(alive[:, None])[0]) for m in (measure, internal_completeness(topology)))
    if as_json:
        print_json(
            {
                "topology": topology.topology,
                "failed": [topology.tasks[i] for i in down],
                "output_fidelity": of,
                "information_loss": 1 - of,
                "internal_completeness": ic,
                "outputs": outputs,
            }
        )
        return
    click.echo(
        f"{topology.topology}: {len(down)} of {len(alive)} tasks have failed; output fidelity {of:.4f} "
        f"(information loss {1 - of:.4f}), internal completeness {ic:.4f}"
    )
    for task, value in outputs.items():
        click.echo(f"  {task}: fidelity {value:.4f}")


@click.command("lookup")
@click.argument("document", type=FILE)
@click.option("--rate", "rates", multiple=True, required=True, metavar="SOURCE=RATE", help="A source's measured rate.")
@json_option
def lookup(document: Path, rates: tuple[str, ...], as_json: bool) -> None:
    """Print the configuration of a strategy for measured rates, and its active replicas (LAAR section 4.6).

    It is the nearest configuration that dominates the rates. If none does, it is the one that falls short least, with a warning.

    \b
    Example:
      holdfast plan lookup strategy.json --rate market=120 --rate news=3.5
    """
    measured = _rates(rates)
    strategy = read_strategy(document)
    match = strategy.lookup(measured)
    activation = match.activation
    if as_json:
        print_json(
            {
                "application": strategy.application,
                "measured": measured,
                "configuration": activation.name,
                "rates": activation.rates,
                "dominates": match.dominates,
                "exceeded": dict(match.exceeded),
                "active": {pe: list(replicas) for pe, replicas in activation.active.items()},
            }
        )
        return
    rate_text = ", ".join(f"{source} {rate:g}" for source, rate in activation.rates.items())
    click.echo(f"{strategy.application}: configuration '{activation.name}' ({rate_text})")
    for source, more in match.exceeded.items():
        click.echo(f"  {source} is {more:g} above the nearest configuration: nodes may be overloaded")
    for pe, replicas in activation.active.items():
        nodes = ", ".join(f"replica {j} on '{strategy.placement[pe][j]}'" for j in replicas)
        click.echo(f"  {pe}: {nodes}")


def _task_numbers(topology: Topology, names: tuple[str, ...]) -> list[int]:
    """Return the numbers of tasks given by their name or by their operator's name."""
    numbers: set[int] = set()
    unknown = []
    for name in names:
        if name in topology.number:
            numbers.add(topology.number[name])
        elif name in topology.operators:
            numbers.update(range(*topology.spans[topology.order.index(name)].indices(len(topology.tasks))))
        else:
            unknown.append(name)
    if unknown:
        operators = ", ".join(f"{name} ({operator.parallelism} tasks)" for name, operator in sorted(topology.operators.items()))
        raise HoldfastError(
            f"--failed: topology '{topology.topology}' has no task or operator {', '.join(map(repr, unknown))}; give a task as "
            f"OPERATOR/NUMBER; operators are: {operators}"
        )
    return sorted(numbers)


def _rates(texts: tuple[str, ...]) -> dict[str, float]:
    rates: dict[str, float] = {}
    for text in texts:
        source, _, number = text.rpartition("=")
        try:
            rate = float(number)
        except ValueError:
            rate = float("nan")
        if not source or not (isfinite(rate) and rate >= 0):
            raise HoldfastError(f"--rate wants SOURCE=RATE with a rate of at least 0, such as market=120; got '{text}'")
        if source in rates:
            raise HoldfastError(f"--rate gives source '{source}' twice; give each once")
        rates[source] = rate
    return rates
