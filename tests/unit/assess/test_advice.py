"""The advice for each operator, from the metrics."""

import numpy as np
import pytest

from holdfast.assess.advice import advise
from holdfast.assess.assessment import assess
from holdfast.assess.outcome import TrialOutcome
from holdfast.report.assessment import assessment_page, metric_row

from .computed_campaign import CHOICES, SECTIONS, campaign, facts, golden, outcomes


def test_advice_names_the_deciding_metric():
    first = assess(campaign(), facts(), golden(), outcomes().items)[0]
    loud, quiet = (advise(first, first.case(name)) for name in ("loud", "quiet"))
    assert loud.verdict == "protect"
    assert "an outage of 2 s costs as much as 12 (12 to 12) s of output, the largest" in str(loud)
    assert "the longer the outage, the more quality rises above the truth (correlation 1.00)" in str(loud)
    assert quiet.verdict == "candidate"
    assert "the output is correct as soon as it resumes (after 4 s, which are 2 sections)" in str(quiet)


def test_advice_warns_of_sections_longer_than_the_outage():
    hidden, clear = (
        assess(campaign(), facts(source={"tuples": 2000, "average": 20.0, "peak": peak}), golden(), outcomes().items)[1]
        for peak in (50.0, 100.0)
    )
    assert "a section is longer than the longest outage: shorter sections (--section)" in str(advise(hidden, hidden.cases[0]))
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


def test_advice_warns_of_impact_from_nearly_empty_sections():
    thin = golden()
    for run in thin["runs"]:
        run["sum(x)"] = [100.0] * 11 + [0.1] + [100.0] * (SECTIONS - 12)
    first = assess(campaign(), facts(), thin, outcomes().items)[0]
    message = str(advise(first, first.case("loud")))
    assert "an outage of 2 s costs as much as 12.7 (4.2 to 21.1) s of output, the largest" in message
    assert "98% of its quality impact is 1 section with almost no golden output" in message
    quiet = str(advise(first, first.case("loud+quiet (replica, 1 s)")))
    assert "costs as much as 0.422 (0.14" in quiet and "almost no golden output" not in quiet


def test_loss_that_hardly_shows_is_called_small():
    result = {
        trial: TrialOutcome(np.array([trial.offset // 100]), {"sum(x)": np.array([-4.0]), "count(x)": np.zeros(1)})
        for trial in campaign().trials()
    }
    first = assess(campaign(), facts(), golden(), result.items)[0]
    advice = advise(first, first.case("quiet"))
    assert advice.verdict == "nothing to protect"
    strict = assess(campaign(small=0.01), facts(), golden(), result.items)[0]
    assert advise(strict, strict.case("quiet")).verdict == "candidate"
    assert "Its loss is small, so a restart is enough: an outage of 2 s costs as much as 0.08 (0.08 to 0.08) s of output" in str(
        advice
    )


def test_advice_promises_no_recovery_after_the_end_of_the_trace():
    def lost(at, peak=100.0):
        result = outcomes()
        for trial in result:
            if trial.case == "loud" and trial.offset == at:
                sections = np.arange(at // 100, SECTIONS)
                result[trial] = TrialOutcome(
                    sections, {"sum(x)": np.full(len(sections), 150.0), "count(x)": np.zeros(len(sections))}
                )
        return assess(campaign(), facts(source={"tuples": 2000, "average": 50.0, "peak": peak}), golden(), result.items)[0]

    for at, sections in ((1000, 10), (1500, 5)):
        message = str(advise(lost(at), lost(at).case("loud")))
        assert f"the output had not settled when the trace ended, {sections} sections after the fault at offset {at:,}" in message
        assert "correct again" not in message
        assert metric_row(lost(at).case("loud"))[3].endswith("+")
        page = assessment_page(campaign(), facts(), [lost(at)], CHOICES)
        assert "Losing loud hurts most: it costs as much as" in page and "(not settled when the trace ended). Losing quiet" in page
    assert lost(1000, peak=500.0).case("loud").lasting is None  # an outage that fills the rest of the trace
    recovered = assess(campaign(), facts(), golden(), outcomes().items)[0].case("loud")
    assert recovered.lasting is None  # at offset 1,500 it is wrong in 4 of 5 sections, and the last one is right


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((-100.0, -300.0), "the longer the outage, the more quality falls (correlation -1.00), so a quicker restart helps"),
        ((100.0, 300.0), "the longer the outage, the more quality rises above the truth (correlation 1.00), so a quicker"),
        ((-300.0, -100.0), "its damage does not grow steadily with the outage (correlation 1.00)"),
        ((300.0, 100.0), "its damage does not grow steadily with the outage (correlation -1.00)"),
    ],
)
def test_quicker_restart_is_advised_only_if_damage_grows(sizes, message):
    result = {
        trial: TrialOutcome(
            np.array([trial.offset // 100]),
            {"sum(x)": np.array([sizes[int(trial.outage_s) - 1]]), "count(x)": np.zeros(1)},
        )
        for trial in campaign().trials()
    }
    first = assess(campaign(), facts(), golden(), result.items)[0]
    assert message in str(advise(first, first.case("quiet")))
