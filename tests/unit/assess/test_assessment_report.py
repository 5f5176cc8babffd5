"""The report of an assessment: page, JSON and CSV."""

import json

import numpy as np
import pytest

from holdfast.assess.assessment import assess
from holdfast.assess.case import Case
from holdfast.report.assessment import assessment_csv, assessment_document, assessment_json, assessment_page

from .computed_campaign import CHOICES, SECTIONS, campaign, facts, golden, outcomes


def test_page_warns_of_a_wide_spread_of_golden_runs():
    runs = golden()
    runs["runs"][1] = {"sum(x)": [110.0] * SECTIONS, "count(x)": [10.0] * SECTIONS}
    first = assess(campaign(), facts(), runs, outcomes().items)[0]
    assert first.spread == pytest.approx(0.0673, abs=1e-3)
    assert first.spread_warning
    page = assessment_page(campaign(), facts(), [first], CHOICES)
    assert "Warning: sum(x) varies by 6.7% between golden runs, more than the threshold of 3%" in page
    beside = assessment_page(campaign(), facts(), assess(campaign(), facts(), runs, outcomes().items)[::-1], CHOICES)
    assert "Warning: sum(x) varies by 6.7%" in beside and "Warning: count(x)" not in beside


def test_page_lists_tried_operators_and_their_substitutes():
    some = campaign(cases=(Case(("loud",)), Case(("loud", "quiet"))))
    about = facts(tuples={"loud": {"1 peak": 1, "2 peak": 2}, "loud+quiet": {"1 peak": 1, "2 peak": 2}}, affected=None)
    first = assess(some, about, golden(), outcomes(some).items)[:1]
    page = assessment_page(some, about, first, CHOICES)
    rows = [("loud", "yes"), ("quiet", "no"), ("calm", "as loud"), ("loud+quiet", "yes")]
    for name, tried in rows:
        assert f'<td data-column="operator">{name}</td><td class=name data-column="tried">{tried}</td>' in page
    document = assessment_document(some, about, first, CHOICES)
    assert {choice["name"]: choice["tried"] for choice in document["choices"]} == {"loud": True, "quiet": False, "calm": False}


def test_nearly_equal_outages_keep_their_own_names():
    close = campaign(cases=(Case(("quiet",)),), outages_s=(1.0000001, 1.0000002))
    about = facts(tuples={"quiet": {"1.0000001 peak": 100, "1.0000002 peak": 101}}, affected=None)
    first = assess(close, about, golden(), outcomes(close).items)[0]
    assert first.case("quiet").tuples == (100, 101)
    assert [line.split(",")[3] for line in assessment_csv([first]).splitlines()[1:3]] == ["1.0000001", "1.0000002"]
    assert "Outages (s): 1.0000001, 1.0000002, at the peak rate" in assessment_page(close, about, [first], CHOICES)


def test_local_plot_marks_and_explains_recovery():
    first = assess(campaign(), facts(), golden(), outcomes().items)[0]
    page = assessment_page(campaign(), facts(), [first], CHOICES)
    plots = page.partition("Local quality after the longest outage")[2].partition("How the damage")[0]
    assert [plots.count(f">R = {sections}<") for sections in (4, 2, 1)] == [1, 1, 1]
    assert "offset 1,000: I\xa0=\xa09.00" in plots  # a long title breaks elsewhere
    assert "The dashed line marks the recovery R at this offset: by then 90% of the sections outside the band" in plots


def test_zero_golden_score_has_no_quality():
    none = {"runs": [{"sum(x)": [0.0] * SECTIONS, "count(x)": [0.0] * SECTIONS}] * 2}
    about = facts(affected=None)
    first = assess(campaign(), about, none, outcomes().items)[0]
    assert np.isnan(first.case("loud").offsets[0].quality).all()
    assert (first.case("loud").outage_impact, str(first.case("loud").dependency)) == (0.0, "(0.00, A)")
    assert first.case("loud").recovery == 4  # errors count as 1 where golden scores nothing anywhere
    document = json.loads(assessment_json(assessment_document(campaign(), about, [first], CHOICES)))
    assert document["scores"][0]["cases"][0]["offsets"][0]["quality"] == [None, None]
    page = assessment_page(campaign(), about, [first], CHOICES)
    assert "f(x)" not in page and ">nan<" not in page


def test_page_states_the_spread_of_golden_runs():
    def message(about, runs):
        return assessment_page(campaign(), about, assess(campaign(), about, {"runs": runs}, outcomes().items)[:1], CHOICES)

    run = golden()["runs"][0]
    other = {"sum(x)": [101.0] * SECTIONS, "count(x)": [10.0] * SECTIONS}
    assert "over 2 golden runs sum(x) varies by 0.007 of its mean" in message(facts(), [run, other])
    assert "one golden run does not show how much the score varies" in message(facts(), [run])
    assert "Every run of this application gives the same output" in message(facts(deterministic=True), [run])


def test_page_plots_growth_of_the_most_critical_case():
    twice = [*outcomes().items(), *outcomes().items()]
    first, second = assess(campaign(), facts(), golden(), lambda: iter(twice))
    assert [(outage_s, view.recovery, view.impact) for outage_s, view in first.growth] == [(1.0, 2, 4.5), (2.0, 4, 9.0)]
    assert first.growth[-1][1].errors.tolist() == first.case("loud").worst.errors.tolist()
    assert second.growth == ()
    page = assessment_page(campaign(), facts(), [first], CHOICES)
    assert "How the damage of loud grows with the outage" in page


def test_summary_covers_one_target_and_no_damage():
    alone = campaign(cases=(Case(("loud",)),))
    first, second = assess(alone, facts(), golden(), outcomes(alone).items)
    one, none = (assessment_page(alone, facts(), [each], CHOICES) for each in (first, second))
    assert "scored by sum(x). loud costs as much as 12 (12 to 12) s of output (8 s to recover)." in one
    assert "scored by count(x). No section of the output left the threshold." in none


def test_page_names_the_injected_fault():
    twice = campaign(fault={"kind": "duplication", "share": 0.5})
    page = assessment_page(twice, facts(), assess(twice, facts(), golden(), outcomes(twice).items), CHOICES)
    assert "<h1>What duplication at an operator costs shop</h1>" in page
    assert "24 injections of duplication (share 0.5) into 2 targets" in page
    assert (
        "Duplication at loud hurts most: it costs as much as 12 (12 to 12) s of output (8 s to recover). "
        "Duplication at quiet hurts least" in page
    )


def test_json_csv_and_page_agree():
    assessments = assess(campaign(), facts(), golden(), outcomes().items)
    document = json.loads(assessment_json(assessment_document(campaign(), facts(), assessments, CHOICES)))
    assert document["scores"][0]["ranking"] == ["loud", "quiet"]
    assert document["scores"][0]["cases"][0]["impact"] == 9.0
    assert document["scores"][0]["cases"][0]["shared_by"] == ["calm"]
    assert document["scores"][0]["cases"][0]["settled"] is True
    assert document["scores"][0]["what_if"][0] == {
        "failing": "loud",
        "group": "loud+quiet",
        "failover_s": 1.0,
        "impact_before": 9.0,
        "impact_after": pytest.approx(0.04),
        "recovery_before": 4,
        "recovery_after": 1,
    }
    lines = assessment_csv(assessments).splitlines()
    assert len(lines) == 1 + 2 * 3 * 2 * 2
    assert lines[1] == "sum(x),loud,1000,1,peak,100,1.75,1.0,0.0,True,4,9.0"
    page = assessment_page(campaign(), facts(), assessments, CHOICES)
    assert "Losing loud hurts most: it costs as much as 12 (12 to 12) s of output (8 s to recover)" in page
    assert "24 injections of loss into 2 targets and 1 replicated group over 2,000 source tuples" in page
    assert page.count("<svg") == 3 + 1 + 3 + 2
    assert "behaves like loud" in page
    assert "The same goes for calm, which behaves alike." in page
    assert page.count("critical, so protect it first") == 1
