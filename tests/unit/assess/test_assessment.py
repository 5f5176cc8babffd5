"""From outcomes to verdicts, on a campaign small enough to work out by hand."""

import json

import numpy as np
import pytest

from holdfast.assess.advice import advise
from holdfast.assess.assessment import assess
from holdfast.assess.campaign import Campaign
from holdfast.assess.case import Case
from holdfast.assess.outcome import TrialOutcome
from holdfast.assess.targets import Choice
from holdfast.errors import HoldfastError
from holdfast.report.assessment import assessment_csv, assessment_document, assessment_json, assessment_page, metric_row

SECTIONS = 20
CHOICES = (Choice("loud", ("it is a source",)), Choice("quiet", ("it reads 2 streams",)), Choice("calm", (), like="loud"))


def campaign(**changes):
    values = {
        "subject": {"application": "shop"},
        "cases": (Case(("loud",)), Case(("quiet",)), Case(("loud", "quiet"), 1.0)),
        "offsets": (1000, 1500),
        "outages_s": (1.0, 2.0),
        "paces": ("peak",),
        "repetitions": 2,
        "golden_runs": 2,
        "scores": ("sum(x)", "count(x)"),
        "sink": "out",
        "section": 100,
    }
    return Campaign(**values | changes)


def facts(**changes):
    names = [case.name for case in campaign().cases]
    values = {
        "sections": SECTIONS,
        "origin": 0,
        "deterministic": False,
        "why_slow": None,
        "source": {"tuples": 2000, "average": 50.0, "peak": 100.0},
        "rates": {name: {"average": 50.0, "peak": 100.0} for name in names},
        "tuples": {name: {"1 peak": 100, "2 peak": 200} for name in names},
        "firsts": {"1000": 1000, "1500": 1500},
        "affected": {name: {o: [{"sum(x)": 400.0, "count(x)": 40.0}] * 2 for o in ("1000", "1500")} for name in names},
    }
    return values | changes


def golden():
    run = {"sum(x)": [100.0] * SECTIONS, "count(x)": [10.0] * SECTIONS}
    return {"runs": [run, run]}


def outcomes(of=None):
    """loud: from its offset on 2 or 4 sections score 150 too much. quiet: 1 or 2 sections are lost."""
    found = {}
    for trial in (of or campaign()).trials():
        begin, length = trial.offset // 100, int(trial.outage_s)
        if trial.case == "loud":
            sections, size = np.arange(begin, begin + 2 * length), 150.0
        else:
            sections, size = np.arange(begin, begin + length), -100.0
        if "replica" in trial.case:
            sections, size = sections[:1], 20.0
        differences = {"sum(x)": np.full(len(sections), size), "count(x)": np.zeros(len(sections))}
        found[trial] = TrialOutcome(sections, differences)
    return found


def test_the_metrics_of_a_campaign_worked_out_by_hand():
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
def test_what_an_outage_costs_is_the_same_over_whatever_stretch_its_quality_is_taken(known):
    totals, counts = assess(campaign(), facts(affected=known), golden(), outcomes().items)
    assert [totals.case(name).lost() for name in ("loud", "quiet")] == pytest.approx([600 / 2000, 200 / 2000])
    assert counts.case("loud").lost() == 0.0


def test_what_an_outage_costs_an_average_counts_the_rows_that_were_averaged():
    averages = campaign(scores=("avg(x)",))
    parts = {"sum(x)": [100.0] * SECTIONS, "count(x)": [10.0] * SECTIONS}
    (first,) = assess(averages, facts(), {"runs": [parts, parts]}, outcomes(averages).items)
    assert first.case("loud").shares == pytest.approx((40 / 200, 40 / 200))
    assert first.case("loud").lost() == pytest.approx(600 / 400 * 40 / 200)


def test_where_the_seqs_begin_does_not_matter():
    far = 1_700_000_000_000
    moved = facts(origin=far, firsts={"1000": far + 1000, "1500": far + 1500})
    for there, here in zip(
        assess(campaign(), moved, golden(), outcomes().items), assess(campaign(), facts(), golden(), outcomes().items), strict=True
    ):
        assert [metric_row(view) for view in there.cases] == [metric_row(view) for view in here.cases]


def test_a_score_that_nothing_changes_shows_no_impact():
    second = assess(campaign(), facts(), golden(), outcomes().items)[1]
    assert {view.impact for view in second.cases} == {0.0}
    assert advise(second, second.cases[0]).verdict == "nothing to protect"


def test_without_known_rows_the_affected_section_ends_with_the_last_that_changed():
    first = assess(campaign(), facts(affected=None), golden(), outcomes().items)[0]
    assert first.case("quiet").offsets[0].quality == (0.5, 0.0)
    assert first.case("loud").offsets[0].quality == (1 + 300 / 400, 1 + 600 / 400)


def test_the_application_may_say_how_much_is_affected():
    wide = campaign(affected=400)
    first = assess(wide, facts(affected=None, lasts={"1000": 1399, "1500": 1899}), golden(), outcomes(wide).items)[0]
    assert first.case("quiet").offsets[0].quality == (0.75, 0.5)


def test_advice_names_the_metric_that_decides():
    first = assess(campaign(), facts(), golden(), outcomes().items)[0]
    loud, quiet = (advise(first, first.case(name)) for name in ("loud", "quiet"))
    assert loud.verdict == "protect"
    assert "its quality impact of 9.00 at the worst offset is the largest" in str(loud)
    assert "the longer it is out the more quality rises above the truth (correlation 1.00)" in str(loud)
    assert quiet.verdict == "candidate"
    assert "the output is right again as soon as it is back (after 2 sections)" in str(quiet)


def test_advice_says_so_where_sections_are_too_long_for_an_outage_to_show():
    hidden, clear = (
        assess(campaign(), facts(source={"tuples": 2000, "average": 20.0, "peak": peak}), golden(), outcomes().items)[1]
        for peak in (50.0, 100.0)
    )
    assert "a section is longer than the longest outage, and shorter ones (--section)" in str(advise(hidden, hidden.cases[0]))
    assert "--section" not in str(advise(clear, clear.cases[0]))


@pytest.mark.parametrize("peak", [20.0, 100.0])
@pytest.mark.parametrize("score", [0, 1])
def test_verdicts_do_not_depend_on_gaps_between_seqs(peak, score):
    source = {"tuples": 2000, "seqs": 2000, "average": 20.0, "peak": peak}
    close = assess(campaign(), facts(source=source), golden(), outcomes().items)[score]
    gaps = facts(source=source | {"seqs": 200_000}, firsts={"1000": 100_000, "1500": 150_000})
    wide = assess(campaign(section=10_000), gaps, golden(), outcomes().items)[score]
    assert [view.outage_sections for view in wide.cases] == [view.outage_sections for view in close.cases]
    assert [str(advise(wide, view)) for view in wide.cases] == [str(advise(close, view)) for view in close.cases]


def test_advice_says_so_where_an_impact_comes_from_sections_that_are_next_to_empty():
    thin = golden()
    for run in thin["runs"]:
        run["sum(x)"] = [100.0] * 11 + [0.1] + [100.0] * (SECTIONS - 12)
    first = assess(campaign(), facts(), thin, outcomes().items)[0]
    said = str(advise(first, first.case("loud")))
    assert "its quality impact of 2,250,006.75 at the worst offset is the largest" in said
    assert "100% of that is 1 section in which golden scores next to nothing" in said
    quiet = str(advise(first, first.case("loud+quiet (replica, 1 s)")))
    assert "is less than 1% of the largest" in quiet and "next to nothing" not in quiet


def test_golden_runs_that_differ_too_much_are_warned_about():
    runs = golden()
    runs["runs"][1] = {"sum(x)": [110.0] * SECTIONS, "count(x)": [10.0] * SECTIONS}
    first = assess(campaign(), facts(), runs, outcomes().items)[0]
    assert first.spread == pytest.approx(0.0673, abs=1e-3)
    assert first.spread_warning
    page = assessment_page(campaign(), facts(), [first], CHOICES)
    assert "Careful: sum(x) varies by 6.7% between golden runs, more than the threshold of 3%" in page
    beside = assessment_page(campaign(), facts(), assess(campaign(), facts(), runs, outcomes().items)[::-1], CHOICES)
    assert "Careful: sum(x) varies by 6.7%" in beside and "Careful: count(x)" not in beside


def test_the_page_says_who_was_tried_and_in_whose_stead():
    some = campaign(cases=(Case(("loud",)), Case(("loud", "quiet"))))
    about = facts(tuples={"loud": {"1 peak": 1, "2 peak": 2}, "loud+quiet": {"1 peak": 1, "2 peak": 2}}, affected=None)
    first = assess(some, about, golden(), outcomes(some).items)[:1]
    page = assessment_page(some, about, first, CHOICES)
    rows = [("loud", "yes"), ("quiet", "no"), ("calm", "as loud"), ("loud+quiet", "yes")]
    for name, tried in rows:
        assert f'<td data-column="operator">{name}</td><td class=name data-column="tried">{tried}</td>' in page
    document = assessment_document(some, about, first, CHOICES)
    assert {choice["name"]: choice["tried"] for choice in document["choices"]} == {"loud": True, "quiet": False, "calm": False}


def test_outages_that_six_digits_do_not_tell_apart_keep_their_own_tuples_and_names():
    close = campaign(cases=(Case(("quiet",)),), outages_s=(1.0000001, 1.0000002))
    about = facts(tuples={"quiet": {"1.0000001 peak": 100, "1.0000002 peak": 101}}, affected=None)
    first = assess(close, about, golden(), outcomes(close).items)[0]
    assert first.case("quiet").tuples == (100, 101)
    assert [line.split(",")[3] for line in assessment_csv([first]).splitlines()[1:3]] == ["1.0000001", "1.0000002"]
    assert "Outages (s): 1.0000001, 1.0000002, at the peak rate" in assessment_page(close, about, [first], CHOICES)


def test_the_recovery_mark_of_local_quality_says_its_value_and_the_page_what_it_means():
    first = assess(campaign(), facts(), golden(), outcomes().items)[0]
    page = assessment_page(campaign(), facts(), [first], CHOICES)
    plots = page.partition("Local quality after the longest outage")[2].partition("How the damage")[0]
    assert [plots.count(f">R = {sections}<") for sections in (4, 2, 1)] == [1, 1, 1]
    assert "offset 1,000: I\xa0=\xa09.00" in plots  # a long title breaks elsewhere
    assert "The dashed line marks the recovery R at this offset: by then 90% of the sections outside the band" in plots


def test_a_golden_score_of_zero_leaves_quality_open_and_is_shown_so():
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


def test_the_page_says_how_steady_the_score_is_without_a_fault():
    def said(about, runs):
        return assessment_page(campaign(), about, assess(campaign(), about, {"runs": runs}, outcomes().items)[:1], CHOICES)

    run = golden()["runs"][0]
    other = {"sum(x)": [101.0] * SECTIONS, "count(x)": [10.0] * SECTIONS}
    assert "over 2 golden runs sum(x) varies by 0.007 of its mean" in said(facts(), [run, other])
    assert "one golden run does not tell how far the score varies" in said(facts(), [run])
    assert "Every run of this application gives the same output" in said(facts(deterministic=True), [run])


def test_the_most_critical_case_shows_how_its_damage_grows_with_the_outage():
    twice = [*outcomes().items(), *outcomes().items()]
    first, second = assess(campaign(), facts(), golden(), lambda: iter(twice))
    assert [(outage_s, view.recovery, view.impact) for outage_s, view in first.growth] == [(1.0, 2, 4.5), (2.0, 4, 9.0)]
    assert first.growth[-1][1].errors.tolist() == first.case("loud").worst.errors.tolist()
    assert second.growth == ()
    page = assessment_page(campaign(), facts(), [first], CHOICES)
    assert "How the damage of loud grows with the outage" in page


def test_advice_does_not_promise_an_end_of_errors_that_the_trace_did_not_see():
    def lost(at, peak=100.0):
        found = outcomes()
        for trial in found:
            if trial.case == "loud" and trial.offset == at:
                sections = np.arange(at // 100, SECTIONS)
                found[trial] = TrialOutcome(
                    sections, {"sum(x)": np.full(len(sections), 150.0), "count(x)": np.zeros(len(sections))}
                )
        return assess(campaign(), facts(source={"tuples": 2000, "average": 50.0, "peak": peak}), golden(), found.items)[0]

    for at, sections in ((1000, 10), (1500, 5)):
        said = str(advise(lost(at), lost(at).case("loud")))
        assert f"the output had not settled when the trace ended, {sections} sections after the fault at offset {at:,}" in said
        assert "right again" not in said
        assert metric_row(lost(at).case("loud"))[3].endswith("+")
        page = assessment_page(campaign(), facts(), [lost(at)], CHOICES)
        assert "Losing loud hurts most (quality impact" in page and ", not settled when the trace ended), losing quiet" in page
    assert lost(1000, peak=500.0).case("loud").lasting is None  # an outage that fills the rest of the trace
    recovered = assess(campaign(), facts(), golden(), outcomes().items)[0].case("loud")
    assert recovered.lasting is None  # at offset 1,500 it is wrong in 4 of 5 sections, and the last one is right


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ((-100.0, -300.0), "the longer it is out the more quality falls (correlation -1.00), so a quicker restart pays"),
        ((100.0, 300.0), "the longer it is out the more quality rises above the truth (correlation 1.00), so a quicker"),
        ((-300.0, -100.0), "its damage does not simply follow the outage (correlation 1.00)"),
        ((300.0, 100.0), "its damage does not simply follow the outage (correlation -1.00)"),
    ],
)
def test_a_quicker_restart_pays_only_where_longer_outages_do_more_damage(sizes, said):
    found = {
        trial: TrialOutcome(
            np.array([trial.offset // 100]),
            {"sum(x)": np.array([sizes[int(trial.outage_s) - 1]]), "count(x)": np.zeros(1)},
        )
        for trial in campaign().trials()
    }
    first = assess(campaign(), facts(), golden(), found.items)[0]
    assert said in str(advise(first, first.case("quiet")))


def test_the_summary_speaks_of_one_target_alone_and_of_no_damage_as_they_are():
    alone = campaign(cases=(Case(("loud",)),))
    first, second = assess(alone, facts(), golden(), outcomes(alone).items)
    one, none = (assessment_page(alone, facts(), [each], CHOICES) for each in (first, second))
    assert "scored by sum(x). loud has a quality impact of 9.00, 4 sections to recover." in one
    assert "scored by count(x). No section of the output left the threshold." in none


def test_the_page_speaks_of_the_fault_that_was_injected():
    twice = campaign(fault={"kind": "duplication", "share": 0.5})
    page = assessment_page(twice, facts(), assess(twice, facts(), golden(), outcomes(twice).items), CHOICES)
    assert "<h1>What duplication at an operator costs shop</h1>" in page
    assert "24 injections of duplication (share 0.5) into 2 targets" in page
    assert "Duplication at loud hurts most (quality impact 9.00, 4 sections to recover), duplication at quiet least" in page


def test_a_campaign_with_trials_missing_is_not_assessed():
    some = outcomes()
    some.popitem()
    with pytest.raises(HoldfastError, match="1 of 24 trials have no outcome yet, such as loud"):
        assess(campaign(), facts(), golden(), some.items)


def test_json_csv_and_page_say_the_same():
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
    assert "Losing loud hurts most (quality impact 9.00, 4 sections to recover)" in page
    assert "24 injections of loss into 2 targets and 1 replicated group over 2,000 source tuples" in page
    assert page.count("<svg") == 3 + 1 + 3 + 2
    assert "behaves like loud" in page
    assert "The same goes for calm, which behaves alike." in page
    assert page.count("Protect it with a replica.") == 1
