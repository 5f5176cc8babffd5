"""`holdfast record`: sources of all kinds become a trace that the other commands read."""

import json
import time

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

APPLICATION = """
from holdfast import App

app = App("shop", epoch_s=0.2)
orders = app.source("orders", "seq long, time timestamp, n long", parallelism=2, delta={{"path": {delta!r}, "files_per_epoch": 2}})
clicks = app.source("clicks", "seq long, time timestamp, n long", files={{"path": {files!r}}})


@app.operator(inputs=orders)
def large(orders):
    return orders.where("n >= 50")


app.sink("out", large)
app.sink("all", clicks)
app.score("out", "count(*)")
"""

READER = """
from holdfast import App

app = App("meter", epoch_s=0.2)
rates = app.source("rates", "seq long, value long", reader=lambda spark: spark.readStream.format("rate").load())
app.sink("out", rates)
"""


@pytest.fixture
def shop(tmp_path):
    """An application whose table and files have rows out of the order of their times."""
    delta, files = str(tmp_path / "table"), tmp_path / "files"
    files.mkdir()
    now_us = int(time.time() * 1e6)
    for commit in range(5):
        numbers = pa.array(range(commit * 20, commit * 20 + 20), pa.int64())
        times = pa.array([now_us - 1000 * n.as_py() for n in numbers], pa.timestamp("us", "UTC"))
        deltalake.write_deltalake(delta, pa.table({"time": times, "n": numbers}), mode="append")
        pq.write_table(pa.table({"n": numbers}), files / f"{commit}.parquet")
    application = tmp_path / "app.py"
    application.write_text(APPLICATION.format(delta=delta, files=str(files)))
    return application


def test_recorded_sources_are_a_trace(holdfast, shop, tmp_path):
    out = tmp_path / "recorded"
    ran = holdfast("record", shop, "--rows", 200, "--out", out, "--json")
    assert ran.code == 0, ran.err
    document = json.loads(ran.out)
    assert document["rows"] == {"orders": 100, "clicks": 100}
    assert sorted(path.name for path in out.iterdir()) == ["clicks.parquet", "orders.parquet"]
    orders = pq.read_table(out / "orders.parquet")
    assert orders["n"].to_pylist() == list(reversed(range(100)))
    assert orders["seq"].to_pylist() == sorted(orders["seq"].to_pylist())
    replayed = holdfast("replay", shop, "--trace", out, "--json")
    assert replayed.code == 0, replayed.err
    assert json.loads(replayed.out)["rows"]["out"] == 50
    again = holdfast("record", shop, "--rows", 10, "--out", out)
    assert again.code == 2 and "exists already" in again.err


def test_reader_is_recorded_and_has_one_replica(holdfast, tmp_path):
    application, out = tmp_path / "meter.py", tmp_path / "recorded"
    application.write_text(READER)
    checked = holdfast("check", application)
    assert checked.code == 0, checked.err
    assert "source 'rates' has a reader, which cannot read rows again, so it runs as one replica" in checked.err
    recorded = holdfast("record", application, "--rows", 3, "--out", out)
    assert recorded.code == 0, recorded.err
    recording = pq.read_table(out / "rates.parquet")
    assert recording["seq"].to_pylist() == [1, 2, 3]
    assert set(recording.column_names) == {"seq", "value", "time"}


def test_recording_needs_an_end(holdfast, shop, tmp_path):
    no_end = holdfast("record", shop, "--out", tmp_path / "recorded")
    assert no_end.code == 2 and "a recording needs an end; give --for seconds, --rows number, or both" in no_end.err
    assert not (tmp_path / "recorded").exists()
