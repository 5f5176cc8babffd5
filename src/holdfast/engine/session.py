"""Open SparkSessions and check that Java and Spark work. No other module opens one."""

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
    """Return a SparkSession in UTC that logs little. With a local master, only this machine can reach it.

    `memory` limits the driver's heap. With a local master everything runs in the driver, so it limits all of Spark.
    `settings` are further settings of Spark.
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
        logging.getLogger(name).setLevel(logging.CRITICAL)  # they print stack traces of errors that are raised anyway
    return spark


class SparkCheck:
    """Checks whether Spark still runs. Its JVM may be killed, for example for lack of memory, and a cluster may end the context."""

    def __init__(self, context: SparkContext) -> None:
        self._context: Any = context._jsc.sc()
        self._process: subprocess.Popen[bytes] | None = getattr(context._gateway, "proc", None)

    def check(self) -> None:
        """Wait until the JVM answers. Raises MachineError if it does not, or if the context has ended."""
        try:
            stopped = self._context.isStopped()
        except (Py4JError, OSError) as error:
            raise MachineError(f"Spark's JVM {self._death()}") from error
        if stopped:
            raise MachineError("Spark's context has ended; on a cluster, see what its master reports about the application")

    def _death(self) -> str:
        """Return how the JVM ended. Waits for that, because its connections break a moment earlier."""
        try:
            code = None if self._process is None else self._process.wait(ENDING_S)
        except subprocess.TimeoutExpired:
            code = None
        if code is None:
            return "does not answer any more"
        return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"


def java_version() -> int | None:
    """Return the major version of the Java that Spark would use, or None."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if not java:
        return None
    try:
        output = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False).stderr
    except (OSError, subprocess.TimeoutExpired):
        return None
    version = re.search(r'version "(?:1\.)?(\d+)', output)
    return int(version.group(1)) if version else None


def require_java() -> None:
    """Raise MachineError if Spark cannot find a Java that it supports."""
    version = java_version()
    if version is None or version < JAVA:
        available = "none was found" if version is None else f"Java {version} was found"
        raise MachineError(
            f"Spark needs Java {JAVA} or newer, but {available}; install it (Debian: apt-get install openjdk-17-jre-headless) "
            "or point JAVA_HOME at one"
        )


def _gist(text: str) -> str:
    """Return the last lines of a log that report errors, or otherwise the last lines, without stack frames.

    >>> _gist("INFO Starting\\nException in thread main: no such master\\n\\tat a.b.C.run(C.scala:7)\\nWARN Stopping")
    'Exception in thread main: no such master'
    """
    lines = [line for line in text.splitlines() if line.strip() and not re.match(r"\s+(at |\.\.\. \d+ more)", line)]
    errors = [line for line in lines if re.search(r"ERROR|Error|Exception", line)]
    return " | ".join((errors or lines)[-3:])


def _cores(master: str) -> int:
    match = re.fullmatch(r"local\[(\d+|\*).*\]", master)
    if not match:
        return 1
    return os.cpu_count() or 1 if match.group(1) == "*" else int(match.group(1))


@contextmanager
def _quiet_start() -> Iterator[Path]:
    """Redirect the JVM's stderr to a file. The JVM inherits the file descriptor when it starts."""
    log = Path(tempfile.mkstemp(prefix="holdfast-spark-", suffix=".log")[1])
    sys.stderr.flush()
    stderr = os.dup(2)
    with log.open("wb") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield log
    finally:
        sys.stderr.flush()
        os.dup2(stderr, 2)
        os.close(stderr)
        log.unlink(missing_ok=True)
