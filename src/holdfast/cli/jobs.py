"""holdfast jobs: list an orchestrator's jobs."""

from pathlib import Path
from typing import Any

import click
from rich.table import Table

from holdfast.cli.orchestrators import clock, event_line, follow, orchestrator_options, print_table, watch_option
from holdfast.cli.shared import json_option
from holdfast.terminal import print_json, say

MOST_CHARS = 240


@click.command()
@orchestrator_options
@click.option("--state", help="Only jobs in this state.")
@click.option("--all", "everything", is_flag=True, help="Ended jobs too.")
@click.option("--limit", default=100, show_default=True, type=click.IntRange(1, 1000), help="At most so many, the newest.")
@click.option("--after", type=click.IntRange(0), help="Go on after this job of an earlier list.")
@watch_option
@json_option
def jobs(
    orchestrator: str | None,
    token_file: Path | None,
    certificate: Path | None,
    state: str | None,
    everything: bool,
    limit: int,
    after: int | None,
    watch: bool,
    as_json: bool,
) -> None:
    """List jobs, newest first: those that have not ended, unless told otherwise.

    \b
    Example:
      holdfast jobs
      holdfast jobs --all --limit 20 --json
      holdfast jobs --watch
    """
    from holdfast.protocol.client import find_client

    wanted = state or (None if everything else "living")
    with find_client(orchestrator, token_file, certificate=certificate) as client:
        newest = client.newest_event() if watch else 0
        found = client.jobs(state=wanted, limit=limit, after=after)
        if as_json:
            print_json({"jobs": found})
        else:
            _show(found)
        if watch:
            follow(client, after=newest, over=lambda: False, seen=lambda event: say(event_line(event)))


def _show(found: list[dict[str, Any]]) -> None:
    table = Table(box=None, pad_edge=False)
    for column in ("job", "name", "type", "host kind", "state", "submitted", "why"):
        table.add_column(column, no_wrap=column not in ("name", "why"))
    for job in found:
        table.add_row(
            str(job["id"]),
            job["name"],
            job["type"],
            job["host_kind"],
            job["state"],
            clock(job["submitted_s"])[:8],
            shortened(job["reason"]),
        )
    print_table(table if found else "no jobs")


def shortened(reason: str) -> str:
    """A reason in one line; 'holdfast job' tells all of a long one.

    >>> shortened("job 4 has 2 errors:\\n  - no stream 's'\\n  - no PE 'x'")
    "job 4 has 2 errors: no stream 's'; no PE 'x'"
    """
    first, *rest = (line.strip().removeprefix("- ") for line in reason.splitlines() or [""])
    told = " ".join([first, "; ".join(rest)]).strip()
    return told if len(told) <= MOST_CHARS else told[: MOST_CHARS - 4] + " ..."
