"""Output of a command: messages and progress on stderr, the result on stdout."""

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import click

LINE_EVERY_S = 10.0
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
    """Show progress and the remaining time on stderr: a bar on a terminal, otherwise a line every LINE_EVERY_S.

    Yields a function to call with (done, total).
    """
    if not sys.stderr.isatty():
        yield ProgressLines(description, time.monotonic)
        return
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


class ProgressLines:
    """Prints progress as lines with the remaining time."""

    def __init__(self, description: str, clock: Callable[[], float]) -> None:
        self._description, self._clock, self._began_s = description, clock, clock()
        self._next_s = LINE_EVERY_S

    def __call__(self, done: int, total: int) -> None:
        spent_s = self._clock() - self._began_s
        if spent_s >= self._next_s and 0 < done < total:
            remaining_s = spent_s * (total - done) / done
            say(f"{done:,} of {total:,} {self._description}, about {remaining_s:,.0f} s left")
            self._next_s = spent_s + LINE_EVERY_S
