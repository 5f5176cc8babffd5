"""holdfast node-token: print the token of one node."""

from pathlib import Path

import click

from holdfast.cli.shared import json_option
from holdfast.terminal import print_json


@click.command("node-token")
@click.argument("name")
@click.option("--work", type=click.Path(path_type=Path, file_okay=False), default=Path("orchestrator"), show_default=True,
              help="The orchestrator's --work folder.")  # fmt: skip
@json_option
def print_node_token(name: str, work: Path, as_json: bool) -> None:
    """Print the token of the node NAME, for its --token-file. Whoever has it can call the orchestrator for this node only.

    \b
    Example:
      holdfast node-token n1 --work /var/lib/holdfast > n1.token
    """
    from holdfast.control import prepare_work
    from holdfast.documents.job import NAME
    from holdfast.errors import HoldfastError
    from holdfast.protocol.node_token import node_token

    if not NAME.fullmatch(name):
        raise HoldfastError(f"wanted a name of letters, digits, '_', '.', '-' (at most 100), got '{name}'")
    token = node_token(prepare_work(work).node, name)
    print_json({"node": name, "token": token}) if as_json else click.echo(token)
