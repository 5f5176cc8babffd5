"""holdfast agents: show a job's prediction agents, and change them while they run."""

import json
import time
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.live import Live
from rich.table import Table

from holdfast.cli.completion import living_jobs
from holdfast.cli.orchestrators import orchestrator_options
from holdfast.cli.shared import json_option
from holdfast.errors import HoldfastError
from holdfast.terminal import print_json

REFRESH_S = 0.5


@click.command()
@click.argument("job", type=int, shell_complete=living_jobs)
@orchestrator_options
@click.option("--task", multiple=True, help="Only this task's agent, such as vwap/0; may be repeated.")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="Change a parameter (deadline_s, lead_s, most_epochs, short, least_outputs, train_every, measure, from_input), or the "
    "algorithms: "
    'algorithms=stride,nearest-neighbours, or with their parameters as JSON: \'algorithms={"nearest-neighbours": {"k": 8}}\'.',
)
@click.option("--watch", is_flag=True, help="Show changes until Ctrl-C.")
@json_option
def agents(
    job: int,
    orchestrator: str | None,
    token_file: Path | None,
    certificate: Path | None,
    task: tuple[str, ...],
    settings: tuple[str, ...],
    watch: bool,
    as_json: bool,
) -> None:
    """Show the prediction agents of a job: deadline, missed epochs, predictions, accuracy and the algorithms in use.

    \b
    Example:
      holdfast agents 3
      holdfast agents 3 --watch
      holdfast agents 3 --task rack_cpu/0 --set deadline_s=2 --set algorithms=stride,last-outcome
    """
    from holdfast.protocol.client import find_client

    orders = read_orders(settings)
    with find_client(orchestrator, token_file, certificate=certificate) as client:
        if orders:
            tasks = list(task) or [agent["task"] for agent in client.agents(job)]
            if not tasks:
                raise HoldfastError(f"job {job} has no prediction agents to change; set 'protection: prediction' in its contract")
            for name in tasks:
                client.change_agent(job, name, orders)
        selection = _select(client.agents(job), task, job)
        if as_json:
            print_json({"agents": selection})
        elif watch:
            with Live(agents_table(selection), console=Console(), refresh_per_second=4) as live:
                while True:
                    time.sleep(REFRESH_S)
                    live.update(agents_table(_select(client.agents(job), task, job)))
        else:
            Console().print(agents_table(selection) if selection else "no prediction agents", markup=False)


def read_orders(settings: tuple[str, ...]) -> dict[str, Any]:
    """Return the --set options as orders for the orchestrator. Raises HoldfastError.

    >>> read_orders(("deadline_s=2", "algorithms=stride,last-outcome", "short=abstain"))
    {'deadline_s': 2, 'algorithms': {'stride': {}, 'last-outcome': {}}, 'short': 'abstain'}
    >>> read_orders(('algorithms={"nearest-neighbours": {"k": 8}}',))
    {'algorithms': {'nearest-neighbours': {'k': 8}}}
    """
    orders: dict[str, Any] = {}
    for text in settings:
        name, equals, value = text.partition("=")
        if not (equals and name and value):
            raise HoldfastError(f"--set: wanted NAME=VALUE such as deadline_s=2, got '{text}'")
        try:
            orders[name] = json.loads(value)
        except ValueError as error:
            if value.lstrip().startswith("{"):
                raise HoldfastError(
                    f"--set {name}: '{value}' is not JSON ({error}); write names and texts in double quotes"
                ) from error
            orders[name] = {algorithm.strip(): {} for algorithm in value.split(",")} if name == "algorithms" else value
    return orders


def agents_table(agents: list[dict[str, Any]]) -> Table:
    """Return a table with one row per agent."""
    columns = (
        "task",
        "node",
        "state",
        "deadline",
        "usual time",
        "outputs",
        "late",
        "predicted",
        "corrected",
        "accuracy",
        "in use",
        "message",
    )
    table = Table(*columns, box=None, pad_edge=False)
    for agent in agents:
        about = agent["about"]
        streams = list(about.get("streams", {}).values())
        accuracies = [stream["accuracy"] for stream in streams if stream.get("accuracy") is not None]
        used: dict[str, int] = {}
        for stream in streams:
            for name, count in stream.get("last_used", {}).items():
                used[name] = used.get(name, 0) + count
        message = agent["error"] or about.get("error") or about.get("refused") or about.get("why") or ""
        table.add_row(
            agent["task"],
            agent["node"],
            about.get("state", "starting") if agent["alive"] else "dead",
            _seconds(about.get("deadline_s")),
            _seconds(about.get("usual_s")),
            str(about.get("outputs", 0)),
            str(about.get("misses", 0)),
            str(about.get("predicted", 0)),
            str(about.get("corrected", 0)),
            f"{sum(accuracies) / len(accuracies):.0%}" if accuracies else "-",
            ", ".join(f"{name} {count}" for name, count in sorted(used.items(), key=lambda item: (-item[1], item[0]))[:2]) or "-",
            message.splitlines()[0] if message else "",
        )
    return table


def _select(agents: list[dict[str, Any]], tasks: tuple[str, ...], job: int) -> list[dict[str, Any]]:
    unknown = sorted(set(tasks) - {agent["task"] for agent in agents})
    if unknown:
        known = ", ".join(agent["task"] for agent in agents) or "none"
        raise HoldfastError(f"job {job} has no prediction agent for task '{unknown[0]}'; its agents watch: {known}")
    return [agent for agent in agents if not tasks or agent["task"] in tasks]


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f} s"
