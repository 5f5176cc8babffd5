"""holdfast demo: replicas planned, a node killed half-way, output that goes on, and the proof that it is complete."""

import json
import tempfile
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.run import run_in
from holdfast.cli.shared import json_option, print_json, say
from holdfast.errors import HoldfastError
from holdfast.model.load import load_app

if TYPE_CHECKING:
    from holdfast.plan.ppa import PlanDocument

APPLICATION = "bargain_discovery.py"
KILLED = "n2"


@click.command()
@click.option("--seconds", default=40, show_default=True, help="Seconds of a generated market to run through.")
@click.option("--budget", default=4, show_default=True, help="How many of the application's seven tasks may have a replica.")
@click.option("--seed", default=1, show_default=True, help="Seed of the generated market.")
@json_option
def demo(seconds: int, budget: int, seed: int, as_json: bool) -> None:
    """Run Bargain Discovery on three local nodes, kill one of them half-way, and prove that nothing was lost.

    \b
    Example:
      holdfast demo
    """
    if seconds < 20:
        raise HoldfastError(f"the demo needs at least 20 seconds of market to show a failure and its repair, got {seconds}")
    from holdfast.trace import write_market

    with tempfile.TemporaryDirectory(prefix="holdfast-demo-") as folder:
        market, plan_path, faults = (Path(folder) / name for name in ("market.parquet", "plan.json", "faults.yaml"))
        say(f"generating {seconds} seconds of trades and quotes ...")
        write_market(market, events=500 * seconds, seed=seed)
        plan = _planned(plan_path, budget)
        say(f"planned {len(plan.replicated)} replicas; the other tasks have checkpoints only:")
        for replica in plan.replicated:
            say(f"  {replica.why}")
        faults.write_text(json.dumps({"faults": [{"at_s": seconds / 2, "kind": "crash", "what": "node", "target": [KILLED]}]}))
        say(f"node {KILLED} will be killed (SIGKILL) after {seconds / 2:.0f} s; nobody is told")
        document = run_in(
            Path(folder) / "run",
            str(example()),
            trace=str(market),
            columns=None,
            speed=1.0,
            plan=str(plan_path),
            strategy=None,
            adapt_s=None,
            replicas=(),
            faults=str(faults),
            nodes=3,
            racks=0,
            cores=1.0,
            memory="1g",
            master=None,
            checkpoint_epochs=5,
            tentative_after_s=1.0,
            correction=True,
            secondary="quiet",
            for_s=None,
            log_root=None,
            out=None,
            verify=True,
        )
    document["out"] = document["log"] = None
    broken = [verdict["said"] for verdict in document["verdicts"] if verdict["holds"] is False]
    if as_json:
        print_json({**document, "plan": [replica.task for replica in plan.replicated]})
    else:
        _tell(document)
    if broken or document["state"] != "completed":
        raise HoldfastError(f"the run ended as {document['state']}; {'; '.join(broken) or document['reason']}; please report it")


def _planned(path: Path, budget: int) -> "PlanDocument":
    """A plan for the example: the replicas that keep most of its tuples flowing when everything else fails."""
    from holdfast.model.document import write_document
    from holdfast.model.tasks import topology_of
    from holdfast.plan.ppa import Frontier, internal_completeness
    from holdfast.plan.ppa.document import plan_document
    from holdfast.plan.ppa.explain import reasons

    app = load_app(example())
    topology = topology_of(app.graph(), name=app.name)
    if not 1 <= budget <= len(topology.tasks):
        raise HoldfastError(f"--budget: wanted 1 to {len(topology.tasks)} replicas, got {budget}")
    measure = internal_completeness(topology)
    plan = Frontier().plan(measure, budget)
    document = plan_document(plan, topology, reasons=reasons(measure, plan))
    write_document(path, document)
    return document


def _tell(document: dict[str, Any]) -> None:
    struck = document["faults"][0]["tasks"] if document["faults"] else []
    tentative = next(
        v["figures"].get("inexact", 0) for v in document["verdicts"] if v["name"] == "every tentative result corrected"
    )
    gap = document["gap_s"]["bargains"]
    click.echo(f"""
{document["rows"]["bargains"]:,} bargains in {document["epochs"]} epochs of one second.
Node {KILLED} died with {", ".join(struck) or "nothing"} on it.
The longest silence of the output was {gap:.1f} s (an epoch is 1 s); {tentative} epochs left as tentative or absent
and were corrected.
""")
    for each in document["recoveries"]:
        click.echo(f"  {each['task']} was where it had been {each['recovered_s'] - each['failed_s']:.1f} s after the kill")
    for verdict in document["verdicts"]:
        click.echo(f"  {'holds ' if verdict['holds'] else 'BROKEN'} {verdict['name']}: {verdict['said']}")
    click.echo("""
Next:  holdfast assess --help     which operators matter, by injecting faults
       holdfast plan --help       which replicas are worth their price
       holdfast run --help        your own application, your own faults""")


def example(name: str = APPLICATION) -> Path:
    """An example application, from the checkout this runs in or from the installed package."""
    here = Path(__file__).parents[3] / "examples" / name
    return here if here.is_file() else Path(str(files("holdfast") / "examples" / name))
