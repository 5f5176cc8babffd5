"""holdfast submit: submit a job to an orchestrator."""

import sys
from pathlib import Path

import click

from holdfast.cli.orchestrators import follow_job, orchestrator_options, watch_option
from holdfast.cli.shared import FiniteRange, json_option
from holdfast.terminal import print_json, say


@click.command()
@click.argument("document", metavar="JOB", type=click.Path(path_type=Path))
@orchestrator_options
@click.option("--name", help="Name of the job, instead of the one in the document.")
@click.option("--wait", "wait_s", type=FiniteRange(0), help="Wait up to this many seconds until it runs; exit code 1 if not.")
@watch_option
@json_option
def submit(
    document: Path,
    orchestrator: str | None,
    token_file: Path | None,
    certificate: Path | None,
    name: str | None,
    wait_s: float | None,
    watch: bool,
    as_json: bool,
) -> None:
    """Submit the job in a document (YAML or JSON). Once its number is printed, the job is stored durably.

    With --watch the exit code is 1 if the job has failed.

    \b
    Example:
      holdfast submit job.yaml --orchestrator orchestrator
      holdfast submit job.yaml --wait 60 --json
    """
    from holdfast.documents.document import read_plain, with_line
    from holdfast.errors import DocumentError, HoldfastError
    from holdfast.protocol.client import ClientError, WaitFailed, find_client

    if watch and wait_s is not None:
        raise HoldfastError("--watch continues until the job has ended; leave out --wait, or watch later with 'holdfast job'")
    data, lines = read_plain(document)
    if name is not None and isinstance(data, dict):
        data["job"] = name
    with find_client(orchestrator, token_file, certificate=certificate) as client:
        newest = client.newest_event()
        try:
            submitted = client.submit_plain(data)
        except ClientError as error:
            if error.errors:
                raise DocumentError(str(document), [with_line(field, lines()) for field in error.errors]) from None
            raise
        number = int(submitted["id"])
        say(f"job {number} ({submitted['name']}) is submitted")
        reached = True
        if watch:
            follow_job(client, number, after=newest)
        elif wait_s is not None:
            try:
                client.wait_for(number, ("running", "completed"), limit_s=wait_s)
            except WaitFailed as error:
                say(f"holdfast: {error}")
                reached = False
        state = client.job(number)
        reached = reached and not (watch and state["state"] == "failed")
    if as_json:
        print_json(state)
    else:
        click.echo(number)
    if not reached:
        sys.exit(1)
