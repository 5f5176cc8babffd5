"""holdfast check: report all errors of an application at once."""

import sys
from pathlib import Path

import click

from holdfast.app.load import load_app
from holdfast.cli.shared import application_argument, columns_option, json_option, spark_options, spark_session
from holdfast.documents.column_mapping import read_columns
from holdfast.errors import CompoundError, HoldfastError
from holdfast.terminal import print_json, progress_bar, say


@click.command()
@application_argument
@click.option("--trace", type=click.Path(), help="Trace to take the sample from. Without it only the definitions are checked.")
@columns_option
@click.option("--rows", default=4000, show_default=True, help="Tuples to sample. The sample grows if a keep rule needs more.")
@click.option("--parts", default=6, show_default=True, help="Runs into which the epochs of the sample are divided.")
@click.option("--seed", default=1, show_default=True, help="Seed of the positions of the sample and of random epochs.")
@spark_options
@json_option
def check(
    application: str,
    trace: str | None,
    columns: Path | None,
    rows: int,
    parts: int,
    seed: int,
    master: str,
    memory: str,
    as_json: bool,
) -> None:
    """Report all errors of APP before it runs.

    Checks the graph, calls the operators on empty inputs, evaluates the scores, and looks for Spark actions, clocks and random
    numbers in operators. With --trace it also tests the first law on a sample from several positions: each operator must give the
    same rows for the whole sample as epoch by epoch, with the application's epochs and with random ones. If one does not, the
    command prints the first row that differs, the cause, and a keep rule that works.

    \b
    Example:
      holdfast check examples/bargain_discovery.py --trace market.parquet
    """
    if rows < 2 or parts < 2:
        raise HoldfastError(f"a sample needs at least 2 rows in 2 parts, got --rows {rows} --parts {parts}")
    app = load_app(application)
    graph = app.graph()
    mapping = read_columns(columns, [source.name for source in graph.sources])
    from holdfast.engine.application_check import SampleOptions, check_application

    sampling = SampleOptions(trace, mapping, rows, parts, seed) if trace else None
    with spark_session(master, memory, name=app.name) as spark, progress_bar("operators") as progress:
        result = check_application(spark, app, sampling=sampling, progress=progress)
    if as_json:
        document = {"errors": result.errors, "warnings": result.warnings, "sampled": bool(result.sample)}
        print_json({"application": app.name, "holds": not result.errors, **document})
    for warning in result.warnings:
        say(f"warning: {warning}")
    if result.errors:
        if as_json:
            sys.exit(2)  # click ignores the code of its own Exit outside standalone mode
        raise CompoundError(f"application '{app.name}'", result.errors)
    if as_json:
        return
    stateful = [operator.name for operator in graph.operators if operator.stateful]
    click.echo(f"{app.name}: {len(graph.operators)} operators, {len(stateful)} of them stateful: {', '.join(stateful) or 'none'}")
    for source in graph.sources:
        if source.reader is not None:
            say(f"  source '{source.name}' has a reader, which cannot read rows again, so it runs as one replica")
    if trace:
        click.echo(f"  the first law holds for every operator on {result.sample}")
    else:
        say("  the definitions have no errors; give --trace to test the first law too")
