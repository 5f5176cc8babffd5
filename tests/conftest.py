"""Fixtures for all tests: one shared Spark session, and the command line. Property tests try the same examples every time.

The examples of a property test depend on its name, so renaming such a test changes them: run it after a rename.
"""

import asyncio
import inspect
import os
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "holdfast",
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("holdfast")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in a background process, which must still react to Ctrl-C
    signal.signal(signal.SIGINT, signal.default_int_handler)

YOUNG = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options for a JVM that lives for seconds: the second compiler would not pay off. They halve the CPU time."""
EXAMPLES = Path(__file__).parents[1] / "examples"


def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine function in an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}))
    return True


@pytest.fixture(scope="session", autouse=True)
def young_jvms() -> Iterator[None]:
    """Give every JVM that a test starts, also through other processes, the options for a short life."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("JDK_JAVA_OPTIONS", " ".join([*os.environ.get("JDK_JAVA_OPTIONS", "").split(), YOUNG]))
        yield


@pytest.fixture(scope="session")
def spark(young_jvms: None) -> Iterator[object]:
    """A real Spark session on two cores, shared by all Spark tests."""
    from holdfast.engine.session import open_session

    session = open_session("local[2]", name="holdfast-tests", memory="3g")
    yield session
    session.stop()


@dataclass(frozen=True)
class Ran:
    """The result of a command."""

    code: int
    out: str
    err: str


@pytest.fixture
def holdfast(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Return a function that runs `holdfast` with arguments in this process. It may raise nothing but SystemExit."""
    from holdfast.cli.main import main

    def run(*words: object) -> Ran:
        monkeypatch.setattr(sys, "argv", ["holdfast", *map(str, words)])
        capsys.readouterr()
        code = 0
        try:
            main()
        except SystemExit as exit:
            code = exit.code or 0
        output = capsys.readouterr()
        assert "Traceback" not in output.out + output.err
        return Ran(code, output.out, output.err)

    return run
