"""Replay a recorded trace through an application, as a whole or epoch by epoch, and measure the output."""

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast.app import App, Graph, LastEpochs
from holdfast.engine.analysis import analyse, check_score
from holdfast.engine.combined_job import collect_together
from holdfast.engine.epochs import Cut, Span, join_spans, spans_of, with_epochs
from holdfast.engine.kept_rows import rows_of
from holdfast.engine.operator_call import SPARK_ERRORS, first_line, naming_failed_operator
from holdfast.engine.pe import open_pe
from holdfast.engine.query.query_replay import QUIET_BATCHES
from holdfast.engine.schema import arrow_schema, quoted
from holdfast.engine.whole_trace import build_whole_trace
from holdfast.errors import HoldfastError, TraceError

READ_ROWS = 200_000
"""How many rows of the trace an epoch-by-epoch run reads ahead. Together with the kept rows, this bounds its memory."""


@dataclass(frozen=True)
class Replayed:
    """The result of a replay: rows and score of every sink, and how long it took."""

    application: str
    events: int
    rows: Mapping[str, int]
    scores: Mapping[str, float | None]
    seconds: float
    epochs: int | None = None
    epoch_s: float | None = None
    median_epoch_s: float | None = None
    slowest_epoch_s: float | None = None

    @property
    def tuples_per_second(self) -> float:
        return self.events / self.seconds if self.seconds else 0.0


def replay_whole(spark: SparkSession, app: App, sources: Mapping[str, DataFrame], *, cut: Cut, out: Path | None = None) -> Replayed:
    """Run the whole trace as one plan. Only counts and scores are collected, so the driver's memory does not grow."""
    graph = app.graph()
    check_scores(spark, app, graph)
    events = count_events(sources)
    cut_sources = with_epochs(sources, cut) if needs_epochs(graph, sources) else _uncut(sources)
    started = time.perf_counter()
    frames = build_whole_trace(graph, cut_sources, epochs=_epochs(graph, cut_sources))
    with naming_failed_operator(graph, "the whole-trace run"):
        if out:
            for sink in graph.sinks:
                frames[sink.input].write.parquet(str(out / f"{sink.name}.parquet"))
            measured = measure_sinks(app, graph, {s.name: spark.read.parquet(str(out / f"{s.name}.parquet")) for s in graph.sinks})
        else:
            measured = measure_sinks(app, graph, {sink.name: frames[sink.input] for sink in graph.sinks})
    return Replayed(app.name, events, *measured, seconds=time.perf_counter() - started)


def replay_by_epoch(
    spark: SparkSession,
    app: App,
    sources: Mapping[str, DataFrame],
    *,
    cut: Cut,
    epoch_s: float | None,
    fused: bool = True,
    out: Path | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Replayed:
    """Run the trace one epoch after another. With `fused` the whole application is one PE.

    Memory holds the kept rows and at most `READ_ROWS` rows of the trace, or one epoch if that is more.
    """
    graph = app.graph()
    check_scores(spark, app, graph)
    schemas = analyse(graph, spark, name=app.name)
    events = count_events(sources)
    cut_sources = with_epochs(sources, cut)
    spans = spans_of(cut_sources, lull=lull_of(graph))
    fused = fused and not any(operator.is_query for operator in graph.operators)
    parts = [[o.name for o in graph.operators]] if fused else list(graph.pes.values())
    seconds: list[float] = []
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="holdfast-") as scratch, ExitStack() as files:
        folder = out or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        pes = [files.enter_context(open_pe(spark, graph, part, schemas, first_epoch=spans[0].first)) for part in parts]
        writers = {
            sink: files.enter_context(pq.ParquetWriter(folder / f"{sink.name}.parquet", arrow_schema(schemas[sink.input])))
            for sink in graph.sinks
        }
        for span, streams in read_epochs(cut_sources, spans):
            begun = time.perf_counter()
            for pe in pes:
                streams.update(pe.run({name: streams[name] for name in pe.reads}, span))
            seconds.append(time.perf_counter() - begun)
            for sink, writer in writers.items():
                writer.write_table(streams[sink.input].cast(writer.schema))
            progress(len(seconds), len(spans))
        files.close()
        output = {sink.name: spark.read.parquet(str(folder / f"{sink.name}.parquet")) for sink in graph.sinks}
        measured = measure_sinks(app, graph, output)
    return Replayed(
        app.name,
        events,
        *measured,
        seconds=time.perf_counter() - started,
        epochs=len(seconds),
        epoch_s=epoch_s,
        median_epoch_s=statistics.median(seconds),
        slowest_epoch_s=max(seconds),
    )


def lull_of(graph: Graph) -> int | None:
    """Return for how many epochs without input there can still be output: the length of all windows together. None: any number."""
    queries = [operator for operator in graph.operators if operator.is_query]
    if any(query.output_mode == "complete" for query in queries):
        return None
    windows = [rule.n for o in graph.operators for rule in o.keep.values() if isinstance(rule, LastEpochs)]
    return QUIET_BATCHES * len(queries) + sum(windows)


def read_epochs(sources: Mapping[str, DataFrame], spans: Sequence[Span]) -> Iterator[tuple[Span, dict[str, pa.Table]]]:
    """Yield the rows of each span. Many spans are read from Spark at a time."""
    pending: list[Span] = []
    for number, span in enumerate(spans):
        pending.append(span)
        whole = join_spans(pending)
        if whole.until - whole.after < READ_ROWS and number + 1 < len(spans):
            continue
        try:
            ahead = {
                name: rows.where((F.col("seq") > whole.after) & (F.col("seq") <= whole.until)).orderBy("seq").toArrow()
                for name, rows in sources.items()
            }
        except SPARK_ERRORS as error:
            raise TraceError(f"the trace cannot be read after seq {whole.after}: {first_line(error)}") from error
        for part in pending:
            yield part, {name: rows_of(table, part) for name, table in ahead.items()}
        pending = []


def measure_sinks(app: App, graph: Graph, output: Mapping[str, DataFrame]) -> tuple[dict[str, int], dict[str, float | None]]:
    """Return the number of rows of each sink and the value of each score, computed in one job."""
    scores = list(app.scores)
    frames = {
        sink.name: output[sink.name].selectExpr(
            "count(*) as rows",
            f"{evaluated(output[sink.name])} as evaluated",
            *(f"cast({s.expression} as double) as s{n}" for n, s in enumerate(scores) if s.sink == sink.name),
        )
        for sink in graph.sinks
    }
    tables = collect_together(frames)
    rows = {sink: int(table["rows"][0].as_py()) for sink, table in tables.items()}
    return rows, {f"{s.expression} of {s.sink}": tables[s.sink][f"s{n}"][0].as_py() for n, s in enumerate(scores)}


def evaluated(frame: DataFrame) -> str:
    """Return an aggregate that needs every column of every row. For a mere count, Spark would not compute the columns."""
    hashed = (
        f"to_json(struct({quoted(field.name)}))" if "map<" in field.dataType.simpleString() else quoted(field.name)
        for field in frame.schema
    )
    return f"bit_xor(xxhash64({', '.join(hashed)}))"


def check_scores(spark: SparkSession, app: App, graph: Graph) -> None:
    """Raise HoldfastError if a score of the application is not a number."""
    schemas = analyse(graph, spark, name=app.name)
    errors = [p for s in app.scores for p in check_score(graph, spark, schemas, sink=s.sink, expression=s.expression)]
    if errors:
        raise HoldfastError("; ".join(errors))


def count_events(sources: Mapping[str, DataFrame]) -> int:
    return sum(rows.count() for rows in sources.values())


def needs_epochs(graph: Graph, sources: Mapping[str, DataFrame]) -> bool:
    """Return whether the sources have a time for cutting them into epochs, or an operator requires it because it keeps epochs."""
    return any(operator.windowed for operator in graph.operators) or all("time" in rows.columns for rows in sources.values())


def _uncut(sources: Mapping[str, DataFrame]) -> dict[str, DataFrame]:
    return {name: rows.withColumn("epoch", F.lit(0).cast("long")) for name, rows in sources.items()}


def _epochs(graph: Graph, sources: Mapping[str, DataFrame]) -> tuple[int, int] | None:
    """Return the first and last epoch of the sources, or None if no operator can produce output outside them."""
    if not any(operator.windowed for operator in graph.operators):
        return None
    ends = [rows.agg(F.min("epoch"), F.max("epoch")).first() for rows in sources.values()]
    known = [(end[0], end[1]) for end in ends if end and end[0] is not None]
    return min(low for low, _ in known), max(high for _, high in known)
