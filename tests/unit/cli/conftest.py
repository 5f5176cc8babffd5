"""Fixtures: a small application, and an environment without Java."""

import pytest

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
