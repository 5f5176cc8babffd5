"""Traces and scores that a campaign cannot use, and why trials cannot share jobs."""

import pytest
from pyspark.sql import functions as F

from holdfast.app.load import load_app
from holdfast.assess.campaign_context import CampaignContext
from holdfast.assess.golden_runs import run_golden
from holdfast.assess.output_score import score_of
from holdfast.errors import CompoundError, HoldfastError

from .applications import EXAMPLES, bargains, counting


def test_huge_seqs_are_rejected_unless_the_order_is_fixed(spark, market):
    rows = market.limit(9).withColumn("seq", F.col("seq") + F.lit(1 << 60))
    assert len(bargains(spark, rows, jitter=0).rows.seq) == 9
    with pytest.raises(HoldfastError, match=r"only below 9,007,199,254,740,992 can their arrival order vary; .*--jitter 0"):
        len(bargains(spark, rows).rows.seq)


@pytest.mark.parametrize("outputs", [True, False])
@pytest.mark.parametrize(("score", "message"), [("sum(double('nan'))", "no number"), ("avg(gain + double('inf'))", "infinite")])
def test_non_finite_score_is_rejected(spark, market, outputs, score, message):
    context = bargains(spark, market, scores=[score_of("bargains", score)])
    with pytest.raises(HoldfastError, match=rf"is {message}.* in the section of seqs 250 to 499"):
        run_golden(context, 1, outputs=outputs)


@pytest.mark.parametrize(
    ("example", "score", "sources", "reason"),
    [
        ("top_pages", "sum(views)", ("requests",), "has a state table"),
        ("traffic_incidents", "sum(jams)", ("locations", "incidents"), "groups the rows of all keys"),
    ],
)
def test_reason_why_trials_cannot_share_jobs(spark, example, score, sources, reason):
    app = load_app(EXAMPLES / f"{example}.py")
    graph = app.graph()
    trace = {name: spark.createDataFrame([], graph.nodes[name].schema) for name in sources}
    context = CampaignContext(spark, app, trace, scores=[score_of(graph.sinks[0].name, score)], jitter=0, section=10)
    assert reason in context.trace_key


def test_score_that_is_no_number_is_rejected(spark, orders):
    with pytest.raises(CompoundError, match=r"the score 'max\(customer\)' of sink 'out' is a string; it must be a number"):
        CampaignContext(spark, counting(), {"orders": orders}, scores=[score_of("out", "max(customer)")], jitter=0, section=10)
