"""A campaign from trace to page, and what it costs to ask again."""

import json
from pathlib import Path

import pytest

from holdfast.app import App
from holdfast.app.load import load_app
from holdfast.assess.campaign import Campaign
from holdfast.assess.campaign_context import CampaignContext
from holdfast.assess.campaign_run import run_campaign
from holdfast.assess.campaign_setup import select_scores
from holdfast.assess.case import Case
from holdfast.assess.first_law_check import require_first_law
from holdfast.assess.targets import choose_targets
from holdfast.errors import ApplicationError, HoldfastError
from holdfast.report.assessment import write_reports
from holdfast.trace import write_market

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture(scope="module")
def context(spark, tmp_path_factory):
    path = tmp_path_factory.mktemp("market") / "market.parquet"
    write_market(path, events=4000, seed=5, tickers=40)
    app = load_app(EXAMPLES / "bargain_discovery.py")
    return CampaignContext(
        spark, app, {"market": spark.read.parquet(str(path))}, scores=select_scores(app, ("sum",)), jitter=4, section=200
    )


def campaign(**changes):
    values = {
        "subject": {"application": "bargain-discovery"},
        "cases": (Case(("quote_filter",)), Case(("trade_filter", "aggregator", "vwap"), 0.2)),
        "offsets": (2000,),
        "outages_s": (0.2, 0.6),
        "paces": ("average",),
        "repetitions": 1,
        "golden_runs": 1,
        "scores": ("sum(gain)",),
        "sink": "bargains",
        "section": 200,
        "jitter": 4,
    }
    return Campaign(**values | changes)


def test_finished_campaign_is_reported_without_a_second_run(context, tmp_path, monkeypatch):
    choices = choose_targets(context.graph)
    document = write_reports(run_campaign(context, campaign(), tmp_path, check=False), choices)
    quotes = document["scores"][0]["cases"][0]
    assert quotes["case"] == "quote_filter"
    assert quotes["outage_impact"] == -1.0
    assert quotes["offsets"][0]["quality"][-1] == pytest.approx(0.0, abs=1e-9)
    assert json.loads((tmp_path / "report.json").read_text())["trials"] == 4
    assert (tmp_path / "report.html").read_text().startswith("<!doctype html>")
    assert len((tmp_path / "report.csv").read_text().splitlines()) == 1 + 4
    monkeypatch.setattr("holdfast.assess.runner.Runner.__init__", lambda *_, **__: pytest.fail("it was run again"))
    assert write_reports(run_campaign(context, campaign(), tmp_path, check=False), choices) == document


def test_resumed_campaign_skips_the_comparison(context, tmp_path, monkeypatch):
    steps = []
    quotes = campaign(cases=(Case(("quote_filter",)),), outages_s=(0.2,))
    document = write_reports(run_campaign(context, quotes, tmp_path, check=False, progress=lambda *step: steps.append(step)), ())
    assert steps[:4] == [("preparing", done, 3) for done in range(4)]
    assert steps[4:] == [("golden runs", 0, 1), ("golden runs", 1, 1), ("trials", 0, 1), ("trials", 1, 1)]
    for file in (tmp_path / "outcomes").iterdir():
        file.unlink()
    steps.clear()
    monkeypatch.setattr("holdfast.assess.runner.find_disagreement", lambda *_, **__: pytest.fail("it was compared again"))
    again = write_reports(run_campaign(context, quotes, tmp_path, check=False, progress=lambda *step: steps.append(step)), ())
    assert steps == [("preparing", 0, 1), ("preparing", 1, 1), ("trials", 0, 1), ("trials", 1, 1)]
    assert again["scores"][0]["cases"][0]["offsets"] == document["scores"][0]["cases"][0]["offsets"]


def test_offset_past_the_end_is_rejected_before_any_run(context, tmp_path, capsys):
    with pytest.raises(HoldfastError, match="offset 4,000 lies past the end of the trace, which has 4,000 source tuples"):
        run_campaign(context, campaign(offsets=(4000,)), tmp_path / "new")
    assert not (tmp_path / "new").exists()
    assert "first law" not in capsys.readouterr().err


def test_application_that_breaks_the_first_law_is_rejected(spark):
    app = App("forgetful")
    orders = app.source("orders", "seq long, time timestamp")

    @app.operator(inputs=orders)
    def numbered(rows):
        return rows.selectExpr("seq", "count(*) over (order by seq) as number")

    app.sink("out", numbered)
    rows = spark.range(20).selectExpr("id as seq", "timestamp_millis(id) as time")  # all of them in one epoch
    context = CampaignContext(spark, app, {"orders": rows}, scores=select_scores(app, ()), jitter=0, section=10)
    steps = []
    with pytest.raises(ApplicationError, match=r"operator 'numbered' .* breaks the first law"):
        require_first_law(context, progress=lambda *message: steps.append(message))
    assert steps == [("operators checked against the first law", done, 2) for done in (0, 1, 2)]
