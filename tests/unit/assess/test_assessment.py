"""Metrics of a campaign that is small enough to compute by hand."""

import pytest

from holdfast.assess.advice import advise
from holdfast.assess.assessment import assess
from holdfast.errors import HoldfastError
from holdfast.report.assessment import metric_row

from .computed_campaign import SECTIONS, campaign, facts, golden, outcomes


def test_metrics_equal_values_computed_by_hand():
    first = assess(campaign(), facts(), golden(), outcomes().items)[0]
    loud, quiet = first.case("loud"), first.case("quiet")
    assert loud.offsets[0].quality == (1 + 300 / 400, 1 + 600 / 400)
    assert quiet.offsets[0].quality == (0.75, 0.5)
    assert (loud.outage_impact, quiet.outage_impact) == (1.0, -1.0)
    assert loud.offsets[0].errors.tolist() == [1.5] * 4 + [0.0] * 6
    assert (loud.recovery, quiet.recovery) == (4, 2)
    assert (loud.impact, quiet.impact) == (4 * 1.5**2, 2.0)
    assert str(quiet.dependency) == "(0.00, A)"
    assert [view.case for view in first.ranking] == ["loud", "quiet", "loud+quiet (replica, 1 s)"]


@pytest.mark.parametrize("known", [facts()["affected"], None])
def test_lost_output_does_not_depend_on_the_affected_stretch(known):
    totals, counts = assess(campaign(), facts(affected=known), golden(), outcomes().items)
    assert [totals.case(name).lost() for name in ("loud", "quiet")] == pytest.approx([600 / 2000, 200 / 2000])
    assert counts.case("loud").lost() == 0.0


def test_lost_output_of_an_average_counts_rows():
    averages = campaign(scores=("avg(x)",))
    parts = {"sum(x)": [100.0] * SECTIONS, "count(x)": [10.0] * SECTIONS}
    (first,) = assess(averages, facts(), {"runs": [parts, parts]}, outcomes(averages).items)
    assert first.case("loud").shares == pytest.approx((40 / 200, 40 / 200))
    assert first.case("loud").lost() == pytest.approx(600 / 400 * 40 / 200)


def test_first_seq_does_not_change_the_assessment():
    far = 1_700_000_000_000
    moved = facts(origin=far, firsts={"1000": far + 1000, "1500": far + 1500})
    for there, here in zip(
        assess(campaign(), moved, golden(), outcomes().items), assess(campaign(), facts(), golden(), outcomes().items), strict=True
    ):
        assert [metric_row(view) for view in there.cases] == [metric_row(view) for view in here.cases]


def test_unchanged_score_has_no_impact():
    second = assess(campaign(), facts(), golden(), outcomes().items)[1]
    assert {view.impact for view in second.cases} == {0.0}
    assert advise(second, second.cases[0]).verdict == "nothing to protect"


def test_affected_stretch_ends_with_the_last_changed_section():
    first = assess(campaign(), facts(affected=None), golden(), outcomes().items)[0]
    assert first.case("quiet").offsets[0].quality == (0.5, 0.0)
    assert first.case("loud").offsets[0].quality == (1 + 300 / 400, 1 + 600 / 400)


def test_campaign_can_give_the_affected_tuples():
    wide = campaign(affected=400)
    first = assess(wide, facts(affected=None, lasts={"1000": 1399, "1500": 1899}), golden(), outcomes(wide).items)[0]
    assert first.case("quiet").offsets[0].quality == (0.75, 0.5)


def test_unfinished_campaign_is_not_assessed():
    some = outcomes()
    some.popitem()
    with pytest.raises(HoldfastError, match="1 of 24 trials have no outcome yet, such as loud"):
        assess(campaign(), facts(), golden(), some.items)
