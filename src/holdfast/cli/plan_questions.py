"""What can be asked of a topology or strategy without planning: what a loss costs, MC-trees, the configuration for rates."""

from __future__ import annotations

from itertools import islice
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
from holdfast.planning.ppa import Measure, count_trees, internal_completeness, output_fidelity, read_plan, trees
from holdfast.terminal import print_json


@click.command("fidelity")
@click.argument("document", type=FILE)
@click.option(
    "--failed", multiple=True, metavar="TASK", help="A failed task, or an operator whose tasks have all failed. Repeatable."
)
@click.option("--with-plan", type=FILE, help="Plan in force: all tasks that it does not replicate have failed.")
@json_option
def fidelity(document: Path, failed: tuple[str, ...], with_plan: Path | None, as_json: bool) -> None:
    """Say what the output of a task topology is worth once some tasks have failed.

    \b
    Examples:
      holdfast plan fidelity topology.yaml --failed filter/0 --failed join
      holdfast plan fidelity topology.yaml --with-plan plan.json
    """
    if bool(failed) == (with_plan is not None):
        raise HoldfastError("give the tasks that have --failed, or --with-plan a plan, and not both")
    topology = read_kind(document, Topology, wanted=[TOPOLOGY])
    if with_plan is not None:
        down = sorted(set(topology.number.values()) - {topology.number[t] for t in read_plan(with_plan, topology=topology).tasks})
    else:
        down = _numbers(topology, failed)
    alive = np.ones(len(topology.tasks))
    alive[down] = 0.0
    measure = output_fidelity(topology)
    worth = measure.fidelities(alive[:, None])[:, 0]
    outputs = {topology.tasks[i]: float(worth[i]) for at in topology.sinks for i in range(*topology.spans[at].indices(len(worth)))}
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


@click.command("trees")
@click.argument("document", type=FILE)
@click.option("--list", "most", type=click.IntRange(min=0), default=0, metavar="N", help="List the first N of them.")
@json_option
def list_trees(document: Path, most: int, as_json: bool) -> None:
    """Count the minimal complete trees of a task topology (PPA, Definition 1): the smallest sets of tasks with an output.

    Where a fork meets again and they are very many, a number is given that they do not exceed.

    \b
    Example:
      holdfast plan trees topology.yaml --list 10
    """
    topology = read_kind(document, Topology, wanted=[TOPOLOGY])
    measure: Measure = output_fidelity(topology)
    count = count_trees(measure)
    listed = [[topology.tasks[i] for i in sorted(tree)] for tree in islice(trees(measure), most)]
    if as_json:
        print_json({"topology": topology.topology, "trees": count.number, "exact": count.exact, "listed": listed})
        return
    at_most = "" if count.exact else "at most "
    click.echo(f"{topology.topology}: {at_most}{count.number} minimal complete trees")
    for tree in listed:
        click.echo(f"  {', '.join(tree)}")
    if 0 < len(listed) < count.number and len(listed) == most:
        click.echo(f"  and {at_most}{count.number - len(listed)} more")


@click.command("lookup")
@click.argument("document", type=FILE)
@click.option("--rate", "rates", multiple=True, required=True, metavar="SOURCE=RATE", help="A source's measured rate. One each.")
@json_option
def lookup(document: Path, rates: tuple[str, ...], as_json: bool) -> None:
    """Say which configuration of a strategy fits measured rates, and which replicas are active in it (LAAR section 4.6).

    It is the nearest one that dominates them; where none does, the one that falls short by least, which is said.

    \b
    Example:
      holdfast plan lookup strategy.json --rate market=120 --rate news=3.5
    """
    measured = _rates(rates)
    strategy = read_strategy(document)
    match = strategy.lookup(measured)
    found = match.activation
    if as_json:
        print_json(
            {
                "application": strategy.application,
                "measured": measured,
                "configuration": found.name,
                "rates": found.rates,
                "dominates": match.dominates,
                "exceeded": dict(match.exceeded),
                "active": {pe: list(replicas) for pe, replicas in found.active.items()},
            }
        )
        return
    shown = ", ".join(f"{source} {rate:g}" for source, rate in found.rates.items())
    click.echo(f"{strategy.application}: configuration '{found.name}' ({shown})")
    for source, more in match.exceeded.items():
        click.echo(f"  {source} is {more:g} above every configuration that comes close: nodes may be overloaded")
    for pe, replicas in found.active.items():
        nodes = ", ".join(f"replica {j} on '{strategy.placement[pe][j]}'" for j in replicas)
        click.echo(f"  {pe}: {nodes}")


def _numbers(topology: Topology, names: tuple[str, ...]) -> list[int]:
    """The numbers of tasks given by name, or by their operator's."""
    found: set[int] = set()
    unknown = []
    for name in names:
        if name in topology.number:
            found.add(topology.number[name])
        elif name in topology.operators:
            found.update(range(*topology.spans[topology.order.index(name)].indices(len(topology.tasks))))
        else:
            unknown.append(name)
    if unknown:
        operators = ", ".join(f"{name} ({operator.parallelism} tasks)" for name, operator in sorted(topology.operators.items()))
        raise HoldfastError(
            f"--failed: topology '{topology.topology}' has no task or operator {', '.join(map(repr, unknown))}; give a task as "
            f"OPERATOR/NUMBER; operators are: {operators}"
        )
    return sorted(found)


def _rates(texts: tuple[str, ...]) -> dict[str, float]:
    found: dict[str, float] = {}
    for text in texts:
        source, _, number = text.rpartition("=")
        try:
            rate = float(number)
        except ValueError:
            rate = float("nan")
        if not source or not (isfinite(rate) and rate >= 0):
            raise HoldfastError(f"--rate wants SOURCE=RATE with a rate of at least 0, such as market=120; got '{text}'")
        if source in found:
            raise HoldfastError(f"--rate gives source '{source}' twice; give each once")
        found[source] = rate
    return found
