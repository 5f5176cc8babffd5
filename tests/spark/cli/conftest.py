"""Run commands that start Spark on the session that all tests share."""

from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.trace import write_market

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture
def holdfast(spark, holdfast, monkeypatch):
    """Return the fixture `holdfast` with commands that use the shared session."""

    @contextmanager
    def shared(master, memory, *, name):
        yield spark

    for command in ("check", "profile", "record", "replay"):
        monkeypatch.setattr(f"holdfast.cli.{command}.spark_session", shared)

    return holdfast


@pytest.fixture(scope="session")
def market(tmp_path_factory):
    path = tmp_path_factory.mktemp("cli") / "market.parquet"
    write_market(path, events=600, seed=3, tickers=5, rate=150.0, peak=300.0)
    return path


@pytest.fixture(scope="session")
def bargain():
    return EXAMPLES / "bargain_discovery.py"
