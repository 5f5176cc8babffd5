"""What all commands that call an orchestrator share: options, the display of times and events, and following events."""

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

RETRY_S = 0.5
UNLIMITED_WIDTH = 100_000


def orchestrator_options(command: F) -> F:
    """Add --orchestrator, --token-file and --certificate to a command."""
    for option in (
        click.option("--certificate", type=click.Path(path_type=Path), help="PEM file of its certificate authority."),
        click.option("--token-file", type=click.Path(path_type=Path), help="File with the token.  [default: user.token in DIR]"),
        click.option(
            "--orchestrator",
            metavar="URL[,URL]|DIR",
            help="URL of the orchestrator, with standbys several, or its --work folder.  "
            "[default: HOLDFAST_URL, else ./orchestrator]",
        ),
    ):
        command = option(command)
    return command


watch_option = click.option("--watch", is_flag=True, help="Print events until the job has ended, or until Ctrl-C.")


def clock(at_s: float) -> str:
    """Return a time as the time of day."""
    return datetime.fromtimestamp(at_s).strftime("%H:%M:%S.%f")[:-3]


def duration_text(seconds: float) -> str:
    """Return a duration in the largest unit that is precise enough.

    >>> duration_text(12.3), duration_text(1800), duration_text(100_000), duration_text(1e6), duration_text(-1)
    ('12 s', '30 min', '28 h', '12 d', '0 s')
    """
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"


def print_table(table: "Table | str") -> None:
    """Print a table. If the output is not a terminal, its width is unlimited, so that each row is one line."""
    from rich.console import Console

    console = Console(markup=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = UNLIMITED_WIDTH
    console.print(table)


def event_line(event: dict[str, Any]) -> str:
    """Return an event as one line."""
    subject = event["replica"] or (f"job {event['job']}" if event["job"] is not None else event["node"] or "orchestrator")
    return f"{clock(event['at_s'])}  {subject}: {event['text']}"


def follow_job(client: "Client", number: int, *, after: int) -> None:
    """Print the events of a job after an event number, until the job has ended."""

    def print_event(event: dict[str, Any]) -> None:
        if event["job"] == number:
            say(event_line(event))

    follow(client, after=after, has_ended=lambda: bool(client.job(number)["ended"]), on_event=print_event)


def follow(client: "Client", *, on_event: Callable[[dict[str, Any]], None], has_ended: Callable[[], bool], after: int) -> None:
    """Pass on the events after a number as they come, until `has_ended`. Waits while the orchestrator is unreachable."""
    from holdfast.protocol.client import OrchestratorUnreachable

    number, unreachable = after, False
    while True:
        try:
            ended = has_ended()  # before the events are fetched, so that these include the end
            page = client.events(after=number, wait_s=0.0 if ended else 5.0)
            unreachable = False
            for event in page["events"]:
                on_event(event)
            number = page["last"]
            if ended and number >= page["newest"]:
                return
        except OrchestratorUnreachable as error:
            if not unreachable:
                say(f"{error}; waiting for it")
            unreachable = True
            time.sleep(RETRY_S)
