"""A campaign from trace to page, and what it costs to ask again."""

import json
from pathlib import Path

import pytest

from holdfast.app import App
from holdfast.app.load import load_app
from holdfast.assess.campaign import Campaign
from holdfast.assess.campaign_context import CampaignContext
from holdfast.assess.case import Case
from holdfast.assess.law_check import require_law
from holdfast.assess.targets import choose_targets
from holdfast.cli.assess_campaign import carry_out, scores_of
from holdfast.errors import ApplicationError, HoldfastError
from holdfast.trace import write_market

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture(scope="module")
def setting(spark, tmp_path_factory):
    path = tmp_path_factory.mktemp("market") / "market.parquet"
    write_market(path, events=4000, seed=5, tickers=40)
    app = load_app(EXAMPLES / "bargain_discovery.py")
    return CampaignContext(
        spark, app, {"market": spark.read.parquet(str(path))}, scores=scores_of(app, ("sum",)), jitter=4, section=200
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


def test_a_campaign_ends_in_a_report_and_a_finished_one_is_not_run_again(setting, tmp_path, monkeypatch):
    choices = choose_targets(setting.graph)
    document = carry_out(setting, campaign(), tmp_path, choices=choices, check=False)
    quotes = document["scores"][0]["cases"][0]
    assert quotes["case"] == "quote_filter"
    assert quotes["outage_impact"] == -1.0
    assert quotes["offsets"][0]["quality"][-1] == pytest.approx(0.0, abs=1e-9)
    assert json.loads((tmp_path / "report.json").read_text())["trials"] == 4
    assert (tmp_path / "report.html").read_text().startswith("<!doctype html>")
    assert len((tmp_path / "report.csv").read_text().splitlines()) == 1 + 4
    monkeypatch.setattr("holdfast.assess.runner.Runner.__init__", lambda *_, **__: pytest.fail("it was run again"))
    assert carry_out(setting, campaign(), tmp_path, choices=choices, check=False) == document


def test_preparation_tells_how_far_it_is_and_is_not_compared_again_when_a_campaign_goes_on(setting, tmp_path, monkeypatch):
    told = []
    quotes = campaign(cases=(Case(("quote_filter",)),), outages_s=(0.2,))
    document = carry_out(setting, quotes, tmp_path, choices=(), check=False, progress=lambda *said: told.append(said))
    assert told[:4] == [("preparing", done, 3) for done in range(4)]
    assert told[4:] == [("golden runs", 0, 1), ("golden runs", 1, 1), ("trials", 0, 1), ("trials", 1, 1)]
    for file in (tmp_path / "outcomes").iterdir():
        file.unlink()
    told.clear()
    monkeypatch.setattr("holdfast.assess.runner.disagreement", lambda *_, **__: pytest.fail("it was compared again"))
    again = carry_out(setting, quotes, tmp_path, choices=(), check=False, progress=lambda *said: told.append(said))
    assert told == [("preparing", 0, 1), ("preparing", 1, 1), ("trials", 0, 1), ("trials", 1, 1)]
    assert again["scores"][0]["cases"][0]["offsets"] == document["scores"][0]["cases"][0]["offsets"]


def test_an_offset_past_the_end_is_refused_before_anything_runs(setting, tmp_path, capsys):
    with pytest.raises(HoldfastError, match="offset 4,000 lies past the end of the trace, which has 4,000 source tuples"):
        carry_out(setting, campaign(offsets=(4000,)), tmp_path / "new", choices=())
    assert not (tmp_path / "new").exists()
    assert "first law" not in capsys.readouterr().err


def test_an_application_that_breaks_the_first_law_is_refused(spark):
    app = App("forgetful")
    orders = app.source("orders", "seq long, time timestamp")

    @app.operator(inputs=orders)
    def numbered(rows):
        return rows.selectExpr("seq", "count(*) over (order by seq) as number")

    app.sink("out", numbered)
    rows = spark.range(20).selectExpr("id as seq", "timestamp_millis(id) as time")  # all of them in one epoch
    setting = CampaignContext(spark, app, {"orders": rows}, scores=scores_of(app, ()), jitter=0, section=10)
    told = []
    with pytest.raises(ApplicationError, match=r"operator 'numbered' .* breaks the first law"):
        require_law(setting, progress=lambda *said: told.append(said))
    assert told == [("operators checked against the first law", done, 1) for done in (0, 1)]
