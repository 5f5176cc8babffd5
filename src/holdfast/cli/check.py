"""holdfast check: everything wrong with an application, at once."""

import itertools
import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from holdfast.app import Graph
from holdfast.app.load import load_app
from holdfast.cli.shared import application_argument, columns_option, json_option, opened_trace, spark_options, spark_session
from holdfast.documents.column_mapping import read_columns
from holdfast.errors import CompoundError, HoldfastError, OperatorError, TraceError
from holdfast.terminal import print_json, progress_bar, say

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from holdfast.engine.trace_sample import Sample


@click.command()
@application_argument
@click.option("--trace", type=click.Path(), help="A trace to take the sample from; without it only the definitions are checked.")
@columns_option
@click.option("--rows", default=4000, show_default=True, help="How many tuples to sample, from the start of the trace.")
@click.option("--epochs", default=6, show_default=True, help="Into how many epochs to cut them, at random places.")
@click.option("--seed", default=1, show_default=True, help="Seed of the cuts.")
@spark_options
@json_option
def check(
    application: str,
    trace: str | None,
    columns: Path | None,
    rows: int,
    epochs: int,
    seed: int,
    master: str,
    memory: str,
    as_json: bool,
) -> None:
    """Find everything wrong with APP before it runs.

    Its graph, its operators on empty inputs, its scores; and on a sample of a trace whether every operator obeys the first law: the
    whole trace as one plan gives what it gives epoch by epoch. For one that does not, the first row that differs and what to do.

    \b
    Example:
      holdfast check examples/bargain_discovery.py --trace market.parquet
    """
    if rows < 2 or epochs < 2:
        raise HoldfastError(f"a sample needs at least 2 rows in 2 epochs, got --rows {rows} --epochs {epochs}")
    app = load_app(application)
    graph = app.graph()
    mapping = read_columns(columns, [source.name for source in graph.sources])
    from holdfast.engine.analysis import check_score, examine

    tried = ""
    with spark_session(master, memory, name=app.name) as spark:
        schemas, errors = examine(graph, spark)
        errors += [p for s in app.scores for p in check_score(graph, spark, schemas, sink=s.sink, expression=s.expression)]
        if trace and all(source.name in schemas for source in graph.sources):
            from holdfast.engine.trace_sample import take_sample

            try:
                with opened_trace(spark, graph, trace, columns=mapping) as sources:
                    sample = take_sample(spark, sources, rows=rows)
                if all(operator.name in schemas for operator in graph.operators):
                    broken, tried = _try_law(spark, graph, sample, epochs=epochs, rng=random.Random(seed))
                    errors += broken
            except (TraceError, OperatorError) as error:
                errors.append(str(error))
    if as_json:
        print_json({"application": app.name, "holds": not errors, "problems": errors, "sampled": bool(tried)})
    if errors:
        if as_json:
            sys.exit(2)  # click swallows the code of its own Exit outside standalone mode
        raise CompoundError(f"application '{app.name}'", errors)
    if not as_json:
        stateful = [operator.name for operator in graph.operators if operator.stateful]
        click.echo(
            f"{app.name}: {len(graph.operators)} operators, {len(stateful)} of them stateful: {', '.join(stateful) or 'none'}"
        )
        if trace:
            click.echo(f"  the first law holds for every operator on {tried}")
        else:
            say("  the definitions are sound; give --trace to try the first law too")


def _try_law(spark: "SparkSession", graph: Graph, sample: "Sample", *, epochs: int, rng: random.Random) -> tuple[list[str], str]:
    """What breaks the first law on a sample that is cut at random, and what was tried in words."""
    from holdfast.engine.epochs import ByBounds, spans_of, with_epochs
    from holdfast.engine.first_law import broken_operators

    ends = range(sample.first, sample.last)
    cut = with_epochs(sample.sources, ByBounds(tuple(sorted(rng.sample(ends, min(epochs - 1, len(ends)))))))
    spans = spans_of(cut)
    done = itertools.count()
    with progress_bar("operators") as progress:
        broken = broken_operators(spark, graph, cut, spans, progress=lambda _: progress(next(done), len(graph.operators)))
    return [str(each) for each in broken], f"{sample.rows:,} tuples cut into {len(spans)} epochs"
