"""Running a campaign: resuming, and trials that cannot share jobs."""

from contextlib import nullcontext

import numpy as np
import pytest
from pyspark.sql import Window
from pyspark.sql import functions as F

from holdfast.app import App, last_rows
from holdfast.assess.batched_check import same
from holdfast.assess.campaign_context import CampaignContext
from holdfast.assess.campaign_folder import Results
from holdfast.assess.case import Case
from holdfast.assess.golden_runs import run_golden
from holdfast.assess.injection import Injection
from holdfast.assess.output_score import score_of
from holdfast.assess.runner import Runner
from holdfast.assess.whole_trace_trial import run_whole_trace
from holdfast.documents.fault import Loss
from holdfast.errors import HoldfastError

from .applications import bargains, campaign_of, counting


def test_case_that_cannot_be_batched_leaves_others_batched(spark, market, tmp_path):
    context = bargains(spark, market)
    late = Case(("bargain_index",), 0.5)
    campaign = campaign_of(context, (Case(("quote_filter",)), late), offsets=(500,), outages_s=(0.2,), repetitions=1, golden_runs=1)
    runner = Runner(context, campaign, verify=False)
    assert (list(runner.not_batched), runner.why_none_batched) == ([late.name], None)
    runner.run(Results(tmp_path / "mixed", campaign))
    Runner(context, campaign, way="slow", verify=False).run(Results(tmp_path / "slow", campaign))
    mixed, slow = (dict(Results(tmp_path / name, campaign).outcomes()) for name in ("mixed", "slow"))
    assert set(mixed) == set(campaign.trials()) and all(same(outcome, mixed[trial]) for trial, outcome in slow.items())
    assert Results(tmp_path / "mixed", campaign).read("facts")["apart"] == runner.not_batched
    with pytest.raises(
        HoldfastError, match=r"trials of bargain_index \(replica, 0.5 s\) cannot share Spark jobs: operator 'bargain_index'"
    ):
        Runner(context, campaign, way="fast")


def test_interrupted_campaign_resumes_without_repeating_trials(spark, market, tmp_path, monkeypatch):
    context = bargains(spark, market)
    campaign = campaign_of(context, (Case(("quote_filter",)),), offsets=(500,))
    runner = Runner(context, campaign, verify=False, rows=1)
    results = Results(tmp_path, campaign)
    kept = results.add
    observed = []

    def add_once(outcomes):
        if observed:
            raise KeyboardInterrupt
        observed.extend(trial for trial, _ in outcomes)
        kept(outcomes)

    monkeypatch.setattr(results, "add", add_once)
    with pytest.raises(KeyboardInterrupt):
        runner.run(results, parallel=1)
    first = Results(tmp_path, campaign).done()
    assert first == set(observed) and 0 < len(first) < campaign.size
    again = Results(tmp_path, campaign)
    fresh = []
    add = again.add
    monkeypatch.setattr(again, "add", lambda outcomes: (fresh.extend(trial for trial, _ in outcomes), add(outcomes)))
    runner.run(again, parallel=1)
    assert sorted([*observed, *fresh]) == sorted(campaign.trials())


def peeking():
    """An application that looks into its key: trials in slots would not see it as it is."""
    app = App("peeking")
    orders = app.source("orders", "seq long, time timestamp, customer string, amount double", key="customer")

    @app.operator(inputs=orders, keep=last_rows(1, by="customer"))
    def best(rows):
        before = F.lag("amount").over(Window.partitionBy("customer").orderBy("seq"))
        return rows.withColumn("before", before).where("customer = 'c1'").select("seq", "customer", "before")

    app.sink("out", best)
    return app


def test_application_that_uses_key_values_is_not_batched(spark, orders):
    context = CampaignContext(spark, peeking(), {"orders": orders}, scores=[score_of("out", "count(before)")], jitter=0, section=10)
    campaign = campaign_of(context, (Case(("best",)),), offsets=(5,), outages_s=(2.0,), repetitions=1, golden_runs=1)
    runner = Runner(context, campaign)
    assert "some operator uses the value of a key, an epoch or a seq" in runner.why_none_batched
    with pytest.raises(HoldfastError, match="trials of best cannot share Spark jobs"):
        Runner(context, campaign, way="fast")


def test_non_additive_score_is_computed_per_section(spark, orders):
    context = CampaignContext(spark, counting(), {"orders": orders}, scores=[score_of("out", "max(amount)")], jitter=0, section=10)
    golden = run_golden(context, 0, outputs=False)
    assert golden.parts["max(amount)"].tolist() == [9.0, 19.0, 29.0, 39.0]
    outcome = run_whole_trace(context, Injection(Loss(target=("checked",), offset=5, tuples=5), 5, 14), golden)
    assert outcome.sections.tolist() == [0] and np.allclose(outcome.differences["max(amount)"], [-5.0])


def test_divergence_without_fractional_values_is_rejected(spark, orders):
    app = App("names")
    source = app.source("orders", "seq long, time timestamp, customer string, amount double")
    names = app.operator(inputs=source, name="names")(lambda rows: rows.select("seq", "customer"))
    app.sink("out", app.operator(inputs=names, name="shown")(lambda rows: rows))
    context = CampaignContext(spark, app, {"orders": orders}, scores=[score_of("out", "count(*)")], jitter=0, section=10)
    for target, refused in (("names", False), ("shown", True)):
        campaign = campaign_of(context, (Case((target,)),), fault={"kind": "divergence"}, offsets=(5,))
        with pytest.raises(HoldfastError, match=r"it would change at shown \(names\) have none") if refused else nullcontext():
            Runner(context, campaign, way="slow")
