"""A small campaign on each example that no other test runs one on: from its trace to its report."""

import json
from pathlib import Path

import pytest

from holdfast.app.load import load_app
from holdfast.assess.campaign import Campaign
from holdfast.assess.campaign_context import CampaignContext
from holdfast.assess.campaign_run import run_campaign
from holdfast.assess.campaign_setup import select_scores
from holdfast.assess.case import Case
from holdfast.assess.targets import choose_targets
from holdfast.engine.trace_reader import open_trace
from holdfast.report.assessment import write_reports
from holdfast.trace import write_servers
from holdfast_papers.ppa.page_trace import write_pages
from holdfast_papers.ppa.traffic_trace import write_traffic

EXAMPLES = Path(__file__).parents[3] / "examples"


def pages(path):
    write_pages(path, events=3000, seed=1, rate=300.0, peak=500.0, pages=100, servers=4)


def traffic(path):
    write_traffic(path, events=3000, seed=1, users=500, segments=20, rate=20.0)


def servers(path):
    write_servers(path, events=3000, seed=1, servers=40, rack_size=5)


@pytest.mark.parametrize(
    ("example", "write", "target", "outage_s", "shares_jobs"),
    [
        ("top_pages", pages, "requests", 3.0, False),
        ("traffic_incidents", traffic, "incidents", 30.0, False),
        ("datacenter_monitor", servers, "smooth_cpu", 3.0, True),
    ],
)
def test_loss_in_an_example_changes_its_output(spark, tmp_path, example, write, target, outage_s, shares_jobs):
    write(tmp_path / "trace.parquet")
    app = load_app(EXAMPLES / f"{example}.py")
    trace = open_trace(spark, app.graph(), str(tmp_path / "trace.parquet"))
    context = CampaignContext(spark, app, trace, scores=select_scores(app, ()), jitter=0, section=200)
    campaign = Campaign(
        subject={"application": app.name},
        cases=(Case((target,)),),
        offsets=(1000,),
        outages_s=(outage_s,),
        paces=("average",),
        repetitions=1,
        golden_runs=1,
        scores=tuple(score.expression for score in context.scores),
        sink=context.sink,
        section=200,
        jitter=0,
    )
    document = write_reports(run_campaign(context, campaign, tmp_path / "results", check=False), choose_targets(app.graph()))
    assert (document["facts"]["why_slow"] is None) == shares_jobs
    quality = document["scores"][0]["cases"][0]["offsets"][0]["quality"][0]
    assert quality != pytest.approx(1.0, abs=1e-9)
    assert json.loads((tmp_path / "results" / "report.json").read_text())["trials"] == 1
