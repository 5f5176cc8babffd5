"""`holdfast run` with readers: the second law holds for the rows that they have ingested."""

import pytest

from .test_run import require_no_processes, run

APPLICATION = """
from pyspark.sql import Window, functions as F

from holdfast import App, last_rows

app = App("meters", epoch_s=1.0)


def rows(spark):
    frame = spark.readStream.format("rate").option("rowsPerSecond", 40).load()
    return frame.selectExpr("timestamp AS time", "value % 7 AS meter", "value")


readings = app.source(
    "readings", "seq long, time timestamp, meter long, value long", key="meter", parallelism=2, reader=rows
)


@app.operator(inputs=readings, keep=last_rows(2, by="meter"), key="meter", parallelism=2)
def sums(rows):
    last_three = Window.partitionBy("meter").orderBy("seq").rowsBetween(-2, 0)
    return rows.select("seq", "meter", F.sum("value").over(last_three).alias("total"))


app.sink("totals", sums)
"""
OPTIONS = ["--nodes", "2", "--tentative-after", "1", "--checkpoint-epochs", "3"]


def run_meters(tmp_path, *, for_s, faults):
    application = tmp_path / "meters.py"
    application.write_text(APPLICATION)
    return run(tmp_path, faults={"faults": faults}, options=[*OPTIONS, "--for", str(for_s)], application=application, trace=False)


def require_second_law(document, process):
    assert document["state"] == "canceled", (document, process.stderr[-3000:])
    verdicts = {verdict["name"]: verdict for verdict in document["verdicts"]}
    assert verdicts["second law at 'totals'"]["holds"] is True, document["verdicts"]
    assert document["rows"]["totals"] > 0
    assert process.returncode == 0, document["verdicts"]


def test_second_law_holds_for_a_killed_reader(tmp_path):
    crash = {"at_s": 6, "kind": "crash", "what": "pe", "target": ["readings/0.0"]}
    document, process = run_meters(tmp_path, for_s=15, faults=[crash])
    require_second_law(document, process)
    assert len(document["faults"]) == 1
    require_no_processes(tmp_path)


@pytest.mark.long
def test_second_law_holds_for_a_reader_that_is_cut_off_and_one_that_dies_with_its_node(tmp_path):
    faults = [
        {"at_s": 6, "kind": "cut", "what": "node", "target": ["n1"], "for_s": 8},
        {"at_s": 22, "kind": "crash", "what": "node", "target": ["n2"], "back_after_s": 2},
    ]
    document, process = run_meters(tmp_path, for_s=45, faults=faults)
    require_second_law(document, process)
    assert len(document["faults"]) == 2
    require_no_processes(tmp_path)
