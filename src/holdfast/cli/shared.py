"""What the commands have in common: options that mean the same everywhere, Spark sessions and output folders."""

import logging
import math
import os
import shlex
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from holdfast.errors import HoldfastError
from holdfast.terminal import say

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from holdfast.app import Graph

F = TypeVar("F", bound=Callable[..., Any])

json_option = click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON document on stdout.")
columns_option = click.option(
    "--columns", type=click.Path(path_type=Path), help="YAML file that gives the application's columns as SQL over the trace's."
)


class FiniteRange(click.FloatRange):
    """A number in a range that is really one: nan is in every range of click's, and nothing here is done infinitely."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"wanted a finite number, got {number}", param, ctx)
        return number


def application_argument(command: F) -> F:
    return click.argument("application", metavar="APP", type=click.Path())(command)


def spark_options(command: F) -> F:
    """--master and --memory, as every command that runs Spark takes them."""
    for option in (
        click.option("--memory", default="4g", show_default=True, help="Bound of the driver's heap."),
        click.option("--master", default="local[*]", show_default=True, help="Spark master to run on."),
    ):
        command = option(command)
    return command


def end_in_order() -> None:
    """Let SIGTERM, and the end of the terminal, end this command as Ctrl-C does: with all that it has started.

    To be called by commands that start processes of their own session, which would outlive them.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup wants it
            signal.signal(number, lambda number, _: sys.exit(128 + number))


def this_call(*, without: Collection[str] = ("as_json", "out")) -> str:
    """The command under way as one would call it again: what was given, but for where its results go."""
    context = click.get_current_context()
    words, named = list[str](), context
    while named.parent is not None:
        words.insert(0, named.info_name or "")
        named = named.parent
    words.insert(0, "holdfast")
    for param in context.command.params:
        name = param.name or ""
        if name in without or context.get_parameter_source(name) is not ParameterSource.COMMANDLINE:
            continue
        if isinstance(param, click.Option):
            words.append(max(param.opts, key=len))
        if not (isinstance(param, click.Option) and param.is_flag):
            words.append(shlex.quote(str(context.params[name])))
    return " ".join(words)


@contextmanager
def spark_session(master: str, memory: str, *, name: str) -> Iterator["SparkSession"]:
    """A session that is stopped when the command ends, however it ends."""
    from holdfast.engine.session import open_session

    say(f"starting Spark on {master} ...")
    with interrupts_untold():
        session = open_session(master, name=name, memory=memory)
        try:
            yield session
        finally:
            session.stop()


@contextmanager
def interrupts_untold() -> Iterator[None]:
    """Keep what Py4J logs, with tracebacks, when Ctrl-C meets a call to the JVM from a person who meant to interrupt."""

    def wanted(record: logging.LogRecord) -> bool:
        return not str(record.msg).endswith("while sending command.")

    root = logging.getLogger()  # Py4J logs to the root itself
    root.addFilter(wanted)
    try:
        yield
    finally:
        root.removeFilter(wanted)


@contextmanager
def opened_trace(
    spark: "SparkSession", graph: "Graph", trace: str, *, columns: dict[str, dict[str, str]] | None
) -> Iterator["dict[str, DataFrame]"]:
    """The rows of a trace; a copy made to read them faster is gone when the command ends."""
    from holdfast.engine.trace_reader import open_trace

    with tempfile.TemporaryDirectory(prefix="holdfast-trace-") as scratch:
        yield open_trace(spark, graph, trace, columns=columns, scratch=Path(scratch))


@contextmanager
def written_whole(out: Path | None, *, force: bool) -> Iterator[Path | None]:
    """A folder to write into that takes the name `out` only when all is written: a command that is killed leaves no half of it.

    What an interrupted command left beside it is removed by the next one.
    """
    if out is None:
        yield None
        return
    out = out.resolve()
    if out.exists() and not force:
        raise HoldfastError(f"'{out}' exists already; give another --out, or --force to replace it")
    if out.exists() and not (out.is_dir() and all(entry.suffix == ".parquet" for entry in out.iterdir())):
        raise HoldfastError(f"'{out}' holds something else than an earlier result; it will not be replaced: give another --out")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        _clear_dead(out)
        partial = out.with_name(f".{out.name}.{os.getpid()}.partial")
        partial.mkdir()
    except OSError as error:
        raise HoldfastError(f"'{out}' cannot be written: {error.strerror}; give a folder that you may write to") from error
    try:
        yield partial
        if out.exists() and not force:
            raise HoldfastError(f"'{out}' was made by another command meanwhile; this one's rows are dropped: give another --out")
        shutil.rmtree(out, ignore_errors=True)
        partial.rename(out)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _clear_dead(out: Path) -> None:
    """Remove what commands that no longer run left of the same output."""
    for left in out.parent.glob(f".{out.name}.*.partial"):
        pid = left.name.split(".")[-2]
        if not (pid.isdigit() and Path(f"/proc/{pid}").exists()):
            shutil.rmtree(left, ignore_errors=True)
