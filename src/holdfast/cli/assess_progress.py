"""How far a campaign is, on stderr: a bar with the time left on a terminal, a line now and then elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

LINE_EVERY_S = 10.0


@contextmanager
def shown() -> Iterator[Callable[[str, int, int], None]]:
    """What to call with what is being done, how much of it is done, and how much there is."""
    if sys.stderr.isatty():
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=Console(stderr=True)) as bar:
            tasks: dict[str, Any] = {}

            def show(what: str, done: int, of: int) -> None:
                if what not in tasks:
                    tasks[what] = bar.add_task(what, total=of)
                bar.update(tasks[what], completed=done, total=of)

            yield show
    else:
        yield Lines(time.monotonic)


class Lines:
    """Progress as plain lines, with the time left."""

    def __init__(self, clock: Callable[[], float], say: Callable[[str], None] | None = None) -> None:
        self._clock, self._say = clock, say or (lambda line: click.echo(line, err=True))
        self._began: dict[str, tuple[float, int]] = {}
        self._next_s = 0.0

    def __call__(self, what: str, done: int, of: int) -> None:
        now = self._clock()
        new = what not in self._began
        began, at = self._began.setdefault(what, (now, done))
        if now < self._next_s and done < of and not new:
            return
        self._next_s = now + LINE_EVERY_S
        fresh = done - at
        left = f", about {(now - began) * (of - done) / fresh:,.0f} s left" if fresh and done < of else ""
        self._say(f"{what}: {done:,} of {of:,}{left}")
