"""Real processes that several scenarios need: a Spark standalone cluster on this machine's loopback, and PostgreSQL."""

import os
import queue
import re
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
import pytest

from .postgresql_server import Server

if TYPE_CHECKING:
    from .kafka_broker import Broker

LIMIT_S = 120
CORES, MEMORY = 2, "2g"


@pytest.fixture(scope="session", autouse=True)
def kept_bytecode(request: pytest.FixtureRequest) -> Iterator[None]:
    """Where the environment says that Python is to write no compiled code, the processes of scenarios keep it in pytest's cache.

    They start by the hundred, and each would compile all of holdfast again.
    """
    with pytest.MonkeyPatch.context() as patched:
        cache = request.config.cache
        if cache is not None and os.environ.get("PYTHONDONTWRITEBYTECODE"):
            patched.delenv("PYTHONDONTWRITEBYTECODE")
            patched.setenv("PYTHONPYCACHEPREFIX", str(cache.mkdir("bytecode")))
        yield


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A PostgreSQL server, started when first asked for."""
    program = shutil.which("pg_ctl")
    programs = max(Path("/usr/lib/postgresql").glob("*/bin"), default=Path(program).resolve().parent if program else None)
    if programs is None:
        pytest.skip("needs a PostgreSQL server: apt-get install postgresql")
    folder = Path(tempfile.mkdtemp(prefix="holdfast-postgresql-"))
    if os.geteuid() == 0:
        shutil.chown(folder, "postgres")
    process = None
    try:
        process = Server(programs, folder)
        yield process
    finally:
        if process is not None and (folder / "data" / "postmaster.pid").exists():
            process.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator["Broker"]:
    """A Kafka broker, started when first asked for."""
    from .kafka_broker import JARS, Broker

    if not JARS.exists():
        pytest.skip("needs Apache Kafka: python scripts/fetch_kafka.py")
    process = Broker(tmp_path_factory.mktemp("kafka"))
    yield process
    process.kill()


@pytest.fixture(scope="session")
def standalone_master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a standalone master with one worker, both processes of their own; started when first asked for."""
    work = tmp_path_factory.mktemp("standalone")
    with ExitStack() as both:
        url = both.enter_context(
            daemon(
                "org.apache.spark.deploy.master.Master",
                *("--host", "127.0.0.1", "--port", "0", "--webui-port", "0"),
                says=r"Starting Spark master at (spark://\S+)",
                options="-Dspark.master.rest.enabled=false",  # its port is fixed
            )
        )
        both.enter_context(
            daemon(
                "org.apache.spark.deploy.worker.Worker",
                *("--host", "127.0.0.1", "--port", "0", "--webui-port", "0"),
                *("--cores", str(CORES), "--memory", MEMORY, "--work-dir", str(work), url),
                says=r"(Successfully registered) with master",
            )
        )
        yield url


@pytest.fixture
def on_loopback() -> dict[str, str]:
    """The environment of a command whose Spark driver must be reached by the standalone worker."""
    return {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}


@contextmanager
def daemon(main: str, *arguments: str, says: str, options: str = "") -> Iterator[str]:
    """A Spark daemon that runs meanwhile; gives what the group of `says` matches in the line that tells that it is ready."""
    spark_class = Path(pyspark.__file__).parent / "bin" / "spark-class"
    process = subprocess.Popen(
        [str(spark_class), main, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "256m", "SPARK_DAEMON_JAVA_OPTS": options},
    )
    lines: queue.Queue[str | None] = queue.Queue()
    reader = threading.Thread(target=_read, args=(process, lines), daemon=True)
    reader.start()
    try:
        yield _ready(main, lines, says)
    finally:
        os.killpg(process.pid, signal.SIGKILL)  # a worker's executors are in its group
        process.wait(LIMIT_S)
        reader.join(LIMIT_S)


def _read(process: subprocess.Popen[str], lines: "queue.Queue[str | None]") -> None:
    """Hand on every line, so that the daemon never waits for a reader; None at the end."""
    assert process.stdout is not None
    with process.stdout as stream:
        for line in stream:
            lines.put(line)
    lines.put(None)


def _ready(main: str, lines: "queue.Queue[str | None]", says: str) -> str:
    read_lines: list[str] = []
    while (line := lines.get(timeout=LIMIT_S)) is not None:
        read_lines.append(line)
        if match := re.search(says, line):
            return match.group(1)
    raise AssertionError(f"{main} ended before it was ready: {''.join(read_lines)}")
