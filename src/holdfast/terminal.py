"""Output of a command: messages and progress on stderr, the result on stdout."""

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import click

DAY_S = 86_400.0
"""How far back a progress bar looks to estimate the remaining time. One step can take minutes, so the bar uses all steps."""


def say(text: str = "") -> None:
    """Print a message for a person on stderr; stdout is reserved for the result.

    Writes to the current sys.stderr, which a progress bar replaces to keep messages above it. click.echo would write over the bar.
    """
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def print_json(document: Mapping[str, Any]) -> None:
    """Print the result of a command as one JSON document on stdout."""
    click.echo(json.dumps(document, indent=2, default=str))


@contextmanager
def progress_bar(description: str) -> Iterator[Callable[[int, int], None]]:
    """Show a bar with the remaining time on stderr. Yields a function to call with (done, total)."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(file=sys.stderr),
        transient=True,
        speed_estimate_period=DAY_S,
    ) as bar:
        task = bar.add_task(description, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
