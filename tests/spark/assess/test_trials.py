"""Injection on Spark: what faults do to a stream, and many trials in one job against a run of each."""

from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import Window
from pyspark.sql import functions as F

from holdfast.app import App, last_rows
from holdfast.app.load import load_app
from holdfast.assess.arrival_jitter import jittered
from holdfast.assess.assessment import assess
from holdfast.assess.batched import BatchedRunner
from holdfast.assess.batched_check import same
from holdfast.assess.campaign import Campaign
from holdfast.assess.campaign_context import CampaignContext
from holdfast.assess.campaign_folder import Results
from holdfast.assess.case import Case
from holdfast.assess.golden_runs import run_golden
from holdfast.assess.injection import Injection, injected
from holdfast.assess.output_score import score_of
from holdfast.assess.runner import Runner
from holdfast.assess.sections import Sections
from holdfast.assess.whole_trace_trial import run_whole_trace
from holdfast.documents.fault import Divergence, Duplication, Loss, Reordering
from holdfast.engine.whole_trace import run_batch
from holdfast.errors import CompoundError, HoldfastError
from holdfast.trace import write_market, write_servers

EXAMPLES = Path(__file__).parents[3] / "examples"


def counting():
    """Orders that pass through one operator."""
    app = App("orders")
    orders = app.source("orders", "seq long, time timestamp, customer string, amount double")
    app.sink("out", app.operator(inputs=orders, name="checked")(lambda rows: rows))
    return app


@pytest.fixture(scope="module")
def orders(spark):
    return spark.range(40).selectExpr(
        "id as seq", "timestamp_seconds(id) as time", "concat('c', id % 3) as customer", "cast(id as double) as amount"
    )


def after(orders, fault, first, last):
    graph = injected(counting().graph(), [Injection(fault, first, last)])
    rows = run_batch(graph, {"orders": orders.withColumn("epoch", F.col("seq"))})["checked"].toArrow()
    return rows["seq"].to_pylist(), rows["amount"].to_pylist()


def test_a_loss_drops_exactly_the_burst(orders):
    seqs, _ = after(orders, Loss(target=("checked",), offset=0, tuples=5), 10, 14)
    assert sorted(seqs) == [seq for seq in range(40) if not 10 <= seq <= 14]


def test_duplication_repeats_a_share_of_the_burst_and_the_same_share_every_time(orders):
    fault = Duplication(target=("checked",), offset=0, tuples=20, share=0.5, seed=3)
    one, other = (sorted(after(orders, fault, 10, 29)[0]) for _ in range(2))
    assert one == other
    twice = {seq for seq in one if one.count(seq) == 2}
    assert twice < set(range(10, 30)) and 2 <= len(twice) <= 18


def test_reordering_lets_the_tuples_of_the_burst_change_places_and_no_others(orders):
    seqs, amounts = after(orders, Reordering(target=("checked",), offset=0, tuples=10, seed=1), 10, 19)
    moved = dict(zip(seqs, amounts, strict=True))
    assert sorted(seqs) == list(range(40))
    assert sorted(moved[seq] for seq in range(10, 20)) == list(range(10, 20))
    assert [moved[seq] for seq in range(10, 20)] != list(range(10, 20))
    assert all(moved[seq] == seq for seq in range(40) if not 10 <= seq < 20)


def test_reordering_within_a_distance_moves_no_tuple_further(orders):
    seqs, amounts = after(orders, Reordering(target=("checked",), offset=0, tuples=20, distance=3, seed=2), 10, 29)
    assert sorted(seqs) == sorted(amounts) == list(range(40))
    assert 0 < max(abs(seq - amount) for seq, amount in zip(seqs, amounts, strict=True)) <= 3


def test_reordering_gives_a_filtered_stream_no_seq_that_it_had_not(orders):
    sparse = orders.where("seq % 3 = 0")
    seqs, amounts = after(sparse, Reordering(target=("checked",), offset=0, tuples=7, distance=2, seed=4), 10, 30)
    assert sorted(seqs) == sorted(amounts) == list(range(0, 40, 3))
    assert 0 < max(abs(seq - amount) for seq, amount in zip(seqs, amounts, strict=True)) <= 2 * 3


def test_divergence_changes_values_within_its_size(orders):
    seqs, amounts = after(orders, Divergence(target=("checked",), offset=0, tuples=10, size=0.1), 10, 19)
    off = {seq: amount / seq - 1 for seq, amount in zip(seqs, amounts, strict=True) if seq and amount != seq}
    assert off and set(off) <= set(range(10, 20)) and all(abs(size) <= 0.1 for size in off.values())


def joined():
    """Two inputs that meet in an operator with a memory: each order of b carries the seq of the newest order of a before it."""
    app = App("join")
    orders = app.source("orders", "seq long, time timestamp, customer string, amount double")
    a = app.operator(inputs=orders, name="a")(lambda rows: rows.where("amount % 2 = 0").select("seq", "amount"))
    b = app.operator(inputs=orders, name="b")(lambda rows: rows.where("amount % 2 = 1").select("seq"))

    @app.operator(inputs=[a, b], keep={a: last_rows(1)})
    def newest(a, b):
        before = Window.orderBy("seq").rowsBetween(Window.unboundedPreceding, 0)
        both = a.unionByName(b, allowMissingColumns=True).withColumn("kept", F.last("amount", ignorenulls=True).over(before))
        return both.where("amount is null").select("seq", "kept")

    app.sink("out", newest)
    return app


@pytest.mark.filterwarnings("ignore")
def test_arrival_order_varies_between_inputs_within_the_bound_and_repeats_with_its_seed(spark, orders):
    rows = orders.withColumn("epoch", F.col("seq"))

    def seen(seed):
        graph = jittered(joined().graph(), bound=5, seeds=[seed])
        table = run_batch(graph, {"orders": rows})["newest"].toArrow()
        return dict(zip(table["seq"].to_pylist(), table["kept"].to_pylist(), strict=True))

    one, other = seen(1), seen(2)
    assert one == seen(1) != other
    assert sorted(one) == list(range(1, 40, 2))
    assert all(kept is None or abs(kept - seq) <= 11 for seq, kept in one.items())
    ordered = [kept for _, kept in sorted(one.items()) if kept is not None]
    assert ordered == sorted(ordered)


@pytest.fixture(scope="module")
def market(spark, tmp_path_factory):
    path = tmp_path_factory.mktemp("market") / "market.parquet"
    write_market(path, events=6000, seed=5, tickers=60)
    return spark.read.parquet(str(path)).cache()


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
def test_other_faults_in_one_job_give_what_a_run_of_each_gives(spark, market, tmp_path, fault, case):
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
def test_a_trial_among_others_in_one_job_gives_what_a_run_of_its_own_gives(prepared, data):
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


def test_trials_over_seqs_that_begin_far_from_zero_give_what_a_run_of_each_gives(spark, market, tmp_path):
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


def test_a_case_whose_trials_cannot_share_jobs_leaves_the_others_together(spark, market, tmp_path):
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


def test_seqs_that_leave_no_room_for_an_arrival_order_are_refused_unless_it_is_always_the_same(spark, market):
    rows = market.limit(9).withColumn("seq", F.col("seq") + F.lit(1 << 60))
    assert len(bargains(spark, rows, jitter=0).rows.seq) == 9
    with pytest.raises(HoldfastError, match=r"only below 9,007,199,254,740,992 can their arrival order vary; .*--jitter 0"):
        len(bargains(spark, rows).rows.seq)


@pytest.mark.parametrize("outputs", [True, False])
@pytest.mark.parametrize(("score", "said"), [("sum(double('nan'))", "no number"), ("avg(gain + double('inf'))", "infinite")])
def test_a_score_that_is_no_finite_number_is_refused(spark, market, outputs, score, said):
    context = bargains(spark, market, scores=[score_of("bargains", score)])
    with pytest.raises(HoldfastError, match=rf"is {said}.* in the section of seqs 250 to 499"):
        run_golden(context, 1, outputs=outputs)


def test_servers_that_meet_in_racks_share_jobs_too(spark, tmp_path):
    write_servers(tmp_path / "servers.parquet", events=3000, seed=2, servers=40, rack_size=5)
    rows = spark.read.parquet(str(tmp_path / "servers.parquet"))
    app = load_app(EXAMPLES / "datacenter_monitor.py")
    context = CampaignContext(spark, app, {"servers": rows}, scores=[score_of("racks", "avg(load)")], jitter=0, section=200)
    campaign = campaign_of(context, (Case(("smooth_cpu",)),), offsets=(1000,), outages_s=(4.0,), repetitions=1, golden_runs=1)
    runner = Runner(context, campaign)
    assert runner.why_none_batched is None
    assert context.trace_key.column == "rack"


def test_an_interrupted_campaign_goes_on_and_runs_nothing_twice(spark, market, tmp_path, monkeypatch):
    context = bargains(spark, market)
    campaign = campaign_of(context, (Case(("quote_filter",)),), offsets=(500,))
    runner = Runner(context, campaign, verify=False, rows=1)
    results = Results(tmp_path, campaign)
    kept = results.add
    seen = []

    def add_once(outcomes):
        if seen:
            raise KeyboardInterrupt
        seen.extend(trial for trial, _ in outcomes)
        kept(outcomes)

    monkeypatch.setattr(results, "add", add_once)
    with pytest.raises(KeyboardInterrupt):
        runner.run(results, parallel=1)
    first = Results(tmp_path, campaign).done()
    assert first == set(seen) and 0 < len(first) < campaign.size
    again = Results(tmp_path, campaign)
    fresh = []
    add = again.add
    monkeypatch.setattr(again, "add", lambda outcomes: (fresh.extend(trial for trial, _ in outcomes), add(outcomes)))
    runner.run(again, parallel=1)
    assert sorted([*seen, *fresh]) == sorted(campaign.trials())


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


def test_an_application_that_looks_into_its_keys_is_run_trial_by_trial_and_told_so(spark, orders):
    context = CampaignContext(spark, peeking(), {"orders": orders}, scores=[score_of("out", "count(before)")], jitter=0, section=10)
    campaign = campaign_of(context, (Case(("best",)),), offsets=(5,), outages_s=(2.0,), repetitions=1, golden_runs=1)
    runner = Runner(context, campaign)
    assert "some operator uses the value of a key, an epoch or a seq" in runner.why_none_batched
    with pytest.raises(HoldfastError, match="trials of best cannot share Spark jobs"):
        Runner(context, campaign, way="fast")


@pytest.mark.parametrize(
    ("example", "score", "sources", "reason"),
    [
        ("top_pages", "sum(views)", ("requests",), "has a state table"),
        ("traffic_incidents", "sum(jams)", ("locations", "incidents"), "groups the rows of all keys"),
    ],
)
def test_applications_whose_trials_cannot_share_jobs_say_why(spark, example, score, sources, reason):
    app = load_app(EXAMPLES / f"{example}.py")
    graph = app.graph()
    trace = {name: spark.createDataFrame([], graph.nodes[name].schema) for name in sources}
    context = CampaignContext(spark, app, trace, scores=[score_of(graph.sinks[0].name, score)], jitter=0, section=10)
    assert reason in context.trace_key


def test_a_score_that_is_no_number_is_refused(spark, orders):
    with pytest.raises(CompoundError, match=r"the score 'max\(customer\)' of sink 'out' is a string; it must be a number"):
        CampaignContext(spark, counting(), {"orders": orders}, scores=[score_of("out", "max(customer)")], jitter=0, section=10)


def test_a_score_that_does_not_add_up_is_scored_section_by_section(spark, orders):
    context = CampaignContext(spark, counting(), {"orders": orders}, scores=[score_of("out", "max(amount)")], jitter=0, section=10)
    golden = run_golden(context, 0, outputs=False)
    assert golden.parts["max(amount)"].tolist() == [9.0, 19.0, 29.0, 39.0]
    outcome = run_whole_trace(context, Injection(Loss(target=("checked",), offset=5, tuples=5), 5, 14), golden)
    assert outcome.sections.tolist() == [0] and np.allclose(outcome.differences["max(amount)"], [-5.0])


def test_a_divergence_of_values_that_cannot_diverge_is_refused(spark, orders):
    app = App("names")
    source = app.source("orders", "seq long, time timestamp, customer string, amount double")
    names = app.operator(inputs=source, name="names")(lambda rows: rows.select("seq", "customer"))
    app.sink("out", app.operator(inputs=names, name="shown")(lambda rows: rows))
    context = CampaignContext(spark, app, {"orders": orders}, scores=[score_of("out", "count(*)")], jitter=0, section=10)
    for target, refused in (("names", False), ("shown", True)):
        campaign = campaign_of(context, (Case((target,)),), fault={"kind": "divergence"}, offsets=(5,))
        with pytest.raises(HoldfastError, match=r"it would change at shown \(names\) has none") if refused else nullcontext():
            Runner(context, campaign, way="slow")
