"""holdfast job: the story of one job."""

from pathlib import Path
from typing import Any

import click

from holdfast.cli.completion import all_jobs
from holdfast.cli.orchestrators import clock, event_line, follow, orchestrator_options, watch_option
from holdfast.cli.shared import json_option
from holdfast.terminal import print_json, say


@click.command()
@click.argument("number", metavar="JOB", type=click.IntRange(1), shell_complete=all_jobs)
@orchestrator_options
@watch_option
@json_option
def job(
    number: int, orchestrator: str | None, token_file: Path | None, certificate: Path | None, watch: bool, as_json: bool
) -> None:
    """Tell the story of a job: its states, when and why, its tasks, and how each replica is doing.

    \b
    Example:
      holdfast job 7
      holdfast job 7 --watch
    """
    from holdfast.protocol.client import find_client

    with find_client(orchestrator, token_file, certificate=certificate) as client:
        newest = client.newest_event() if watch else 0
        story = client.job(number)
        if as_json:
            print_json(story)
        else:
            tell(story)
        if watch and not story["ended"]:
            follow(
                client,
                after=newest,
                over=lambda: bool(client.job(number)["ended"]),
                seen=lambda event: say(event_line(event)) if event["job"] == number else None,
            )


def tell(story: dict[str, Any]) -> None:
    """Print a story for a person."""
    click.echo(f"job {story['id']} '{story['name']}' ({story['type']}, {story['host_kind']}): {story['state']}")
    if story["reason"]:
        click.echo(f"  because: {story['reason']}")
    for move in story["history"]:
        cause = f": {move['cause']}" if move["cause"] else ""
        click.echo(f"  {clock(move['at_s'])}  {move['state']:<13} by {move['event']}{cause}")
    for task in story["tasks"]:
        reads = f" reads {', '.join(task['reads'])}" if task["reads"] else ""
        shared = f" (shared: {task['shared']})" if task["shared"] else ""
        click.echo(f"  {task['task']}{shared}{reads}")
        for replica in task["replicas"]:
            status = replica["status"] or {}
            live = f", epoch {status['live']}" if status.get("live") is not None else ""
            idle = "" if replica["active"] else ", idle by request"
            error = f": {replica['error']}" if replica["error"] else ""
            click.echo(
                f"    .{replica['replica']} on {replica['node']}: {replica['state']}{live}{idle}, "
                f"incarnation {replica['incarnation']}, rank {replica['rank']}{error}"
            )
