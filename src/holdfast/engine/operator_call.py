"""Call a user's operator, and turn its failures into errors that name the operator."""

import inspect
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout

import pyarrow as pa
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # py4j has no types
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.types import LongType

from holdfast.app import Graph, Operator, Origin
from holdfast.engine.epochs import Span
from holdfast.errors import HoldfastError, OperatorError


def call_operator(
    operator: Operator, inputs: Sequence[DataFrame], state: DataFrame | None = None
) -> tuple[DataFrame, DataFrame | None]:
    """Return the operator's output, and its new state table if it has one. Raises OperatorError if the function fails."""
    who = f"operator '{operator.name}' ({operator.origin})"
    try:
        with redirect_stdout(sys.stderr):  # stdout belongs to the command's result
            result = operator.function(*inputs) if state is None else operator.function(*inputs, state)
    except HoldfastError:
        raise
    except (Exception, SystemExit) as error:
        raise OperatorError(f"{who} raised {type(error).__name__}: {first_line(error)}") from error
    if state is None:
        return _stream(who, result), None
    if not (isinstance(result, tuple) and len(result) == 2):
        raise OperatorError(f"{who} takes a state table, so it must return (output, state), got {_kind(result)}")
    output, after = result
    if not isinstance(after, DataFrame):
        raise OperatorError(f"{who} must return its new state table as a DataFrame, got {_kind(after)}")
    return _stream(who, output), _same_columns(who, after, state)


def _stream(who: str, result: object) -> DataFrame:
    if not isinstance(result, DataFrame):
        raise OperatorError(f"{who} must return a DataFrame, got {_kind(result)}")
    fields = {field.name: field.dataType for field in result.schema}
    duplicates = sorted((name, times) for name, times in Counter(map(str.lower, result.columns)).items() if times > 1)
    if duplicates:
        name, times = duplicates[0]
        raise OperatorError(f"{who} returns column '{name}' {times} times; select the one you mean")
    if "seq" not in fields:
        raise OperatorError(
            f"{who} returns no column 'seq'; every tuple must have the seq of the tuple that triggered it, got {', '.join(fields)}"
        )
    for name in ("seq", "epoch"):
        if name in fields and not isinstance(fields[name], LongType):
            raise OperatorError(f"{who} returns '{name}' as {fields[name].simpleString()}; it must stay a bigint")
    return result


def require_epochs(operator: Operator, rows: pa.Table) -> None:
    """Raise OperatorError if rows of an operator's output belong to no epoch, because their seq or epoch is null."""
    for name in ("seq", "epoch"):
        count = rows[name].null_count if name in rows.column_names else 0
        if count:
            raise null_error(operator, f"{count} of {rows.num_rows} rows", name)


def null_error(operator: Operator, rows: str, name: str) -> OperatorError:
    """Return the error for rows of an operator's output in which a column that assigns them to an epoch is null."""
    who = f"operator '{operator.name}' ({operator.origin})"
    text = f"produces {rows} whose {name} is null"
    return OperatorError(f"{who} {text}; every row must have the {name} of the tuple that triggered it")


def require_seqs_of_input(operator: Operator, last: int | None, span: Span) -> None:
    """Raise OperatorError if the last seq of an operator's output, if it has one, is higher than all seqs of its input.

    No tuple can have triggered such a row, and a reader that selects the rows of an epoch by seq would not find it.
    """
    if last is not None and last > span.until:
        who = f"operator '{operator.name}' ({operator.origin})"
        text = f"produces a row with seq {last}, but its input ends at seq {span.until}"
        raise OperatorError(f"{who} {text}; every row must have the seq of the tuple that triggered it")


def _same_columns(who: str, after: DataFrame, before: DataFrame) -> DataFrame:
    expected = {field.name: field.dataType.simpleString() for field in before.schema}
    actual = {field.name: field.dataType.simpleString() for field in after.schema}
    if expected != actual:
        raise OperatorError(f"{who} must return its state table with the columns {_columns(expected)}, got {_columns(actual)}")
    return after.select(*before.columns)


def _columns(types: dict[str, str]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in types.items())


def _kind(value: object) -> str:
    return "nothing (None)" if value is None else f"a {type(value).__name__}"


SPARK_ERRORS = (PySparkException, Py4JJavaError)
"""The exceptions of Spark. PySpark translates only some of the JVM's exceptions."""


def first_line(error: BaseException) -> str:
    """Return the message of an error without the plan and stack trace that Spark appends."""
    return _first_line(str(error)) or type(error).__name__


def _first_line(text: str) -> str:
    lines = text.strip().splitlines()
    if lines and lines[0].startswith("An error occurred while calling"):  # an exception of the JVM that PySpark did not translate
        causes = [line.strip() for line in lines[1:] if line.startswith((": ", "Caused by: "))]
        texts = [re.sub(r"^(?:: |Caused by: )[\w.$]+(?:: )?", "", cause) for cause in causes]
        return next((text.split(" SQLSTATE:")[0].strip() for text in texts if text and "awaitResult" not in text), lines[0])
    return lines[0].split(" SQLSTATE:")[0].strip() if lines else ""


@contextmanager
def naming_failed_operator(graph: Graph, what: str, *, part: Sequence[str] | None = None) -> Iterator[None]:
    """Turn an exception of Spark while a job runs into an OperatorError that names the operator at fault, if that is known.

    `part` lists the only operators that ran. If it is a single one, that operator is at fault.
    """
    try:
        yield
    except SPARK_ERRORS as error:
        alone = graph.operator(part[0]) if part is not None and len(part) == 1 else None
        raise OperatorError(f"{what} failed{_failed_operator(graph, str(error), alone=alone)}: {_cause(str(error))}") from error


def failure_text(operator: Operator, error: BaseException) -> str:
    """Return what Spark reports about a failed query, with the line of the user's file if Spark names it."""
    text = str(error)
    lines = [line for file, line in _places(text) if file == operator.origin.file]
    where = Origin(operator.origin.file, int(lines[-1])) if lines else operator.origin
    return f"query '{operator.name}' ({where}) failed: {_cause(text)}"


def _places(text: str) -> list[tuple[str, str]]:
    """Return the files and lines that an error text of Spark refers to."""
    return re.findall(r'File "([^"]+)", line (\d+)', text) + re.findall(r"was called from\s+(\S+):(\d+)", text)


def _cause(text: str) -> str:
    """Return the line that states the cause: the last line of a Python traceback if there is one, otherwise the first line."""
    traceback = re.search(r"Traceback \(most recent call last\):\n(.*?)\n(?=\S)[^\n]*", text, re.DOTALL)
    exceptions = re.findall(r"^(\w+(?:\.\w+)*(?:Error|Exception|Interrupt|Warning)\b.*)$", text, re.MULTILINE)
    if traceback and exceptions:
        return str(exceptions[-1])
    return _first_line(text) or "Spark gave no reason"


def _failed_operator(graph: Graph, text: str, *, alone: Operator | None) -> str:
    """Return the operator, or else the line, that an error text of Spark refers to; empty if it refers to none."""
    places = _places(text)
    for operator in graph.operators:
        function = inspect.unwrap(operator.function)
        try:
            lines, first = inspect.getsourcelines(function)
        except (OSError, TypeError):
            continue
        for file, line in places:
            if file == function.__code__.co_filename and first <= int(line) < first + len(lines):
                return f" in operator '{operator.name}' ({Origin(file, int(line))})"
    files = {inspect.unwrap(operator.function).__code__.co_filename for operator in graph.operators}
    shared = [Origin(file, int(line)) for file, line in places if file in files]  # in a function that operators share
    if alone is not None:
        return f" in operator '{alone.name}' ({shared[-1] if shared else alone.origin})"
    return f" at {shared[-1]}" if shared else ""
