"""holdfast jobs: list an orchestrator's jobs."""

from pathlib import Path
from typing import Any

import click
from rich.table import Table

from holdfast.cli.orchestrators import clock, event_line, follow, orchestrator_options, print_table, watch_option
from holdfast.cli.shared import json_option
from holdfast.terminal import print_json, say

MAX_CHARS = 240


@click.command()
@orchestrator_options
@click.option("--state", help="Only jobs in this state.")
@click.option("--all", "everything", is_flag=True, help="Include ended jobs.")
@click.option("--limit", default=100, show_default=True, type=click.IntRange(1, 1000), help="List at most this many jobs.")
@click.option("--after", type=click.IntRange(0), help="List only jobs older than this one.")
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
    """List jobs, newest first. Ended jobs are listed only with --all or --state.

    \b
    Example:
      holdfast jobs
      holdfast jobs --all --limit 20 --json
      holdfast jobs --watch
    """
    from holdfast.protocol.client import find_client

    state_filter = state or (None if everything else "living")
    with find_client(orchestrator, token_file, certificate=certificate) as client:
        newest = client.newest_event() if watch else 0
        page = client.jobs(state=state_filter, limit=limit, after=after)
        if as_json:
            print_json({"jobs": page})
        else:
            _print_jobs(page)
        if watch:
            follow(client, after=newest, has_ended=lambda: False, on_event=lambda event: say(event_line(event)))


def _print_jobs(jobs: list[dict[str, Any]]) -> None:
    table = Table(box=None, pad_edge=False)
    for column in ("job", "name", "type", "host kind", "state", "submitted", "why"):
        table.add_column(column, no_wrap=column not in ("name", "why"))
    for job in jobs:
        table.add_row(
            str(job["id"]),
            job["name"],
            job["type"],
            job["host_kind"],
            job["state"],
            clock(job["submitted_s"])[:8],
            shortened(job["reason"]),
        )
    print_table(table if jobs else "no jobs")


def shortened(reason: str) -> str:
    """Return a reason in one line, shortened. 'holdfast job' prints it in full.

    >>> shortened("job 4 has 2 errors:\\n  - no stream 's'\\n  - no PE 'x'")
    "job 4 has 2 errors: no stream 's'; no PE 'x'"
    """
    first, *rest = (line.strip().removeprefix("- ") for line in reason.splitlines() or [""])
    line = " ".join([first, "; ".join(rest)]).strip()
    return line if len(line) <= MAX_CHARS else line[: MAX_CHARS - 4] + " ..."
