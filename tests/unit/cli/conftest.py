"""Fixtures: a small application, an environment without Java, and one with holdfast-papers."""

import tomllib
from pathlib import Path

import pytest

from holdfast import entry_points

APP = """
from holdfast import App

app = App("shop")
orders = app.source("orders", "seq long, time timestamp, amount double")


@app.operator(inputs=orders)
def large(orders):
    return orders.where("amount > 100")


app.sink("alerts", large)
"""


@pytest.fixture
def no_java(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)


@pytest.fixture
def shop(tmp_path):
    file = tmp_path / "shop.py"
    file.write_text(APP)
    return file


@pytest.fixture
def papers_installed(tmp_path, monkeypatch):
    """Declare the entry points of papers/pyproject.toml as an installation of holdfast-papers would."""
    groups = tomllib.loads(Path("papers/pyproject.toml").read_text())["project"]["entry-points"]
    lines = [f"[{group}]\n" + "\n".join(f"{name} = {value}" for name, value in names.items()) for group, names in groups.items()]
    metadata = tmp_path / "site" / "holdfast_papers-0.1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: holdfast-papers\nVersion: 0.1.0\n")
    (metadata / "entry_points.txt").write_text("\n\n".join(lines) + "\n")
    monkeypatch.syspath_prepend(metadata.parent)
    entry_points._all_entry_points.cache_clear()
    yield
    entry_points._all_entry_points.cache_clear()
