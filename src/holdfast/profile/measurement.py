"""Measuring an application on a trace: what each PE makes of each of its inputs, and what that costs."""

import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import pandas_udf

from holdfast.app import App, Graph
from holdfast.engine.analysis import Schemas, analyse, empty
from holdfast.engine.epochs import ByTime, Span, spans_of, with_epochs
from holdfast.engine.operator_call import running
from holdfast.engine.task_division import task_of
from holdfast.engine.whole_trace import run_batch
from holdfast.profile.cpu import cpu_seconds
from holdfast.profile.rates import Flow, flow

REPEATS = 3
"""Each CPU time is the median of this many runs, after one that warms Spark up."""


@dataclass(frozen=True)
class MeasuredInput:
    """What a PE does with one input: tuples out and CPU seconds per tuple in."""

    selectivity: float
    cost_s: float


@dataclass(frozen=True)
class MeasuredPe:
    """A PE as measured: its edges by input stream, and the flow of tuples into it."""

    edges: Mapping[str, MeasuredInput]
    rate: Flow


@dataclass(frozen=True)
class Measurement:
    """An application as measured: its PEs, each source's tuples per step of time, the tuples per second that leave each source and
    operator, how the rows of those that are divided by key fall on their tasks, and the CPU seconds to read a tuple of a source."""

    pes: Mapping[str, MeasuredPe]
    source_counts: Mapping[str, NDArray[np.int64]]
    step_s: float
    leaving: Mapping[str, float]
    shares: Mapping[str, tuple[float, ...]]
    reading_s: Mapping[str, float]


def measure(
    spark: SparkSession,
    app: App,
    sources: Mapping[str, DataFrame],
    *,
    step_s: float = 1.0,
    progress: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> Measurement:
    """Run every PE of the application by itself over its inputs, as the whole-trace run has them."""
    graph = app.graph()
    schemas = analyse(graph, spark, name=app.name)
    spans = spans_of(with_epochs(sources, ByTime(step_s)))
    cut = with_epochs(sources, ByTime(app.epoch_s))
    cut_spans = spans_of(cut)
    epochs = (cut_spans[0].first, cut_spans[-1].last)
    total = 1 + len(graph.sources) + len(graph.pes)
    with tempfile.TemporaryDirectory(prefix="holdfast-profile-") as scratch:
        progress("recording streams", 0, total)
        streams = _record(spark, graph, cut, epochs, Path(scratch))
        counts = {name: rows_per_step(frame, spans) for name, frame in streams.items()}
        pes = {}
        reading_s = {}
        for number, source in enumerate(graph.sources, 1):
            progress(source.name, number, total)
            reading_s[source.name] = _reading_s(spark, graph, source.name, sources[source.name], int(counts[source.name].sum()))
        for number, (pe, part) in enumerate(graph.pes.items(), 1 + len(graph.sources)):
            progress(pe, number, total)
            reads = graph.streams_into(part)
            edges = _edges(spark, graph, part, {name: streams[name] for name in reads}, streams, schemas, epochs)
            arriving: NDArray[np.int64] = np.sum([counts[name] for name in reads], axis=0)
            pes[pe] = MeasuredPe(edges, flow(arriving, step_s=step_s))
        shares = task_shares(graph, streams)
        progress("done", total, total)
    sources_only = {source.name: counts[source.name] for source in graph.sources}
    leaving = {name: float(count.mean() / step_s) for name, count in counts.items()}
    return Measurement(pes, sources_only, step_s, leaving, shares, reading_s)


def task_shares(graph: Graph, streams: Mapping[str, DataFrame]) -> dict[str, tuple[float, ...]]:
    """For each source, and each operator whose input is divided by key, the share of the rows that falls on each of its tasks."""
    divided = {source.name: (source.key, source.parallelism, [source.name]) for source in graph.sources}
    for operator in graph.operators:
        by_key = [stream for stream in operator.inputs if graph.partitioning(stream, operator.name) in ("split", "full")]
        divided[operator.name] = (operator.key, operator.parallelism, by_key)
    shares = {}
    for name, (key, tasks, inputs) in divided.items():
        counts = np.zeros(tasks)
        for frame in (streams[stream] for stream in inputs):
            if tasks > 1 and key and set(key) <= set(frame.columns):
                for task, count in frame.groupBy(task_of(key, tasks).alias("task")).count().collect():
                    counts[task] += count
        if counts.sum():
            shares[name] = tuple(float(share) for share in counts / counts.sum())
    return shares


def _record(
    spark: SparkSession, graph: Graph, sources: Mapping[str, DataFrame], epochs: tuple[int, int], folder: Path
) -> dict[str, DataFrame]:
    """Every stream on disk, as a PE finds its inputs when the application runs; each made from recorded streams."""
    streams: dict[str, DataFrame] = {}
    for name in graph.order:
        if name in {sink.name for sink in graph.sinks}:
            continue
        frame = sources[name] if name in sources else run_batch(graph, streams, part=[name], epochs=epochs)[name]
        with running(graph, f"recording stream '{name}'"):
            frame.write.parquet(str(folder / name))
        streams[name] = spark.read.parquet(str(folder / name))
    return streams


def rows_per_step(frame: DataFrame, spans: Sequence[Span]) -> NDArray[np.int64]:
    """How many rows of a stream belong to each span, by seq."""
    ends = np.array([span.until for span in spans])

    @pandas_udf("long")  # type: ignore[call-overload, untyped-decorator]  # PySpark's overloads do not know this form
    def step_of(seq: pd.Series) -> pd.Series:
        return pd.Series(np.searchsorted(ends, seq.to_numpy()))

    found = frame.select(step_of("seq").alias("step")).groupBy("step").count().collect()
    counts = np.zeros(len(spans), np.int64)
    for step, count in found:
        counts[min(step, len(spans) - 1)] += count
    return counts


def _edges(
    spark: SparkSession,
    graph: Graph,
    part: Sequence[str],
    inputs: Mapping[str, DataFrame],
    streams: Mapping[str, DataFrame],
    schemas: Schemas,
    epochs: tuple[int, int],
) -> dict[str, MeasuredInput]:
    rows = {name: frame.count() for name, frame in inputs.items()}
    outputs = [streams[name] for name in graph.streams_out_of(part)]
    made = _attributed(outputs, inputs, rows)
    together = _cost(spark, graph, part, inputs, epochs)
    alone = dict.fromkeys(inputs, together)
    if len(inputs) > 1:
        for name in inputs:
            only = {other: frame if other == name else empty(spark, schemas[other]) for other, frame in inputs.items()}
            alone[name] = _cost(spark, graph, part, only, epochs)
    scale = together / sum(alone.values()) if sum(alone.values()) else 0.0
    return {
        name: MeasuredInput(made[name] / rows[name] if rows[name] else 0.0, scale * alone[name] / rows[name] if rows[name] else 0.0)
        for name in inputs
    }


def _cost(
    spark: SparkSession, graph: Graph, part: Sequence[str], inputs: Mapping[str, DataFrame], epochs: tuple[int, int]
) -> float:
    """CPU seconds to read the inputs and make everything that leaves the part."""
    frames = run_batch(graph, inputs, part=part, epochs=epochs)
    made = [frames[name] for name in graph.streams_out_of(part)]
    with running(graph, f"PE {'+'.join(part)}"):
        runs = [sum(cpu_seconds(spark, frame) for frame in made) for _ in range(REPEATS + 1)]
    return statistics.median(runs[1:])


def _reading_s(spark: SparkSession, graph: Graph, source: str, frame: DataFrame, rows: int) -> float:
    """CPU seconds per tuple to read a source as it was recorded."""
    with running(graph, f"source '{source}'"):
        runs = [cpu_seconds(spark, frame) for _ in range(REPEATS + 1)]
    return statistics.median(runs[1:]) / rows if rows else 0.0


def _attributed(outputs: Sequence[DataFrame], inputs: Mapping[str, DataFrame], rows: Mapping[str, int]) -> dict[str, float]:
    """How many output tuples each input triggered: a tuple carries the seq of the one that triggered it.

    Where several inputs have that seq they share it evenly, and what no input has is shared by the inputs' rows.
    """
    if len(inputs) == 1:
        return {name: float(sum(frame.count() for frame in outputs)) for name in inputs}
    names = list(inputs)
    made = dict.fromkeys(names, 0.0)
    for frame in outputs:
        marked = frame.select("seq")
        for number, name in enumerate(names):
            has = inputs[name].select("seq").distinct().withColumn(f"in{number}", F.lit(1))
            marked = marked.join(has, "seq", "left")
        flags = [f"in{number}" for number in range(len(names))]
        for row in marked.groupBy(*flags).count().collect():
            having = [name for name, flag in zip(names, flags, strict=True) if row[flag]]
            weights = dict.fromkeys(having, 1.0) if having else {name: float(rows[name]) for name in names}
            whole = sum(weights.values()) or 1.0
            for name, weight in weights.items():
                made[name] += row["count"] * weight / whole
    return made
