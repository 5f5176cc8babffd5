"""holdfast job: show one job with its history."""

from pathlib import Path
from typing import Any

import click

from holdfast.cli.completion import all_jobs
from holdfast.cli.orchestrators import clock, follow_job, orchestrator_options, watch_option
from holdfast.cli.shared import json_option
from holdfast.terminal import print_json


@click.command()
@click.argument("number", metavar="JOB", type=click.IntRange(1), shell_complete=all_jobs)
@orchestrator_options
@watch_option
@json_option
def job(
    number: int, orchestrator: str | None, token_file: Path | None, certificate: Path | None, watch: bool, as_json: bool
) -> None:
    """Show a job: its states with times and causes, its tasks, and the state of each replica.

    \b
    Example:
      holdfast job 7
      holdfast job 7 --watch
    """
    from holdfast.protocol.client import find_client

    with find_client(orchestrator, token_file, certificate=certificate) as client:
        newest = client.newest_event() if watch else 0
        state = client.job(number)
        if as_json:
            print_json(state)
        else:
            print_job(state)
        if watch and not state["ended"]:
            follow_job(client, number, after=newest)


def print_job(job: dict[str, Any]) -> None:
    """Print a job as text."""
    click.echo(f"job {job['id']} '{job['name']}' ({job['type']}, {job['host_kind']}): {job['state']}")
    if job["reason"]:
        click.echo(f"  because: {job['reason']}")
    for change in job["history"]:
        cause = f": {change['cause']}" if change["cause"] else ""
        click.echo(f"  {clock(change['at_s'])}  {change['state']:<13} by {change['event']}{cause}")
    for task in job["tasks"]:
        reads = f" reads {', '.join(task['reads'])}" if task["reads"] else ""
        shared = f" (shared: {task['shared']})" if task["shared"] else ""
        click.echo(f"  {task['task']}{shared}{reads}{_executor_rows(job, task)}")
        for replica in task["replicas"]:
            status = replica["status"] or {}
            live = f", epoch {status['live']}" if status.get("live") is not None else ""
            idle = "" if replica["active"] else ", idle by request"
            rows_behind = sum(status.get("rows_behind", {}).values())
            behind = f", {rows_behind:,} rows behind" if rows_behind else ""
            reason = replica["error"] or status.get("error")
            error = f": {reason}" if reason else ""
            click.echo(
                f"    .{replica['replica']} on {replica['node']}: {replica['state']}{live}{behind}{idle}, "
                f"incarnation {replica['incarnation']}, rank {replica['rank']}{error}"
            )


def _executor_rows(job: dict[str, Any], task: dict[str, Any]) -> str:
    """Return from how many rows on executors process the epochs of a PE's task; nothing for other tasks."""
    document = job.get("document") or {}
    contract = document.get("contracts", {}).get(task["task"].rpartition("/")[0]) or document.get("contract", {})
    if task.get("kind") != "operators" or "executor_rows" not in contract or job["host_kind"] != "spark":
        return ""
    return f", executors from {contract['executor_rows']:,} rows per epoch"
