"""holdfast cancel: stop a job."""

import sys
from pathlib import Path

import click

from holdfast.cli.completion import living_jobs
from holdfast.cli.orchestrators import orchestrator_options
from holdfast.cli.shared import FiniteRange, json_option
from holdfast.terminal import print_json, say


@click.command()
@click.argument("number", metavar="JOB", type=click.IntRange(1), shell_complete=living_jobs)
@orchestrator_options
@click.option("--wait", "wait_s", type=FiniteRange(0), help="Wait up to this many seconds until the job has stopped.")
@json_option
def cancel(
    number: int, orchestrator: str | None, token_file: Path | None, certificate: Path | None, wait_s: float | None, as_json: bool
) -> None:
    """Cancel a job: stop its PEs, except those that other jobs share.

    \b
    Example:
      holdfast cancel 7 --wait 30
    """
    from holdfast.protocol.client import WaitFailed, find_client

    with find_client(orchestrator, token_file, certificate=certificate) as client:
        client.cancel(number)
        try:
            if wait_s is not None:
                client.wait_for(number, ("canceled", "failed", "completed"), limit_s=wait_s)
        except WaitFailed as error:
            say(f"holdfast: {error}")
            sys.exit(1)
        state = client.job(number)
    if as_json:
        print_json(state)
    else:
        say(f"job {number} is {state['state']}")
