"""One Spark session for all tests that need one, commands as a user gives them, and property tests that try the same examples
every time."""

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

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in the background of a script, where Ctrl-C must be heard all the same
    signal.signal(signal.SIGINT, signal.default_int_handler)

YOUNG = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For a JVM that lives for seconds: what the second compiler would make of the code would not pay. It takes half the CPU."""
EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture(scope="session", autouse=True)
def young_jvms() -> Iterator[None]:
    """Every JVM that a test starts, also through other processes, knows that it will not grow old."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("JDK_JAVA_OPTIONS", " ".join([*os.environ.get("JDK_JAVA_OPTIONS", "").split(), YOUNG]))
        yield


@pytest.fixture(scope="session")
def spark(young_jvms: None) -> Iterator[object]:
    """A real Spark on two cores; every Spark test shares it."""
    from holdfast.engine.session import open_session

    session = open_session("local[2]", name="holdfast-tests", memory="3g")
    yield session
    session.stop()


@dataclass(frozen=True)
class Ran:
    """What a command left behind."""

    code: int
    out: str
    err: str


@pytest.fixture
def holdfast(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Runs `holdfast` with the given words in this process; nothing but SystemExit may come out of it."""
    from holdfast.cli.main import main

    def run(*words: object) -> Ran:
        monkeypatch.setattr(sys, "argv", ["holdfast", *map(str, words)])
        capsys.readouterr()
        code = 0
        try:
            main()
        except SystemExit as done:
            code = done.code or 0
        said = capsys.readouterr()
        assert "Traceback" not in said.out + said.err
        return Ran(code, said.out, said.err)

    return run
