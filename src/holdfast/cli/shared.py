"""Options, Spark sessions and output folders that several commands share."""

import logging
import math
import os
import shlex
import shutil
import signal
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from holdfast.errors import HoldfastError
from holdfast.terminal import say

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

F = TypeVar("F", bound=Callable[..., Any])

json_option = click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON document on stdout.")
columns_option = click.option(
    "--columns",
    type=click.Path(path_type=Path),
    help="YAML file: the application's columns as SQL over the trace's.",
)


class FiniteRange(click.FloatRange):
    """A finite number in a range. click.FloatRange accepts nan in every range, and infinity in open ones."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"wanted a finite number, got {number}", param, ctx)
        return number


def application_argument(command: F) -> F:
    return click.argument("application", metavar="APP", type=click.Path())(command)


def spark_options(command: F) -> F:
    """Add --master and --memory to a command."""
    for option in (
        click.option("--memory", default="4g", show_default=True, help="Maximum heap of the driver."),
        click.option("--master", default="local[*]", show_default=True, help="Spark master to run on."),
    ):
        command = option(command)
    return command


def exit_on_signals() -> None:
    """Exit on SIGTERM and SIGHUP as on Ctrl-C, so that the command ends the processes it has started.

    Called by commands that start processes in sessions of their own, which would otherwise outlive the command.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup ignores SIGHUP
            signal.signal(number, lambda number, _: sys.exit(128 + number))


def command_line(*, without: Collection[str] = ("as_json", "out")) -> str:
    """Return the current command line, without the options that say where its results go."""
    context = click.get_current_context()
    words, command = list[str](), context
    while command.parent is not None:
        words.insert(0, command.info_name or "")
        command = command.parent
    words.insert(0, "holdfast")  # the root is called "python -m holdfast.cli.main" at times
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
    """Open a Spark session that is stopped when the block ends, normally or by an error."""
    from holdfast.engine.session import open_session

    say(f"starting Spark on {master} ...")
    with hide_py4j_interrupts():
        session = open_session(master, name=name, memory=memory)
        try:
            yield session
        finally:
            session.stop()


@contextmanager
def hide_py4j_interrupts() -> Iterator[None]:
    """Suppress the tracebacks that Py4J logs when Ctrl-C interrupts a call to the JVM."""

    def keep_record(record: logging.LogRecord) -> bool:
        return not str(record.msg).endswith("while sending command.")

    root = logging.getLogger()  # Py4J logs to the root logger
    root.addFilter(keep_record)
    try:
        yield
    finally:
        root.removeFilter(keep_record)


@contextmanager
def atomic_folder(out: Path | None, *, force: bool) -> Iterator[Path | None]:
    """Yield a temporary folder that is renamed to `out` at the end, so that a killed command leaves no partial output.

    Removes the temporary folders that killed commands left for the same `out`. Yields None if `out` is None.
    """
    if out is None:
        yield None
        return
    out = out.resolve()
    if out.exists() and not force:
        raise HoldfastError(f"'{out}' exists already; give another --out, or --force to replace it")
    if out.exists() and not (out.is_dir() and all(entry.suffix == ".parquet" for entry in out.iterdir())):
        raise HoldfastError(f"'{out}' contains files other than an earlier result and is not replaced; give another --out")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(out)
        partial = out.with_name(f".{out.name}.{os.getpid()}.partial")
        partial.mkdir()
    except OSError as error:
        raise HoldfastError(f"'{out}' cannot be written: {error.strerror}; give a folder that you may write to") from error
    try:
        yield partial
        if out.exists() and not force:
            raise HoldfastError(f"'{out}' was created by another command meanwhile; this result is discarded: give another --out")
        shutil.rmtree(out, ignore_errors=True)
        partial.rename(out)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _remove_abandoned(out: Path) -> None:
    """Remove the temporary folders of commands that no longer run."""
    for folder in out.parent.glob(f".{out.name}.*.partial"):
        pid = folder.name.split(".")[-2]
        if not (pid.isdigit() and Path(f"/proc/{pid}").exists()):
            shutil.rmtree(folder, ignore_errors=True)
