"""The commands that run Spark: results on stdout, errors on stderr with code 2."""

import json
from importlib import import_module

import pyarrow.parquet as pq
import pytest

from holdfast.documents.descriptor import Descriptor
from holdfast.documents.document import read_document

BROKEN = """
from pyspark.sql import Window, functions as F

from holdfast import App, last_rows

app = App("broken")
market = app.source("market", "seq long, ticker string, price double")


def before():
    return Window.partitionBy("ticker").orderBy("seq")


@app.operator(inputs=market, keep=last_rows(1, by="ticker"))
def short(rows):
    return rows.select("seq", F.avg("price").over(before().rowsBetween(-3, 0)).alias("x"))


@app.operator(inputs=market)
def forgetful(rows):
    return rows.select("seq", F.lag("price").over(before()).alias("x"))


app.sink("a", short)
app.sink("b", forgetful)
app.score("a", "max(nothing)")
"""

RAISING = """
from pyspark.sql import functions as F

from holdfast import App

app = App("raising")
market = app.source("market", "seq long, price double")


@app.operator(inputs=market)
def risky(rows):
    return rows.select("seq", F.udf(lambda x: 1 // 0, "int")("price").alias("x"))


app.sink("out", risky)
"""


@pytest.fixture
def written(tmp_path):
    def write(text: str):
        file = tmp_path / "application.py"
        file.write_text(text)
        return file

    return write


def test_replay_prints_rows_and_scores(holdfast, bargain, market):
    ran = holdfast("replay", bargain, "--trace", market)
    assert ran.code == 0
    assert ran.out.startswith("bargain-discovery: 600 tuples in ")
    assert "  sink bargains: " in ran.out
    assert "  score sum(gain) of bargains: " in ran.out


def test_replay_by_epoch_gives_the_same_rows(holdfast, bargain, market, tmp_path):
    whole = holdfast("replay", bargain, "--trace", market, "--json", "--out", tmp_path / "whole")
    slow = holdfast("replay", bargain, "--trace", market, "--json", "--by-epoch", 2, "--out", tmp_path / "slow")
    one, other = json.loads(whole.out), json.loads(slow.out)
    assert whole.code == slow.code == 0
    assert one["rows"] == other["rows"]
    assert one["rows"]["bargains"] > 0
    assert one["scores"]["sum(gain) of bargains"] == pytest.approx(other["scores"]["sum(gain) of bargains"])
    assert one["events"] == other["events"] == 600
    assert other["epochs"] >= 2
    assert one["tuples_per_second"] > 0
    assert pq.read_table(tmp_path / "whole" / "bargains.parquet").num_rows == one["rows"]["bargains"]
    assert pq.read_table(tmp_path / "slow" / "bargains.parquet").num_rows == one["rows"]["bargains"]


def test_replay_replaces_output_only_with_force(holdfast, bargain, market, tmp_path):
    words = ("replay", bargain, "--trace", market, "--epoch-rows", 300, "--unfused", "--out", tmp_path / "out")
    assert holdfast(*words).code == 0
    assert holdfast(*words).code == 2
    assert holdfast(*words, "--force").code == 0
    (tmp_path / "out" / "mine.txt").write_text("precious")
    ran = holdfast(*words, "--force")
    assert ran.code == 2
    assert "contains files other than an earlier result and is not replaced" in ran.err
    assert (tmp_path / "out" / "mine.txt").read_text() == "precious"


def test_missing_trace_ends_with_code_2(holdfast, bargain, tmp_path):
    ran = holdfast("replay", bargain, "--trace", tmp_path / "gone.parquet")
    assert ran.code == 2
    assert ran.out == ""
    assert "gone.parquet' does not exist; make one with 'holdfast trace', or check the path" in ran.err


def test_failing_operator_is_named(holdfast, written, market):
    ran = holdfast("replay", written(RAISING), "--trace", market)
    assert ran.code == 2
    assert "the whole-trace run failed in operator 'risky' (application.py:12): ZeroDivisionError" in ran.err


def test_foreign_trace_is_replayed_with_a_mapping(holdfast, bargain, tmp_path):
    (tmp_path / "foreign.csv").write_text("id,ms,symbol,px,qty\n1,1000,x,10.0,5\n2,1001,x,12.0,5\n3,2000,x,13.0,5\n")
    (tmp_path / "columns.yaml").write_text(
        'seq: "row_number() over (order by id)"\n'
        'time: "timestamp_millis(ms)"\n'
        'ticker: "symbol"\n'
        "kind: \"if(id = 3, 'quote', 'trade')\"\n"
        'price: "px"\n'
        'volume: "cast(qty as bigint)"\n'
        'ask_price: "if(id = 3, 1.0D, null)"\n'
        'ask_size: "cast(qty as bigint)"\n'
    )
    ran = holdfast("replay", bargain, "--trace", tmp_path / "foreign.csv", "--columns", tmp_path / "columns.yaml", "--json")
    document = json.loads(ran.out)
    assert document["rows"] == {"bargains": 1}
    assert document["scores"]["sum(gain) of bargains"] == pytest.approx(5 * (11.0 - 1.0))


def test_check_accepts_a_valid_application(holdfast, bargain, market):
    ran = holdfast("check", bargain, "--trace", market, "--rows", 200, "--parts", 3)
    assert ran.code == 0
    assert ran.out.startswith("bargain-discovery: 6 operators, 2 of them stateful: aggregator, bargain_index\n  the first law")
    assert "tuples of 3 places of the trace, cut into epochs of 1 s and at random" in ran.out


def test_check_reports_rules_that_the_trace_does_not_exercise(holdfast, bargain, tmp_path):
    from holdfast.trace import write_market

    write_market(tmp_path / "tiny.parquet", events=20, seed=1)
    ran = holdfast("check", bargain, "--trace", tmp_path / "tiny.parquet", "--parts", 2)
    assert ran.code == 0
    assert "on 20 tuples of the whole trace" in ran.out
    assert "warning: last_rows(4, by=ticker) of operator 'aggregator' is not exercised: a value of ticker needs more" in ran.err


def test_check_without_a_trace_checks_the_definitions(holdfast, bargain):
    ran = holdfast("check", bargain, "--json")
    assert ran.code == 0
    document = {"application": "bargain-discovery", "holds": True, "errors": [], "warnings": [], "sampled": False}
    assert json.loads(ran.out) == document


def test_check_reports_all_errors_at_once(holdfast, written, market):
    ran = holdfast("check", written(BROKEN), "--trace", market, "--parts", 4)
    assert ran.code == 2
    assert ran.out == ""
    assert "application 'broken' has 3 errors:" in ran.err
    assert "the score 'max(nothing)' of sink 'a' cannot be computed as an aggregate of its rows" in ran.err
    assert "operator 'forgetful' (application.py:19) breaks the first law at seq " in ran.err
    assert "it looks back at earlier rows but keeps none: last_rows(1, by=ticker) would do on this sample" in ran.err
    assert "operator 'short' (application.py:14) breaks the first law at seq " in ran.err
    assert "it looks further back than last_rows(1, by=ticker) keeps: last_rows(" in ran.err


def test_check_reports_errors_of_trace_and_definitions_as_json(holdfast, written, tmp_path):
    ran = holdfast("check", written(BROKEN), "--trace", tmp_path / "gone.parquet", "--json")
    document = json.loads(ran.out)
    assert ran.code == 2
    assert document["holds"] is False
    assert [error.split("'")[0] for error in document["errors"]] == ["the score ", "trace "]


def test_check_names_an_operator_that_fails_on_rows(holdfast, written, market):
    ran = holdfast("check", written(RAISING), "--trace", market)
    assert ran.code == 2
    assert "failed in operator 'risky' (application.py:12): ZeroDivisionError" in ran.err


def test_application_of_init_is_valid_and_has_output(holdfast, tmp_path):
    folder = tmp_path / "hot-sensors"
    assert holdfast("init", folder).code == 0
    checked = holdfast("check", folder / "app.py", "--trace", folder / "readings.csv", "--rows", 100, "--parts", 2)
    assert checked.code == 0
    assert "tuples of 3 places of the trace, cut into epochs of 1 s and at random" in checked.out
    replayed = json.loads(holdfast("replay", folder / "app.py", "--trace", folder / "readings.csv", "--json").out)
    assert replayed["rows"]["warnings"] > 0
    assert replayed["scores"]["sum(above) of warnings"] > 0


def test_profile_writes_a_valid_descriptor(holdfast, bargain, market, tmp_path, monkeypatch):
    monkeypatch.setattr(import_module("holdfast.profile.measurement"), "REPEATS", 1)
    out = tmp_path / "bargain.yaml"
    ran = holdfast("profile", bargain, "--trace", market, "--out", out, "--json")
    assert ran.code == 0
    descriptor = read_document(out, Descriptor)
    assert json.loads(ran.out) == json.loads(descriptor.model_dump_json(exclude_none=True))
    assert set(descriptor.pes) == {"trade_quote", "trade_filter", "aggregator", "vwap", "quote_filter", "bargain_index"}
    assert sorted(descriptor.nodes) == ["node1", "node2"]
