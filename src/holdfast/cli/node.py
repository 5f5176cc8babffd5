"""holdfast node: offer this machine, or a part of it, to an orchestrator."""

import os
import re
import socket
from pathlib import Path

import click

from holdfast.cli.shared import FiniteRange
from holdfast.errors import HoldfastError

UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


@click.command()
@click.option(
    "--orchestrator",
    required=True,
    metavar="URL[,URL]|DIR",
    help="URL of the orchestrator, with standbys several, or its --work folder if it runs on this machine.",
)
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    help="File with the node's token.  [default: from node.token in DIR]",
)
@click.option("--name", help="Name of the node.  [default: the machine's]")
@click.option("--cores", type=FiniteRange(min=0, min_open=True), help="Cores to offer.  [default: all]")
@click.option("--memory", default="1g", show_default=True, help="Memory to offer; also the PE host's maximum heap.")
@click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help="A label, such as rack=r1 for nodes of one rack.")
@click.option("--host-kind", default="spark", show_default=True, help="Kind of PE host: spark, light, or one from a package.")
@click.option("--master", help="Spark master of the node's PE host.  [default: local, with --cores]")
@click.option("--spark-ui", is_flag=True, help="Serve Spark's own UI; 'holdfast nodes --json' prints its address.")
@click.option("--work", type=click.Path(path_type=Path, file_okay=False), help="The node's folder.  [default: ./NAME]")
@click.option(
    "--hung-after",
    type=FiniteRange(min=0, min_open=True),
    default=60.0,
    show_default=True,
    help="Seconds of silence after which a PE host is killed and started again.",
)
@click.option("--metrics-port", type=click.IntRange(0, 65535), help="Serve Prometheus metrics on loopback (0: a free port).")
@click.option("--certificate", type=click.Path(path_type=Path), help="PEM file of the orchestrator's certificate authority.")
def node(
    orchestrator: str,
    token_file: Path | None,
    name: str | None,
    cores: float | None,
    memory: str,
    labels: tuple[str, ...],
    host_kind: str,
    master: str | None,
    spark_ui: bool,
    work: Path | None,
    hung_after: float,
    metrics_port: int | None,
    certificate: Path | None,
) -> None:
    """Run a node controller: it starts a PE host, which runs the replicas that the orchestrator assigns.

    Replicas keep running while the orchestrator is unreachable, and while this command is killed and started again with the same
    --work. SIGTERM (or Ctrl-C) ends the node and its PE host.

    \b
    Example:
      holdfast node --orchestrator http://127.0.0.1:8470 --token-file orchestrator/node.token --name n1 --label rack=r1
      holdfast node --orchestrator orchestrator --name n2 --host-kind light --metrics-port 9470
    """
    from holdfast.documents.job import NAME
    from holdfast.node.controller import NodeOffer
    from holdfast.node.process import serve_node

    name = name or socket.gethostname()
    if not NAME.fullmatch(name):
        raise HoldfastError(f"--name: wanted letters, digits, '_', '.', '-' (at most 100), got '{name}'")
    cores = cores or float(os.cpu_count() or 1)
    spark_cores = max(1, round(cores))
    options = ["--master", master or f"local[{spark_cores}]", "--cores", str(spark_cores), "--memory", memory]
    if spark_ui:
        options.append("--ui")
    serve_node(
        NodeOffer(name, cores=cores, memory_bytes=memory_bytes(memory), host_kind=host_kind, labels=dict(map(_label, labels))),
        work or Path(name),
        orchestrator=orchestrator,
        token=token_file,
        host_options=options,
        metrics_port=metrics_port,
        certificate=certificate,
        hung_after_s=hung_after,
    )


def memory_bytes(text: str) -> int:
    """Return an amount of memory such as 512m or 4g in bytes.

    >>> memory_bytes("4g")
    4294967296
    """
    match = re.fullmatch(r"(\d+)([kmgt]?)b?", text.strip().lower())
    if not match or not int(match[1]):
        raise HoldfastError(f"--memory: wanted a size such as 512m or 4g, got '{text}'")
    return int(match[1]) * UNITS[match[2]]


def _label(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not (key and equals and value):
        raise HoldfastError(f"--label: wanted KEY=VALUE such as rack=r1, got '{text}'")
    return key, value
