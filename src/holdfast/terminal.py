"""Output of a command: messages and progress on stderr, the result on stdout."""

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import click


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
    """Show the progress of one piece of work on stderr. Yields a function to call with (done, total).

    Without a terminal, work that takes less than LINE_EVERY_S prints nothing.
    """
    from holdfast.progress_display import show_progress

    with show_progress(announce=False) as show:
        show(description, 0, None)
        yield lambda done, total: show(description, done, total)
