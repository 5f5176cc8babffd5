"""holdfast nodes: list the nodes of an orchestrator, once or continuously."""

import time
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.live import Live
from rich.table import Table

from holdfast.cli.orchestrators import duration_text, orchestrator_options, print_table
from holdfast.cli.shared import json_option
from holdfast.errors import HoldfastError
from holdfast.terminal import print_json


@click.command()
@orchestrator_options
@click.option("--watch", is_flag=True, help="Show changes until Ctrl-C.")
@json_option
def nodes(orchestrator: str | None, token_file: Path | None, certificate: Path | None, watch: bool, as_json: bool) -> None:
    """List the nodes with their state, resources and PE host.

    \b
    Example:
      holdfast nodes
      holdfast nodes --orchestrator http://127.0.0.1:8470 --token-file orchestrator/user.token --watch
    """
    from holdfast.protocol.client import OrchestratorUnreachable, find_client

    if watch and as_json:
        raise HoldfastError("--json prints one document; leave out --watch, or repeat the command")
    with find_client(orchestrator, token_file, certificate=certificate) as client:
        if as_json:
            print_json({"nodes": client.nodes()})
            return
        if not watch:
            print_table(table(client.nodes(), now_s=time.time()))
            return
        with Live(console=Console(markup=False), refresh_per_second=4) as live:
            after = 0
            while True:
                try:
                    live.update(table(client.nodes(), now_s=time.time()))
                    after = client.events(after=after, wait_s=1.0)["last"]
                except OrchestratorUnreachable as error:
                    live.update(f"{error}; waiting for it")
                    time.sleep(1.0)


def table(nodes: list[dict[str, Any]], *, now_s: float) -> Table | str:
    """Return the nodes as a table, or a hint if there are none."""
    if not nodes:
        return "no nodes; start one with 'holdfast node'"
    rows = Table(box=None, header_style="bold", pad_edge=False)
    for column in ("node", "state", "kind", "labels", "cores", "memory", "replicas", "PE host", "since"):
        right = column in ("cores", "memory", "replicas", "since")
        rows.add_column(column, justify="right" if right else "left", no_wrap=column not in ("labels", "PE host"))
    for node in nodes:
        rows.add_row(
            node["name"],
            node["state"],
            node["host_kind"],
            " ".join(f"{key}={value}" for key, value in sorted(node["labels"].items())) or "-",
            f"{node['cores']:g}",
            f"{node['memory_bytes'] / 2**30:.1f} GiB",
            f"{node['replicas']} of {node['slots']}",
            host_text(node),
            duration_text(now_s - node["since_s"]),
        )
    return rows


def host_text(node: dict[str, Any]) -> str:
    """Return the state of a node's PE host in a few words.

    >>> host_text({"state": "up", "host_status": None, "stalled_s": 0})
    'none'
    >>> host_text({"state": "up", "host_status": {"ready": True, "error": None}, "stalled_s": 12.5})
    'silent for 12 s'
    """
    status = node["host_status"]
    if node["state"] == "lost":
        return "unknown"
    if status is None:
        return "none"
    if node["stalled_s"]:
        return f"silent for {node['stalled_s']:.0f} s"
    if status.get("error"):
        return f"broken: {status['error']}"
    if not status.get("ready"):
        return "starting"
    return f"ready, {duration_text(status.get('cpu_s', 0))} CPU, {status.get('memory_bytes', 0) / 2**20:.0f} MiB"
