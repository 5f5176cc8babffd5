"""Running commands that start Spark, on the session that all tests share."""

import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from holdfast.cli.main import main
from holdfast.trace import write_market

EXAMPLES = Path(__file__).parents[3] / "examples"


@dataclass(frozen=True)
class Ran:
    """What a command left behind."""

    code: int
    out: str
    err: str


@pytest.fixture
def holdfast(spark, monkeypatch, capsys):
    """Runs `holdfast` with the given words in this process; nothing but SystemExit may come out of it."""

    @contextmanager
    def shared(master, memory, *, name):
        yield spark

    for command in ("check", "profile", "replay"):
        monkeypatch.setattr(f"holdfast.cli.{command}.spark_session", shared)

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


@pytest.fixture(scope="session")
def market(tmp_path_factory):
    path = tmp_path_factory.mktemp("cli") / "market.parquet"
    write_market(path, events=600, seed=3, tickers=5, rate=150.0, peak=300.0)
    return path


@pytest.fixture(scope="session")
def bargain():
    return EXAMPLES / "bargain_discovery.py"
