"""Trials in one Spark job give the same outcomes as a run of each."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as F

from holdfast.app.load import load_app
from holdfast.assess.assessment import assess
from holdfast.assess.batched import BatchedRunner
from holdfast.assess.batched_check import same
from holdfast.assess.campaign_context import CampaignContext
from holdfast.assess.campaign_folder import Results
from holdfast.assess.case import Case
from holdfast.assess.golden_runs import run_golden
from holdfast.assess.injection import Injection
from holdfast.assess.output_score import score_of
from holdfast.assess.runner import Runner
from holdfast.assess.sections import Sections
from holdfast.assess.whole_trace_trial import run_whole_trace
from holdfast.errors import HoldfastError
from holdfast.trace import write_servers

from .applications import EXAMPLES, bargains, campaign_of


def run_both(context, campaign, folder):
    fast, slow = (Runner(context, campaign, way=way, verify=False) for way in ("fast", "slow"))
    for name, runner in (("fast", fast), ("slow", slow)):
        runner.run(Results(folder / name, campaign))
    return (dict(Results(folder / name, campaign).outcomes()) for name in ("fast", "slow"))


@pytest.mark.parametrize(
    ("fault", "case"),
    [
        ({"kind": "duplication", "share": 0.5}, Case(("market",))),
        ({"kind": "divergence", "side": "output"}, Case(("vwap",), loses="output")),
    ],
)
def test_batched_faults_equal_whole_trace_runs(spark, market, tmp_path, fault, case):
    context = bargains(spark, market)
    campaign = campaign_of(context, (case,), fault=fault, offsets=(500,), repetitions=1, golden_runs=1)
    fast, slow = run_both(context, campaign, tmp_path)
    assert set(fast) == set(slow) == set(campaign.trials())
    assert any(len(outcome.sections) for outcome in slow.values())
    for trial, outcome in slow.items():
        assert same(outcome, fast[trial]), trial.name


@pytest.fixture(scope="module")
def prepared(spark, market):
    """Everything that trials of bargain discovery need, both ways."""
    context = bargains(spark, market)
    campaign = campaign_of(context, TARGETS)
    runner = Runner(context, campaign, verify=False)
    golden = {run: run_golden(context, campaign.seed_of(run), outputs=True) for run in range(2)}
    return runner, BatchedRunner(context, runner.golden_index), golden


TARGETS = (
    *(Case((name,)) for name in ("market", "trade_filter", "quote_filter", "vwap", "bargain_index")),
    Case(("market", "trade_quote", "trade_filter")),
    Case(("trade_filter", "aggregator", "vwap"), 0.5),
)


@settings(max_examples=8)
@given(st.data())
def test_batched_trial_equals_a_whole_trace_run(prepared, data):
    runner, way, golden = prepared
    case = data.draw(st.sampled_from(TARGETS), "case")
    slots, fault_path = [], runner.fault_paths[case.name]
    for _ in range(3):
        tuples = data.draw(st.integers(1, 700), "tuples")
        offset = data.draw(st.integers(0, 2500), "offset")
        first, last = runner.locator.locate(runner.context.graph, case, offset=offset, tuples=tuples)
        injection = Injection(runner.campaign.fault_for(case, offset=offset, tuples=tuples), first, last)
        slots.append(way.slot(fault_path, injection, golden[data.draw(st.integers(0, 1), "run")].seed))
    together = way.run(fault_path, slots, {run.seed: run for run in golden.values()})
    at = data.draw(st.integers(0, 2), "which")
    alone = run_whole_trace(runner.context, slots[at].injection, next(run for run in golden.values() if run.seed == slots[at].seed))
    assert same(alone, together[at])


def test_batched_trials_work_with_large_seqs(spark, market, tmp_path):
    far = 1_700_000_000_013
    context = bargains(spark, market.withColumn("seq", F.col("seq") + F.lit(far)))
    assert context.sections == Sections(250, 1_700_000_000_000, 25)
    campaign = campaign_of(context, (Case(("trade_filter",)),), offsets=(3000,), outages_s=(1.0,))
    fast, slow = run_both(context, campaign, tmp_path)
    assert all(len(outcome.sections) and outcome.sections[0] >= 12 for outcome in slow.values())
    assert all(same(outcome, fast[trial]) for trial, outcome in slow.items())
    facts, golden = (Results(tmp_path / "fast", campaign).read(name) for name in ("facts", "golden"))
    assert facts["firsts"]["3000"] == far + 3001
    assert [len(values) for values in golden["runs"][0].values()] == [25] * 3
    assert assess(campaign, facts, golden, fast.items)[0].cases[0].offsets[0].begin == 12
    earlier = Results(tmp_path / "fast", campaign)
    earlier.write("facts", facts | {"origin": 0})
    with pytest.raises(HoldfastError, match="fast' are of an earlier version; give another folder"):
        Runner(context, campaign, verify=False).run(earlier)


def test_trials_with_a_coarser_key_are_batched(spark, tmp_path):
    write_servers(tmp_path / "servers.parquet", events=3000, seed=2, servers=40, rack_size=5)
    rows = spark.read.parquet(str(tmp_path / "servers.parquet"))
    app = load_app(EXAMPLES / "datacenter_monitor.py")
    context = CampaignContext(spark, app, {"servers": rows}, scores=[score_of("racks", "avg(load)")], jitter=0, section=200)
    campaign = campaign_of(context, (Case(("smooth_cpu",)),), offsets=(1000,), outages_s=(4.0,), repetitions=1, golden_runs=1)
    runner = Runner(context, campaign)
    assert runner.why_none_batched is None
    assert context.trace_key.column == "rack"
