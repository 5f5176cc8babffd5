"""The one place that makes a SparkSession."""

import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # py4j has no types
from pyspark import SparkContext
from pyspark.sql import SparkSession

from holdfast.errors import MachineError

JAVA = 17
"""The oldest Java that Spark 4 runs on."""
ENDING_S = 5.0


def open_session(
    master: str = "local[*]",
    *,
    name: str = "holdfast",
    memory: str = "4g",
    ui: bool = False,
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """A SparkSession that is quiet, in UTC, and on a local master reachable from this machine only.

    `memory` bounds the driver's heap; on a local master, where everything runs in the driver, it bounds the whole of Spark.
    `settings` are further settings of Spark's own.
    """
    require_java()
    builder = (
        SparkSession.builder.master(master)
        .appName(name)
        .config("spark.driver.memory", memory)
        .config("spark.ui.enabled", str(ui).lower())
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.execution.arrow.pyspark.enabled", "true")
        .config("spark.sql.catalogImplementation", "in-memory")
        .config("spark.sql.warehouse.dir", str(Path(tempfile.gettempdir()) / "holdfast-warehouse"))
    )
    if master.startswith("local"):
        builder = (
            builder.config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.sql.shuffle.partitions", 2 * _cores(master))
        )
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # where the UI listens
    for key, value in (settings or {}).items():
        builder = builder.config(key, value)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with _quiet_start() as log:
        try:
            spark = builder.getOrCreate()
        except Exception as error:
            raise MachineError(
                f"Spark could not start on master '{master}': {str(error).splitlines()[0]}; what it wrote: "
                f"{_gist(log.read_text(errors='replace')) or 'nothing'}"
            ) from error
    spark.sparkContext.setLogLevel("ERROR")
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # they print the stacks of errors that are raised anyway
    return spark


class Pulse:
    """Whether a context still has its Spark: its JVM may be killed, for want of memory say, and a cluster may end it."""

    def __init__(self, context: SparkContext) -> None:
        self._context: Any = context._jsc.sc()
        self._process: subprocess.Popen[bytes] | None = getattr(context._gateway, "proc", None)

    def feel(self) -> None:
        """Return once the JVM has answered, however long that takes; MachineError where the context has ended."""
        try:
            stopped = self._context.isStopped()
        except (Py4JError, OSError) as error:
            raise MachineError(f"Spark's JVM {self._death()}") from error
        if stopped:
            raise MachineError("Spark's context has ended; on a cluster, see what its master says of the application")

    def _death(self) -> str:
        """How the JVM ended, in words: its connections break a moment before it has."""
        try:
            code = None if self._process is None else self._process.wait(ENDING_S)
        except subprocess.TimeoutExpired:
            code = None
        if code is None:
            return "does not answer any more"
        return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"


def java_version() -> int | None:
    """The major version of the Java that Spark would use, or None where there is none."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if not java:
        return None
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False).stderr
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(found.group(1)) if found else None


def require_java() -> None:
    """Raise MachineError unless Spark can find a Java that it runs on."""
    version = java_version()
    if version is None or version < JAVA:
        got = "none was found" if version is None else f"Java {version} was found"
        raise MachineError(
            f"Spark needs Java {JAVA} or newer, but {got}; install it (Debian: apt-get install openjdk-17-jre-headless) "
            "or point JAVA_HOME at one"
        )


def _gist(text: str) -> str:
    """The last lines of a log that say what went wrong, or else the last; none of a stack's frames.

    >>> _gist("INFO Starting\\nException in thread main: no such master\\n\\tat a.b.C.run(C.scala:7)\\nWARN Stopping")
    'Exception in thread main: no such master'
    """
    lines = [line for line in text.splitlines() if line.strip() and not re.match(r"\s+(at |\.\.\. \d+ more)", line)]
    grave = [line for line in lines if re.search(r"ERROR|Error|Exception", line)]
    return " | ".join((grave or lines)[-3:])


def _cores(master: str) -> int:
    found = re.fullmatch(r"local\[(\d+|\*).*\]", master)
    if not found:
        return 1
    return os.cpu_count() or 1 if found.group(1) == "*" else int(found.group(1))


@contextmanager
def _quiet_start() -> Iterator[Path]:
    """Send what the JVM writes to stderr into a file: it inherits the descriptor that is there when it starts."""
    log = Path(tempfile.mkstemp(prefix="holdfast-spark-", suffix=".log")[1])
    sys.stderr.flush()
    kept = os.dup(2)
    with log.open("wb") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield log
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)
        log.unlink(missing_ok=True)
