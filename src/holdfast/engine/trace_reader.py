"""Read a recorded trace and check it against the sources of the application."""

import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from holdfast.app import Graph, Source
from holdfast.engine.operator_call import SPARK_ERRORS, first_line
from holdfast.engine.schema import quoted, source_schema
from holdfast.errors import CompoundError, TraceError
from holdfast.plural import counted
from holdfast.terminal import say

Columns = Mapping[str, str]
"""For each column of a source a SQL expression over the columns of the file."""

READERS = {".parquet": "parquet", ".csv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json", ".orc": "orc"}
WIDER = {
    "bigint": {"int", "smallint", "tinyint"},
    "int": {"smallint", "tinyint"},
    "double": {"float", "int", "bigint", "smallint", "tinyint", "decimal"},
    "timestamp": {"timestamp_ntz", "date", "string"},
}
"""The types that can be converted to each type without loss. A timestamp in JSON is a string."""
ZONE = re.compile(r"(Z|UTC|GMT|[+-]\d\d:?\d\d)$")


def open_trace(
    spark: SparkSession,
    graph: Graph,
    path: str,
    *,
    columns: Mapping[str, Columns] | None = None,
    scratch: Path | None = None,
) -> dict[str, DataFrame]:
    """Return the rows of each source, with exactly the columns that it declares.

    The trace of an application with one source is a file or folder that Spark can read (Parquet, CSV, JSON, ORC). With several
    sources it is a folder with one such file or folder per source, named after it. `columns` maps foreign column names. A trace
    that is mapped or not Parquet is copied into `scratch`, if given, so that it is parsed once and not in every job.
    """
    require_trace_exists(path)
    opened, errors = {}, []
    for source in graph.sources:
        try:
            place = path if len(graph.sources) == 1 else _place(path, source)
            opened[source.name] = _open_source(spark, source, place, (columns or {}).get(source.name), scratch)
        except TraceError as error:
            errors.append(error)
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise _TraceErrors(f"trace '{path}'", sorted({str(error) for error in errors}))
    if len(opened) > 1:
        _require_one_order(opened, path)
    return opened


@contextmanager
def opened_trace(
    spark: SparkSession, graph: Graph, path: str, *, columns: Mapping[str, Columns] | None = None
) -> Iterator[dict[str, DataFrame]]:
    """Open a trace with a temporary scratch folder, which is removed when the block ends."""
    with tempfile.TemporaryDirectory(prefix="holdfast-trace-") as scratch:
        sources = open_trace(spark, graph, path, columns=columns, scratch=Path(scratch))
        warn_of_missing_zones(spark, graph, path, columns=columns)
        yield sources


def warn_of_missing_zones(spark: SparkSession, graph: Graph, path: str, *, columns: Mapping[str, Columns] | None) -> None:
    """Print a warning for each source whose times have no zone, unless a mapping computes them."""
    for source in graph.sources:
        place = path if len(graph.sources) == 1 else _place(path, source)
        frame = _reader(spark, place, typed=False)
        if "time" in (columns or {}).get(source.name, {}) or "time" not in frame.columns:
            continue
        first = frame.select(F.col("time").cast("string")).where("time is not null").first()
        kind = frame.schema["time"].dataType.simpleString()
        if first and (kind == "timestamp_ntz" or (kind == "string" and not ZONE.search(first[0]))):
            say(f"warning: column 'time' of trace '{place}' has no time zone, such as in '{first[0]}'; it is read as UTC")


def require_trace_exists(path: str) -> None:
    """Raise TraceError if a trace on this machine does not exist. Needs no Spark."""
    if _is_local(path) and not _local(path).exists():
        raise TraceError(_absent(path))


def known_rows(graph: Graph, path: str) -> int | None:
    """Return the number of rows of a trace of local Parquet files, or None for other traces. Needs no Spark."""
    places = [path if len(graph.sources) == 1 else _place(path, source) for source in graph.sources]
    files = [_parquet_files(place) for place in places]
    try:
        return sum(pq.read_metadata(file).num_rows for of_source in files for file in of_source) if all(files) else None
    except (pa.ArrowException, OSError):
        return None  # the reader of the trace will report the error


def _parquet_files(place: str) -> list[Path]:
    """Return the files of a source if they are local Parquet files."""
    if not _is_local(place):
        return []
    local = _local(place)
    if local.is_file():
        return [local] if local.suffix == ".parquet" else []
    return sorted(file for file in local.glob("*.parquet") if file.name[0] not in "._")  # Spark ignores the others


def _require_one_order(sources: Mapping[str, DataFrame], path: str) -> None:
    """Raise TraceError if two sources have rows with the same seq, which must ascend over all sources."""
    seqs = reduce(DataFrame.union, [rows.select("seq", F.lit(name).alias("source")) for name, rows in sources.items()])
    duplicate = seqs.groupBy("seq").agg(F.count_distinct("source").alias("sources")).where("sources > 1").orderBy("seq").first()
    if duplicate:
        raise TraceError(
            f"trace '{path}' has seq {duplicate['seq']} in more than one source; seq must ascend over all sources "
            f"({', '.join(sources)}) as one order"
        )


def _place(folder: str, source: Source) -> str:
    if _is_local(folder):
        root = _local(folder)
        if not root.is_dir():
            raise TraceError(f"trace '{folder}' must be a folder with a file per source, such as {source.name}.parquet")
        files = [path for path in sorted(root.iterdir()) if path.name.split(".")[0] == source.name]
        if len(files) > 1:
            raise TraceError(
                f"trace '{folder}' has {len(files)} files for source '{source.name}': {', '.join(path.name for path in files)}; "
                "keep one of them"
            )
        if files:
            return str(files[0])
        names = ", ".join(sorted(p.name for p in root.iterdir())) or "nothing"
        raise TraceError(f"trace '{folder}' has no file for source '{source.name}', such as {source.name}.parquet; it has {names}")
    return f"{folder.rstrip('/')}/{source.name}.parquet"


def _absent(path: str) -> str:
    return f"trace '{path}' does not exist; make one with 'holdfast trace', or check the path"


def _open_source(spark: SparkSession, source: Source, path: str, columns: Columns | None, scratch: Path | None) -> DataFrame:
    require_trace_exists(path)
    try:
        frame = _reader(spark, path, typed=columns is not None)
        frame = _mapped(frame, source, columns) if columns else frame
    except SPARK_ERRORS as error:
        raise TraceError(f"trace '{path}' cannot be read for source '{source.name}': {first_line(error)}") from error
    frame = _typed(frame, source, path, text=columns is None and ".csv" in Path(path).suffixes)
    if scratch is not None and (columns or ".parquet" not in Path(path).suffixes):
        frame = _copied(spark, frame, scratch / source.name, path, columns or {})
    _require_order(frame, source, path, mapped=columns is not None)
    return frame


def _copied(spark: SparkSession, frame: DataFrame, place: Path, path: str, columns: Columns) -> DataFrame:
    try:
        frame.write.parquet(str(place))
    except SPARK_ERRORS as error:
        raise TraceError(f"trace '{path}' cannot be read{_failing_column(frame, columns)}: {first_line(error)}") from error
    return spark.read.parquet(str(place))


def _failing_column(frame: DataFrame, columns: Columns) -> str:
    """Return the name of the first column that cannot be computed, with its expression; empty if each can."""
    for name in frame.columns:
        try:
            frame.agg(F.count(quoted(name))).collect()
        except SPARK_ERRORS:
            return f" in column '{name}'" + (f" (mapped to {columns[name]})" if name in columns else "")
    return ""


def _reader(spark: SparkSession, path: str, *, typed: bool) -> DataFrame:
    """Return the rows of a file. With `typed`, Spark infers the types of CSV columns; otherwise they are text."""
    kind = next((kind for suffix, kind in READERS.items() if suffix in Path(path).suffixes), None)
    if kind is None and _is_local(path) and _local(path).is_dir():
        inside = {suffix for file in _local(path).iterdir() for suffix in file.suffixes} & READERS.keys()
        kind = READERS[sorted(inside)[0]] if inside else None
    if kind is None:
        raise TraceError(f"trace '{path}' has an unknown kind of file; wanted one of {', '.join(READERS)}")
    if kind == "csv":
        return spark.read.csv(path, header=True, inferSchema=typed, mode="FAILFAST")
    return spark.read.format(kind).load(path)


def _mapped(frame: DataFrame, source: Source, columns: Columns) -> DataFrame:
    names = source_schema(source).names
    unknown = sorted(set(columns) - set(names))
    if unknown:
        raise TraceError(
            f"the mapping names column '{unknown[0]}', which source '{source.name}' does not have; "
            f"its columns are: {', '.join(names)}"
        )
    expressions = {name: columns.get(name, quoted(name)) for name in names if name in columns or name in frame.columns}
    return frame.selectExpr(*(f"{expression} as {quoted(name)}" for name, expression in expressions.items()))


def _typed(frame: DataFrame, source: Source, path: str, *, text: bool) -> DataFrame:
    actual = {field.name: field.dataType for field in frame.schema}
    errors = []
    for field in source_schema(source):
        if field.name not in actual:
            errors.append(
                f"column '{field.name}' ({field.dataType.simpleString()}) is missing; the trace has: {_names(list(actual))}"
                "; foreign names can be mapped (--columns)"
            )
        elif not _fits(actual[field.name], field.dataType, text=text):
            errors.append(f"column '{field.name}' must be {field.dataType.simpleString()}, got {actual[field.name].simpleString()}")
    if errors:
        raise _TraceErrors(f"trace '{path}' for source '{source.name}' ({source.origin})", errors)
    return frame.select(
        *(
            F.col(quoted(field.name)) if actual[field.name] == field.dataType else F.col(quoted(field.name)).cast(field.dataType)
            for field in source_schema(source)
        )
    )


def _names(columns: Sequence[str]) -> str:
    """Return the names of the columns, unless they are unprintable."""
    if not all(name.isprintable() and "\ufffd" not in name for name in columns):
        return "unprintable names, so the file's content probably does not match its suffix"
    return ", ".join(columns) or "nothing"


class _TraceErrors(CompoundError, TraceError):
    """Several errors of one trace."""


def _fits(actual: DataType, expected: DataType, *, text: bool) -> bool:
    have, want = actual.simpleString(), expected.simpleString()
    return text or have == want or have.split("(")[0] in WIDER.get(want, ()) or have == "void"


def _require_order(frame: DataFrame, source: Source, path: str, *, mapped: bool) -> None:
    """Raise TraceError if the trace is empty, or a seq is null or occurs twice, or seqs of a Parquet file do not ascend."""
    who = f"trace '{path}' for source '{source.name}'"
    if not mapped and _is_local(path) and _local(path).is_file() and path.endswith(".parquet"):
        _require_ascending(_local(path), who)
        return
    try:
        rows, known, distinct = frame.select(F.count("*"), F.count("seq"), F.count_distinct("seq")).first() or (0, 0, 0)
    except SPARK_ERRORS as error:
        raise TraceError(f"{who} cannot be read: {first_line(error)}") from error
    if rows == 0:
        raise TraceError(f"{who} is empty; there is nothing to run on")
    if known < rows:
        raise TraceError(f"{who} has {counted(rows - known, 'row')} without a seq; every row needs one")
    if distinct < rows:
        raise TraceError(f"{who} has {counted(rows - distinct, 'row')} whose seq another row has too; seq must ascend")


def _require_ascending(path: Path, who: str) -> None:
    """Check that seq ascends. Only that column is read, batch by batch, so memory stays bounded."""
    last, row = None, 0
    try:
        for batch in pq.ParquetFile(path).iter_batches(batch_size=1 << 20, columns=["seq"]):
            column = batch.column(0)
            if column.null_count:
                place = row + int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0]) + 1
                raise TraceError(f"{who} has no seq in row {place}; every row needs one")
            seq = column.to_numpy()
            if last is None and len(seq) and seq[0] < 0:
                raise TraceError(f"{who} begins with seq {seq[0]}; seq must be at least 0")
            steps = np.diff(seq, prepend=seq[:1] - 1 if last is None else [last])
            descents = np.flatnonzero(steps <= 0)
            if len(descents):
                at = int(descents[0])
                before = int(seq[at - 1]) if at else last
                raise TraceError(f"{who}: seq must ascend, but row {row + at + 1} has seq {seq[at]} after {before}")
            last, row = (int(seq[-1]) if len(seq) else last), row + len(seq)
    except (pa.ArrowException, OSError) as error:
        raise TraceError(f"{who} cannot be read: {first_line(error)}") from error
    if row == 0:
        raise TraceError(f"{who} is empty; there is nothing to run on")


def _is_local(path: str) -> bool:
    return "://" not in path or path.startswith("file://")


def _local(path: str) -> Path:
    return Path(path.removeprefix("file://"))
