"""Check an application: its definitions, its scores and, on a sample of a trace, the first law."""

import itertools
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql import SparkSession

from holdfast.app import App, Graph
from holdfast.engine.analysis import check_score, examine
from holdfast.engine.epochs import ByBounds, spans_of, with_epochs
from holdfast.engine.first_law import broken_operators
from holdfast.engine.trace_reader import Columns, opened_trace
from holdfast.engine.trace_sample import Sample, take_sample
from holdfast.errors import OperatorError, TraceError


@dataclass(frozen=True)
class SampleOptions:
    """How many tuples to take from the start of a trace, and into how many epochs to cut them, at bounds drawn by `seed`."""

    trace: str
    columns: Mapping[str, Columns] | None
    rows: int
    epochs: int
    seed: int


@dataclass(frozen=True)
class ApplicationCheck:
    """The errors of an application. `sample` describes the rows on which the first law was tested; it is empty if it was not."""

    errors: list[str]
    sample: str = ""


def check_application(
    spark: SparkSession, app: App, *, sampling: SampleOptions | None, progress: Callable[[int, int], None]
) -> ApplicationCheck:
    """Return all errors of an application. Tests the first law only with `sampling` and if the definitions allow it."""
    graph = app.graph()
    schemas, errors = examine(graph, spark)
    errors += [e for s in app.scores for e in check_score(graph, spark, schemas, sink=s.sink, expression=s.expression)]
    if sampling is None or any(source.name not in schemas for source in graph.sources):
        return ApplicationCheck(errors)
    try:
        with opened_trace(spark, graph, sampling.trace, columns=sampling.columns) as sources:
            sample = take_sample(spark, sources, rows=sampling.rows)
        if any(operator.name not in schemas for operator in graph.operators):
            return ApplicationCheck(errors)
        law_errors, text = _check_first_law(spark, graph, sample, sampling, progress)
        return ApplicationCheck(errors + law_errors, text)
    except (TraceError, OperatorError) as error:
        return ApplicationCheck([*errors, str(error)])


def _check_first_law(
    spark: SparkSession, graph: Graph, sample: Sample, sampling: SampleOptions, progress: Callable[[int, int], None]
) -> tuple[list[str], str]:
    """Return what breaks the first law on the sample, and a description of the sample."""
    bounds = range(sample.first, sample.last)
    chosen = random.Random(sampling.seed).sample(bounds, min(sampling.epochs - 1, len(bounds)))
    cut = with_epochs(sample.sources, ByBounds(tuple(sorted(chosen))))
    spans = spans_of(cut)
    number = itertools.count()
    broken = broken_operators(spark, graph, cut, spans, progress=lambda _: progress(next(number), len(graph.operators)))
    return [str(error) for error in broken], f"{sample.rows:,} tuples cut into {len(spans)} epochs"
