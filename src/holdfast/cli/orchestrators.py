"""What the commands that speak with an orchestrator have in common: where it is, how its jobs and events are shown."""

import os
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from holdfast.terminal import say

if TYPE_CHECKING:
    from rich.table import Table

    from holdfast.protocol.client import Client

F = TypeVar("F", bound=Callable[..., Any])

AWAY_S = 0.5
UNBOUNDED = 100_000


def orchestrator_options(command: F) -> F:
    """--orchestrator, --token-file and --certificate, as every command that calls an orchestrator takes them."""
    for option in (
        click.option("--certificate", type=click.Path(path_type=Path), help="PEM file of the authority behind its TLS."),
        click.option("--token-file", type=click.Path(path_type=Path), help="File with the user token; found in DIR by itself."),
        click.option(
            "--orchestrator",
            metavar="URL|DIR",
            help="Where the orchestrator is, or its --work folder.  [default: HOLDFAST_URL, else ./orchestrator]",
        ),
    ):
        command = option(command)
    return command


watch_option = click.option("--watch", is_flag=True, help="Go on showing what happens, until it has ended or Ctrl-C.")


def clock(at_s: float) -> str:
    """A moment as the time of day."""
    return datetime.fromtimestamp(at_s).strftime("%H:%M:%S.%f")[:-3]


def lasted(seconds: float) -> str:
    """A length of time in the largest unit that tells enough.

    >>> lasted(12.3), lasted(1800), lasted(100_000), lasted(1e6), lasted(-1)
    ('12 s', '30 min', '28 h', '12 d', '0 s')
    """
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"


def print_table(found: "Table | str") -> None:
    """Print a table. Where no screen bounds it, it is as wide as it is: a row is a line for whatever reads on."""
    from rich.console import Console

    console = Console(markup=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = UNBOUNDED
    console.print(found)


def event_line(event: dict[str, Any]) -> str:
    """An event in one line."""
    whom = event["replica"] or (f"job {event['job']}" if event["job"] is not None else event["node"] or "orchestrator")
    return f"{clock(event['at_s'])}  {whom}: {event['text']}"


def follow(client: "Client", *, seen: Callable[[dict[str, Any]], None], over: Callable[[], bool], after: int) -> None:
    """Show the events after a number as they come, until `over` and with all that led to it. An orchestrator that goes away is
    waited for."""
    from holdfast.protocol.client import OrchestratorUnreachable

    number, away = after, False
    while True:
        try:
            is_over = over()  # asked before the events: how it came about is among them
            found = client.events(after=number, wait_s=0.0 if is_over else 5.0)
            away = False
            for event in found["events"]:
                seen(event)
            number = found["last"]
            if is_over and number >= found["newest"]:
                return
        except OrchestratorUnreachable as error:
            if not away:
                say(f"{error}; waiting for it")
            away = True
            time.sleep(AWAY_S)
