"""The recommended plan, given the measured losses."""

from dataclasses import replace

import numpy as np
import pytest

from holdfast.advise.advice import Advice, measured_plan, reasons
from holdfast.advise.budget import Budget, Prices
from holdfast.advise.candidates import Candidate
from holdfast.advise.losses import Expected, Loss, losses_of, protected_case, single_failures, single_losses, together_case
from holdfast.assess.assessment import Assessment, CaseView, OffsetView
from holdfast.assess.metrics import Dependency
from holdfast.assess.output_score import score_of
from holdfast.assess.targets import Choice

UNITS = {name: (name,) for name in ("read", "count", "sum")}
SINGLE = {"read": Loss("read", (2.0, 4.0)), "count": Loss("count", (60.0, 30.0)), "sum": Loss("sum", (0.0, 0.0))}
MEASURED = {
    "count (replica, 1 s)": Loss("count (replica, 1 s)", (1.0, 0.5)),
    "read (replica, 1 s)": Loss("read (replica, 1 s)", (0.0, 0.0)),
    "read+sum": Loss("read+sum", (2.0, 4.0)),
    "count+sum": Loss("count+sum", (61.0, 31.0)),
    "read+count+sum": Loss("read+count+sum", (1.9, 3.8)),
}


def weighed(objective, *protected):
    return measured_plan(Candidate(objective, protected), SINGLE, MEASURED, units=UNITS, failover_s=1.0, completeness=0.25)


@pytest.fixture
def advice():
    return Advice(
        application="line",
        budget=Budget(replicas=1),
        outage_s=8.0,
        failover_s=1.0,
        single=SINGLE,
        plans=(weighed("measured", "count"), weighed("of", "read")),
        because=dict.fromkeys(UNITS, "it was seen"),
        prices=Prices({"read": 1, "count": 4, "sum": 1}, {"read": 0.1, "count": 0.3, "sum": 0.0}),
        units=UNITS,
        reaching_goal=frozenset({"measured", "of"}),
        failing_over={"count": MEASURED["count (replica, 1 s)"], "read": Loss("read (replica, 1 s)", (0.5, 0.7), 0.1)},
    )


def test_case_names_match_the_trials():
    assert protected_case(("count",), failover_s=1.0).name == "count (replica, 1 s)"
    assert together_case(UNITS, ["count"], failover_s=1.0).name == "read+sum"
    assert together_case(UNITS, UNITS, failover_s=1.0).name == "read+count+sum (replica, 1 s)"


def test_operators_of_one_pe_fail_together():
    fused = {"read": ("read",), "count+sum": ("count", "sum")}
    assert protected_case(fused["count+sum"], failover_s=1.0).target == ("count", "sum")
    assert together_case(fused, ["read"], failover_s=1.0).target == ("count", "sum")
    assert together_case(fused, ["count+sum"], failover_s=1.0).target == ("read",)


def test_operator_costs_as_much_as_the_one_it_behaves_like():
    choices = [Choice("read", ("a source",)), Choice("clean", (), like="read"), Choice("idle", ("reads two streams",))]
    result = single_losses(choices, {"read": SINGLE["read"]})
    assert result == {"read": SINGLE["read"], "clean": SINGLE["read"], "idle": Loss("idle", (0.0, 0.0))}


def test_expected_loss_is_a_mean_with_spread_over_offsets():
    expected = single_failures(SINGLE, MEASURED, ["count"], units=UNITS, failover_s=1.0)
    assert (expected.least, expected.mean, expected.greatest) == pytest.approx((1.0, 1.25, 1.5))
    assert Expected.over(SINGLE.values()).mean == pytest.approx((62 / 3 + 34 / 3) / 2)


def test_plan_with_the_smallest_loss_is_chosen(advice):
    assert advice.chosen.candidate == Candidate("measured", ("count",))
    assert advice.remaining == pytest.approx(1.25 / 16.0)
    assert advice.ranking == ("count", "read", "sum")


def test_chosen_plan_loses_least_when_all_others_fail(advice):
    one, other = weighed("measured", "count"), weighed("ic", "read")
    least = replace(one.together, by_offset=tuple(loss * 0.999 for loss in one.together.by_offset))
    better = replace(advice, plans=(one, replace(other, together=least)), reaching_goal=frozenset({"measured", "ic"}))
    assert other.single.mean > one.single.mean
    assert better.chosen.candidate == other.candidate
    assert better.chosen_for.startswith(
        "It is the plan by internal completeness (LAAR). Of the 2 plans that were tried, none that protects"
    )
    alike = replace(better, plans=(replace(other, together=one.together), one))
    assert alike.chosen == one, "of those that lose as little, the one that loses least when one fails"


def test_cheaper_plan_wins_a_tie(advice):
    one = weighed("measured", "count")
    cheaper = replace(one, candidate=Candidate("of", ("sum",)))
    assert advice.prices.share(["sum"]) < advice.prices.share(["count"])
    assert replace(advice, plans=(one, cheaper)).chosen == cheaper


def test_next_unit_is_the_costliest_unprotected(advice):
    following = advice.next_unit()
    assert (following.operator, following.after.case) == ("read", "read (replica, 1 s)")
    assert following.remaining == pytest.approx((1.25 - (3.0 - 0.6) / 3) / 16.0)
    assert following.cpu == pytest.approx(0.25)


def test_plan_that_misses_the_goal_is_not_chosen(advice):
    assert replace(advice, reaching_goal=frozenset({"of"})).chosen.candidate == Candidate("of", ("read",))


def test_empty_plan_is_not_chosen_if_another_exists(advice):
    empty, one = weighed("of"), weighed("measured", "count")
    assert empty.together.mean < one.together.mean / 1.05
    assert replace(advice, plans=(one, empty)).chosen == one
    assert replace(advice, plans=(one, empty), reaching_goal=frozenset({"of"})).chosen == empty, "there is no other to recommend"


def test_untried_unit_costs_nothing(advice):
    tried = {name: loss for name, loss in MEASURED.items() if name != "read+sum"}
    one = measured_plan(Candidate("measured", ("count", "sum")), SINGLE, tried, units=UNITS, failover_s=1.0, completeness=0.0)
    assert one.together == Loss("read", (0.0, 0.0))
    assert one.single.parts[-1] == Loss("sum (replica, 1 s)", (0.0, 0.0))


def test_reasons_contain_measurements_without_verdicts():
    views = (view("read", 60.0), view("count", 2.0), view("sum", 0.0))
    choices = [Choice(name, ("a target",)) for name in ("read", "count", "sum", "idle")] + [Choice("echo", (), like="read")]
    because = reasons(Assessment(score_of("out", "sum(x)"), views, (1.0,), 0.0, False), choices)
    assert because["read"].startswith("its loss is critical; an outage of 8 s costs as much as 60 s of output, the largest; ")
    assert because["count"].startswith("its loss is moderate; an outage of 8 s costs as much as 2 s of output, 3% of the largest; ")
    assert because["sum"].startswith("its loss is small; the output stayed within the threshold in every section")
    assert because["idle"] == "nothing of it reaches the scored output on this trace"
    assert because["echo"] == f"it behaves like read, which feeds it alone and keeps nothing; of that: {because['read']}"
    assert not any("Protect" in text or "restart is enough" in text for text in because.values())


def test_equally_large_impacts_name_each_other():
    both = Assessment(score_of("out", "sum(x)"), (view("read", 60.0), view("count", 60.0)), (1.0,), 0.0, False)
    because = reasons(both, [Choice(name, ("a target",)) for name in ("read", "count")])
    assert because["read"].startswith(
        "its loss is critical; an outage of 8 s costs as much as 60 s of output, the largest, as is that of count; "
    )


def view(case, impact):
    """A case whose output was wrong for eight sections."""
    ones = np.ones(8)
    offset = OffsetView(1000, (0.5,), ones + impact / len(ones), ones, 0, ones * 0.5, 8, impact)
    return CaseView(case, ((8.0, "peak"),), (4000,), 1.0, Dependency(0.1, True, 0.9), 8, impact, (offset,), ((0.5,),), 1, (0.5,))


def test_completeness_names_the_requested_value(advice):
    assert advice.completeness == "an internal completeness of 0.25"
    asked = replace(advice, goal_ic=0.2)
    assert asked.completeness == "an internal completeness of 0.25 (requested: 0.2)"
    assert asked.document()["internal_completeness"] == {"value": 0.25, "goal": 0.2}
    assert [plan["internal_completeness"] for plan in asked.document()["plans"]] == [0.25, 0.25]


def test_spread_over_seeds_is_the_widest_of_all_trials(advice):
    wide = {**advice.single, "sum": Loss("sum", (0.0, 0.0), 0.25)}
    assert replace(advice, single=wide).widest == (0.25, wide["sum"])


def test_one_arrival_order_has_no_spread(advice):
    assert losses_of([view("read", 60.0)])["read"].by_seed is None
    assert advice.widest is None
    assert advice.document()["spread_over_seeds"] is None


def test_document_names_the_trials_of_every_figure(advice):
    document = advice.document()
    assert document["protect"][0]["alone"]["case"] == "count"
    assert document["single_failures"]["with"]["cases"] == ["count (replica, 1 s)", "read", "sum"]
    assert document["correlated_failures"] == {"mean": 3.0, "least": 2.0, "greatest": 4.0, "case": "read+sum"}
    assert document["cost"] == {"replicas": 4, "cpu_s_per_s": pytest.approx(0.3), "share_of_full": pytest.approx(0.75)}


def test_no_next_unit_when_all_are_protected(advice):
    one = weighed("measured", *UNITS)
    assert replace(advice, plans=(one,)).next_unit() is None
