"""holdfast profile: measure an application and write its descriptor."""

from pathlib import Path

import click

from holdfast.app.load import load_app
from holdfast.cli.shared import application_argument, columns_option, json_option, spark_options, spark_session
from holdfast.documents.column_mapping import read_columns
from holdfast.errors import HoldfastError
from holdfast.terminal import print_json, progress_bar, say


@click.command()
@application_argument
@click.option("--trace", required=True, type=click.Path(), help="The trace to measure on.")
@columns_option
@click.option(
    "--out", type=click.Path(path_type=Path), required=True, help="Where to write the descriptor (YAML, or JSON by suffix)."
)
@click.option("--levels", default=3, show_default=True, help="How many rates each source gets in the descriptor (1 to 4).")
@click.option("--step", "step_s", default=1.0, show_default=True, help="Seconds over which a rate is measured.")
@click.option(
    "--nodes", default=2, show_default=True, help="How many one-core nodes to write into the descriptor, for you to change."
)
@click.option("--topology", type=click.Path(path_type=Path), help="Also write the graph of tasks with measured rates to this path.")
@click.option("--force", is_flag=True, help="Replace existing files at --out and --topology.")
@spark_options
@json_option
def profile(
    application: str,
    trace: str,
    columns: Path | None,
    out: Path,
    levels: int,
    step_s: float,
    nodes: int,
    topology: Path | None,
    force: bool,
    master: str,
    memory: str,
    as_json: bool,
) -> None:
    """Measure APP on a trace and write the descriptor that 'holdfast plan' reads.

    The descriptor has the selectivity and the CPU seconds per tuple of every edge (from Spark's task metrics, including reading the
    input), the tuples per second of every PE, and a few rates of each source with their shares of time. Nodes and contract have
    default values.

    \b
    Example:
      holdfast profile examples/bargain_discovery.py --trace market.parquet --out bargain.yaml
    """
    for path in (out, topology):
        if path is not None and path.is_dir():
            raise HoldfastError(f"'{path}' is a folder; give the path of a file to write")
        if path is not None and path.exists() and not force:
            raise HoldfastError(f"'{path}' exists already; give another path, or --force to replace it")
    if step_s <= 0 or not 1 <= levels <= 4 or nodes < 1:
        raise HoldfastError(f"--step must be above 0, --levels from 1 to 4 and --nodes at least 1, got {step_s}, {levels}, {nodes}")
    app = load_app(application)
    graph = app.graph()
    mapping = read_columns(columns, [source.name for source in graph.sources])
    from holdfast.app.task_topology import topology_of
    from holdfast.documents.document import document_text, write_document
    from holdfast.engine.trace_reader import opened_trace
    from holdfast.profile import describe, measure

    with (
        spark_session(master, memory, name=app.name) as spark,
        opened_trace(spark, graph, trace, columns=mapping) as sources,
        progress_bar("measuring PEs") as bar,
    ):
        measurement = measure(spark, app, sources, step_s=step_s, progress=lambda what, done, total: bar(done, total))
    descriptor = describe(app, measurement, level_count=levels, nodes=nodes)
    write_document(out, descriptor)
    if topology is not None:
        write_document(topology, topology_of(graph, name=app.name, rates=measurement.leaving, shares=measurement.shares))
    if as_json:
        print_json(descriptor.model_dump(mode="json", exclude_none=True))
        return
    click.echo(document_text(descriptor))
    say(f"written to {out}; fill in your nodes and contract, then: holdfast plan {out}")
