"""holdfast drain: move all replicas off a node before it is removed."""

import sys
from pathlib import Path

import click

from holdfast.cli.completion import node_names
from holdfast.cli.orchestrators import orchestrator_options
from holdfast.cli.shared import FiniteRange, json_option
from holdfast.errors import HoldfastError
from holdfast.terminal import print_json, say


@click.command()
@click.argument("node", shell_complete=node_names)
@orchestrator_options
@click.option("--undo", is_flag=True, help="Let the node take replicas again.")
@click.option("--wait", "wait_s", type=FiniteRange(min=0), help="Wait up to this many seconds until the node is empty.")
@json_option
def drain(
    node: str,
    orchestrator: str | None,
    token_file: Path | None,
    certificate: Path | None,
    undo: bool,
    wait_s: float | None,
    as_json: bool,
) -> None:
    """Move every replica off NODE and assign it no new ones, so that it can be removed.

    The exit code is 1 if the node is not empty after --wait.

    \b
    Example:
      holdfast drain n3 --wait 60
      holdfast drain n3 --undo
    """
    from holdfast.documents.job import NAME
    from holdfast.protocol.client import WaitFailed, count_replicas, find_client

    if undo and wait_s is not None:
        raise HoldfastError("--wait waits for the node to be empty; leave it out with --undo")
    if not NAME.fullmatch(node):
        raise HoldfastError(f"node '{node}' does not exist; 'holdfast nodes' lists them")
    with find_client(orchestrator, token_file, certificate=certificate) as client:
        state = client.drain(node, drain=not undo)
        try:
            if wait_s is not None:
                state = client.wait_for_drained(node, limit_s=wait_s)
        except WaitFailed as error:
            say(f"holdfast: {error}")
            sys.exit(1)
    if as_json:
        print_json(state)
    else:
        say(f"node {node} is {state['state']}, with {count_replicas(state['replicas'])}")
