"""Measures the selectivity and the CPU cost of each input of each PE of an application on a trace."""

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
from holdfast.engine.operator_call import naming_failed_operator
from holdfast.engine.task_division import task_of
from holdfast.engine.whole_trace import build_whole_trace
from holdfast.profile.cpu import cpu_seconds
from holdfast.profile.rates import Flow, flow

REPEATS = 3
"""Each CPU time is the median of this many runs, after one run that warms Spark up."""


@dataclass(frozen=True)
class MeasuredInput:
    """One input of a PE: output tuples and CPU seconds per input tuple."""

    selectivity: float
    cost_s: float


@dataclass(frozen=True)
class MeasuredPe:
    """A PE: its inputs by stream, and the flow of tuples into it."""

    edges: Mapping[str, MeasuredInput]
    rate: Flow


@dataclass(frozen=True)
class Measurement:
    """The measurements of an application.

    `source_counts` has each source's tuples per step of `step_s` seconds. `leaving` has the tuples per second that leave each
    source and operator. `shares` has, for those divided by key, the share of rows of each task. `reading_s` has the CPU seconds to
    read a tuple of each source.
    """

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
    """Return the measurements of an application. Each PE runs alone on its inputs, which come from a run of the whole trace."""
    graph = app.graph()
    graph.require_no_queries("the profiler")
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
    """Return each task's share of the rows, for every source and every operator whose input is divided by key."""
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
    """Write every stream to disk, each computed from the streams written before, and return them."""
    streams: dict[str, DataFrame] = {}
    for name in graph.order:
        if name in {sink.name for sink in graph.sinks}:
            continue
        frame = sources[name] if name in sources else build_whole_trace(graph, streams, part=[name], epochs=epochs)[name]
        with naming_failed_operator(graph, f"recording stream '{name}'"):
            frame.write.parquet(str(folder / name))
        streams[name] = spark.read.parquet(str(folder / name))
    return streams


def rows_per_step(frame: DataFrame, spans: Sequence[Span]) -> NDArray[np.int64]:
    """Return how many rows of a stream are in each span, by seq."""
    ends = np.array([span.until for span in spans])

    @pandas_udf("long")  # type: ignore[call-overload, untyped-decorator]  # PySpark's overloads do not know this form
    def step_of(seq: pd.Series) -> pd.Series:
        return pd.Series(np.searchsorted(ends, seq.to_numpy()))

    counts = np.zeros(len(spans), np.int64)
    for step, count in frame.select(step_of("seq").alias("step")).groupBy("step").count().collect():
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
    output_rows = _attribute_outputs(outputs, inputs, rows)
    together = _cost(spark, graph, part, inputs, epochs)
    alone = dict.fromkeys(inputs, together)
    if len(inputs) > 1:
        for name in inputs:
            only = {other: frame if other == name else empty(spark, schemas[other]) for other, frame in inputs.items()}
            alone[name] = _cost(spark, graph, part, only, epochs)
    scale = together / sum(alone.values()) if sum(alone.values()) else 0.0
    return {
        name: MeasuredInput(output_rows[name] / rows[name], scale * alone[name] / rows[name])
        if rows[name]
        else MeasuredInput(0.0, 0.0)
        for name in inputs
    }


def _cost(
    spark: SparkSession, graph: Graph, part: Sequence[str], inputs: Mapping[str, DataFrame], epochs: tuple[int, int]
) -> float:
    """Return the CPU seconds to read the inputs and compute all outputs of a part."""
    frames = build_whole_trace(graph, inputs, part=part, epochs=epochs)
    outputs = [frames[name] for name in graph.streams_out_of(part)]
    with naming_failed_operator(graph, f"PE {'+'.join(part)}"):
        runs = [sum(cpu_seconds(spark, frame) for frame in outputs) for _ in range(REPEATS + 1)]
    return statistics.median(runs[1:])


def _reading_s(spark: SparkSession, graph: Graph, source: str, frame: DataFrame, rows: int) -> float:
    """Return the CPU seconds per tuple to read a recorded source."""
    with naming_failed_operator(graph, f"source '{source}'"):
        runs = [cpu_seconds(spark, frame) for _ in range(REPEATS + 1)]
    return statistics.median(runs[1:]) / rows if rows else 0.0


def _attribute_outputs(outputs: Sequence[DataFrame], inputs: Mapping[str, DataFrame], rows: Mapping[str, int]) -> dict[str, float]:
    """Return how many output tuples each input triggered. A tuple has the seq of the tuple that triggered it.

    If several inputs have that seq, each gets an equal part. If none has it, each gets a part in proportion to its rows.
    """
    if len(inputs) == 1:
        return {name: float(sum(frame.count() for frame in outputs)) for name in inputs}
    names = list(inputs)
    output_counts = dict.fromkeys(names, 0.0)
    for frame in outputs:
        rows_with_flags = frame.select("seq")
        for number, name in enumerate(names):
            seqs = inputs[name].select("seq").distinct().withColumn(f"in{number}", F.lit(1))
            rows_with_flags = rows_with_flags.join(seqs, "seq", "left")
        flags = [f"in{number}" for number in range(len(names))]
        for row in rows_with_flags.groupBy(*flags).count().collect():
            sources = [name for name, flag in zip(names, flags, strict=True) if row[flag]]
            weights = dict.fromkeys(sources, 1.0) if sources else {name: float(rows[name]) for name in names}
            total = sum(weights.values()) or 1.0
            for name, weight in weights.items():
                output_counts[name] += row["count"] * weight / total
    return output_counts
