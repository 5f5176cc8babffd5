"""The command holdfast reproduce trees: counts and lists the MC-trees of a task topology."""

from itertools import islice
from pathlib import Path

import click

from holdfast.cli import FILE, json_option
from holdfast.documents import Topology, read_document
from holdfast.planning.ppa import Measure, output_fidelity
from holdfast.terminal import print_json
from holdfast_papers.ppa.mc_trees import count_trees, trees


@click.command("trees")
@click.argument("document", type=FILE)
@click.option("--list", "most", type=click.IntRange(min=0), default=0, metavar="N", help="List the first N of them.")
@json_option
def list_trees(document: Path, most: int, as_json: bool) -> None:
    """Count the minimal complete trees of a task topology (PPA, Definition 1): the smallest sets of tasks with an output.

    If forks rejoin and the trees are very many, the number is an upper bound.

    \b
    Example:
      holdfast reproduce trees topology.yaml --list 10
    """
    topology = read_document(document, Topology)
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
