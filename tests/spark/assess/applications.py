"""Applications and campaigns for trials on Spark."""

from pathlib import Path

from holdfast.app import App
from holdfast.app.load import load_app
from holdfast.assess.campaign import Campaign
from holdfast.assess.campaign_context import CampaignContext
from holdfast.assess.output_score import score_of

EXAMPLES = Path(__file__).parents[3] / "examples"


def counting():
    """Orders that pass through one operator."""
    app = App("orders")
    orders = app.source("orders", "seq long, time timestamp, customer string, amount double")
    app.sink("out", app.operator(inputs=orders, name="checked")(lambda rows: rows))
    return app


def campaign_of(context, cases, **changes):
    values = {
        "subject": {"application": context.app.name},
        "cases": cases,
        "offsets": (500, 3000),
        "outages_s": (0.2, 1.0),
        "paces": ("peak",),
        "repetitions": 2,
        "golden_runs": 2,
        "scores": tuple(score.expression for score in context.scores),
        "sink": context.sink,
        "section": context.section,
        "jitter": context.jitter,
    }
    return Campaign(**values | changes)


def bargains(spark, market, **changes):
    app = load_app(EXAMPLES / "bargain_discovery.py")
    scores = [score_of("bargains", text) for text in ("sum(gain)", "avg(gain)", "count(*)")]
    return CampaignContext(spark, app, {"market": market}, **{"scores": scores, "jitter": 6, "section": 250} | changes)
