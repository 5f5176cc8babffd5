"""What is recommended, given what was measured."""

from dataclasses import replace

import pytest

from holdfast.advise.advice import Advice, weigh
from holdfast.advise.budget import Budget
from holdfast.advise.candidate import Candidate
from holdfast.advise.loss import Expected, Loss, alone, protected_case, single_failures, together_case
from holdfast.assess.target import Choice

EVERYTHING = ("read", "count", "sum")
SINGLE = {"read": Loss("read", (2.0, 4.0)), "count": Loss("count", (60.0, 30.0)), "sum": Loss("sum", (0.0, 0.0))}
MEASURED = {
    "count (replica, 1 s)": Loss("count (replica, 1 s)", (1.0, 0.5)),
    "read (replica, 1 s)": Loss("read (replica, 1 s)", (0.0, 0.0)),
    "read+sum": Loss("read+sum", (2.0, 4.0)),
    "count+sum": Loss("count+sum", (61.0, 31.0)),
}


def weighed(objective, *protected):
    return weigh(Candidate(objective, protected), SINGLE, MEASURED, EVERYTHING, failover_s=1.0)


@pytest.fixture
def advice():
    return Advice(
        application="line",
        budget=Budget(replicas=1),
        outage_s=8.0,
        failover_s=1.0,
        single=SINGLE,
        weighed=(weighed("measured", "count"), weighed("of", "read")),
        why=dict.fromkeys(EVERYTHING, "because"),
        cpu={"read": 0.1, "count": 0.3, "sum": 0.0},
        tasks={"read": 1, "count": 4, "sum": 1},
        kept=frozenset({"measured", "of"}),
        failing_over={"count": MEASURED["count (replica, 1 s)"], "read": Loss("read (replica, 1 s)", (0.5, 0.7), 0.1)},
    )


def test_cases_have_the_names_under_which_they_are_tried():
    assert protected_case("count", failover_s=1.0).name == "count (replica, 1 s)"
    assert together_case(("read", "sum"), EVERYTHING, failover_s=1.0).name == "read+sum"
    assert together_case((), EVERYTHING, failover_s=1.0).name == "read+count+sum (replica, 1 s)"


def test_an_operator_that_behaves_like_another_costs_as_much():
    choices = [Choice("read", ("a source",)), Choice("clean", (), like="read"), Choice("idle", ("reads two streams",))]
    found = alone(choices, {"read": SINGLE["read"]})
    assert found == {"read": SINGLE["read"], "clean": SINGLE["read"], "idle": Loss("idle", (0.0, 0.0))}


def test_what_is_expected_is_the_mean_over_failures_and_its_spread_that_over_offsets():
    expected = single_failures(SINGLE, MEASURED, ["count"], failover_s=1.0)
    assert (expected.least, expected.mean, expected.greatest) == pytest.approx((1.0, 1.25, 1.5))
    assert Expected.over(SINGLE.values()).mean == pytest.approx((62 / 3 + 34 / 3) / 2)


def test_the_plan_that_loses_least_is_chosen(advice):
    assert advice.chosen.candidate == Candidate("measured", ("count",))
    assert advice.left == pytest.approx(1.25 / 16.0)
    assert advice.ranking == ("count", "read", "sum")


def test_the_next_unit_goes_to_the_costliest_that_is_left(advice):
    following = advice.next_unit()
    assert (following.operator, following.after.case) == ("read", "read (replica, 1 s)")
    assert following.left == pytest.approx((1.25 - (3.0 - 0.6) / 3) / 16.0)
    assert following.cpu == pytest.approx(0.25)


def test_a_plan_that_does_not_keep_what_was_asked_for_is_not_chosen(advice):
    assert replace(advice, kept=frozenset({"of"})).chosen.candidate == Candidate("of", ("read",))


def test_the_spread_over_seeds_is_the_widest_of_the_trials_behind_the_plan(advice):
    wide = {**advice.single, "sum": Loss("sum", (0.0, 0.0), 0.25)}
    assert advice.widest.by_seed == 0.0
    assert replace(advice, single=wide).widest == wide["sum"]


def test_the_document_names_the_trials_behind_every_figure(advice):
    document = advice.document()
    assert document["protect"][0]["alone"]["case"] == "count"
    assert document["single_failures"]["with"]["cases"] == ["count (replica, 1 s)", "read", "sum"]
    assert document["correlated_failures"] == {"mean": 3.0, "least": 2.0, "greatest": 4.0, "case": "read+sum"}
    assert document["cost"] == {"replicas": 4, "cpu_s_per_s": pytest.approx(0.3), "share_of_full": pytest.approx(0.75)}


def test_nothing_is_left_to_buy_when_all_are_protected():
    held = Candidate("measured", EVERYTHING)
    all_of_it = {protected_case(name, failover_s=1.0).name: Loss(name, (0.0, 0.0)) for name in EVERYTHING}
    all_of_it["read+count+sum (replica, 1 s)"] = Loss("all", (0.0, 0.0))
    one = weigh(held, SINGLE, all_of_it, EVERYTHING, failover_s=1.0)
    kept = frozenset({"measured"})
    assert Advice("line", Budget(replicas=3), 8.0, 1.0, SINGLE, (one,), {}, {}, {}, kept, {}).next_unit() is None
