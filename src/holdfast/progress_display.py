"""Show progress on stderr: bars with the remaining time on a terminal, otherwise a line every few seconds."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn
from rich.text import Text

LINE_EVERY_S = 10.0

Clock = Callable[[], float]


class Pace:
    """Estimates the remaining time from the steps done since the display began.

    >>> pace = Pace(100.0, done=10)
    >>> pace.remaining_s(100.0, done=10, of=40), pace.remaining_s(110.0, done=30, of=40)
    (None, 5.0)
    """

    def __init__(self, now_s: float, *, done: int) -> None:
        self._began_s, self._at = now_s, done

    def remaining_s(self, now_s: float, *, done: int, of: int) -> float | None:
        """Return the remaining seconds, or None before the first step is done."""
        fresh = done - self._at
        return (now_s - self._began_s) * (of - done) / fresh if fresh > 0 else None


@contextmanager
def show_progress(*, announce: bool = True) -> Iterator[Callable[[str, int, int | None], None]]:
    """Yield a function that shows progress; call it with (description, done, total), or None for an unknown total.

    Lines `announce` new work at once; otherwise the first line comes after LINE_EVERY_S.
    """
    if sys.stderr.isatty():
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeLeft(time.monotonic))
        with Progress(*columns, console=Console(stderr=True), transient=not announce) as bar:
            yield Bars(bar, time.monotonic)
    else:
        yield Lines(time.monotonic, announce=announce)


class TimeLeft(ProgressColumn):
    """Shows the remaining time of a task. It keeps counting down between steps."""

    max_refresh = 0.5

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock

    def render(self, task: Task) -> Text:
        if task.finished:
            return Text("")
        ends_s = task.fields.get("ends_s")
        if ends_s is None:
            return Text("-:--:-- left")
        return Text(f"{timedelta(seconds=round(max(0.0, ends_s - self._clock())))} left")


class Bars:
    """Shows progress as bars, one per description."""

    def __init__(self, bar: Progress, clock: Clock) -> None:
        self._bar, self._clock = bar, clock
        self._tasks: dict[str, tuple[Any, Pace]] = {}

    def __call__(self, what: str, done: int, of: int | None) -> None:
        now = self._clock()
        if what not in self._tasks:
            self._tasks[what] = self._bar.add_task(what, total=of), Pace(now, done=done)
        task, pace = self._tasks[what]
        remaining_s = None if of is None else pace.remaining_s(now, done=done, of=of)
        self._bar.update(task, completed=done, total=of, ends_s=None if remaining_s is None else now + remaining_s)


class Lines:
    """Shows progress as plain lines with the remaining time."""

    def __init__(self, clock: Clock, say: Callable[[str], None] | None = None, *, announce: bool = True) -> None:
        self._clock, self._say, self._announce = clock, say or (lambda line: click.echo(line, err=True)), announce
        self._paces: dict[str, Pace] = {}
        self._next_s = 0.0 if announce else clock() + LINE_EVERY_S

    def __call__(self, what: str, done: int, of: int | None) -> None:
        now, new = self._clock(), what not in self._paces
        pace = self._paces.setdefault(what, Pace(now, done=done))
        if of is None or (now < self._next_s and not (self._announce and (new or done == of))):
            return
        self._next_s = now + LINE_EVERY_S
        remaining_s = pace.remaining_s(now, done=done, of=of) if done < of else None
        self._say(f"{what}: {done:,} of {of:,}{'' if remaining_s is None else f', about {remaining_s:,.0f} s left'}")
