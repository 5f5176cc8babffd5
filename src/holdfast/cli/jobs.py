"""holdfast jobs: list an orchestrator's jobs."""

from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from holdfast.cli.orchestrators import clock, event_line, follow, orchestrator_options, watch_option
from holdfast.cli.shared import json_option, print_json, say


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
    from holdfast.manage.client import find_client

    wanted = state or (None if everything else "living")
    with find_client(orchestrator, token_file, certificate=certificate) as client:
        found = client.jobs(state=wanted, limit=limit, after=after)
        if as_json:
            print_json({"jobs": found})
        else:
            _show(found)
        if watch:
            follow(client, over=lambda: False, seen=lambda event: say(event_line(event)))


def _show(found: list[dict[str, Any]]) -> None:
    table = Table("job", "name", "type", "host", "state", "submitted", "why", box=None, pad_edge=False)
    for job in found:
        table.add_row(
            str(job["id"]),
            job["name"],
            job["type"],
            job["host"],
            job["state"],
            clock(job["submitted_s"])[:8],
            job["reason"].splitlines()[0] if job["reason"] else "",
        )
    Console().print(table if found else "no jobs", markup=False)
