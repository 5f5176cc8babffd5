"""The findings of DEBS'11 hold with the paper's figures and fail with opposite ones."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from holdfast.app.load import load_app
from holdfast.assess.assessment import Assessment, CaseView, OffsetView
from holdfast.assess.campaign import Campaign
from holdfast.assess.campaign_folder import Results
from holdfast.assess.case import Case, OutageLocator, Tempo
from holdfast.assess.metrics import Dependency
from holdfast.assess.outcome import TrialOutcome
from holdfast.assess.output_score import score_of
from holdfast.errors import HoldfastError
from holdfast_papers.debs11.command import debs11, papers_offsets
from holdfast_papers.debs11.findings import TABLE_2, findings, table_rows

EXAMPLES = Path(__file__).parents[4] / "examples"


@pytest.fixture(scope="module")
def graph():
    return load_app(EXAMPLES / "bargain_discovery.py").graph()


def view(name, c, sigma, anova, r, i, *, most=1.2, quality=(1.1, 1.2)):
    offset = OffsetView(
        offset=0,
        quality=quality,
        local_faulty=np.array([most, 1.0]),
        local_golden=np.array([1.0, 1.0]),
        begin=0,
        errors=np.zeros(2),
        recovery=r,
        impact=i,
    )
    return CaseView(
        case=name,
        outages=((1.0, "peak"), (2.0, "peak")),
        tuples=(1, 2),
        outage_impact=c,
        dependency=Dependency(sigma, anova == "A", 0.5),
        recovery=r,
        impact=i,
        offsets=(offset,),
        repeated=((1.0,),),
        outage_sections=7,
        shares=(0.5,),
    )


def paper():
    special = {"market": {"most": 1.59, "quality": (1.1, 0.8)}, "vwap": {"most": 2.13}}
    views = [view(name, *figures[1:], **special.get(name, {})) for name, figures in TABLE_2.items()]
    views.append(view("protected", 0.9, 0.1, "A", 2, 2.0))
    scores = [score_of("out", text) for text in ("sum(gain)", "avg(gain)", "count(*)")]
    return [Assessment(score, tuple(views), (1.0,), 0.0, False) for score in scores]


def test_every_finding_holds_on_the_papers_figures(graph):
    results = findings(paper(), graph, "protected")
    assert len(results) == 12
    assert [finding.name for finding in results if not finding.holds] == []


@pytest.mark.parametrize(
    ("case", "change", "broken"),
    [
        ("trade_filter", {"impact": 1.0}, "TradeFilter has the largest quality impact"),
        ("quote_filter", {"impact": 20.0}, "QuoteFilter has the smallest quality impact"),
        ("quote_filter", {"outage_impact": -0.9}, "QuoteFilter's correlation is -1.00"),
        ("quote_filter", {"dependency": Dependency(0.2, False, 0.0)}, "QuoteFilter's data dependency is (0.00, accepted)"),
        ("vwap", {"outage_impact": 0.5}, "TradeFilter and VWAP correlate above 0.9 with the outage"),
        ("market", {"recovery": 10}, "Source and TradeFilter share the longest recovery time"),
        ("protected", {"recovery": 200}, "replicating {TradeFilter, Aggregator, VWAP} cuts impact and recovery time"),
        ("trade_filter", {"impact": 7.0}, "position in the graph does not predict criticality"),
        ("market", {"offsets": view("market", *TABLE_2["market"][1:]).offsets}, "Source changes sign with the outage"),
        ("vwap", {"offsets": view("vwap", *TABLE_2["vwap"][1:], most=1.5).offsets}, "VWAP overestimates more than Source"),
        ("vwap", {"recovery": 340}, "VWAP recovers faster than Source"),
    ],
)
def test_finding_fails_when_its_figures_change(graph, case, change, broken):
    changed = [replace(one, cases=tuple(replace(v, **change) if v.case == case else v for v in one.cases)) for one in paper()]
    failed = [finding.name for finding in findings(changed, graph, "protected") if not finding.holds]
    assert any(name.startswith(broken) for name in failed)


def test_scores_must_agree_on_the_worst_operator(graph):
    first, second, third = paper()
    other = replace(third, cases=tuple(replace(v, impact=99.0) if v.case == "vwap" else v for v in third.cases))
    failed = [finding for finding in findings([first, second, other], graph, "protected") if not finding.holds]
    assert [finding.name for finding in failed] == ["sum, mean and count as score rank operators alike"]
    assert "count(*): vwap > " in failed[0].ours


@pytest.mark.parametrize(
    ("impacts", "alike"),
    [({"market": 31.0}, True), ({"market": 40.0, "bargain_index": 35.0}, False)],
)
def test_scores_rank_alike_if_only_neighbours_swap(graph, impacts, alike):
    first, second, third = paper()
    other = replace(third, cases=tuple(replace(v, impact=impacts.get(v.case, v.impact)) for v in third.cases))
    by_name = {finding.name: finding.holds for finding in findings([first, second, other], graph, "protected")}
    assert by_name["sum, mean and count as score rank operators alike"] is alike


@pytest.mark.parametrize(("recovery", "shared"), [(330, True), (300, False)])
def test_nearly_equal_recovery_times_count_as_shared(graph, recovery, shared):
    changed = [
        replace(one, cases=tuple(replace(v, recovery=recovery) if v.case == "market" else v for v in one.cases)) for one in paper()
    ]
    by_name = {finding.name: finding.holds for finding in findings(changed, graph, "protected")}
    assert by_name["Source and TradeFilter share the longest recovery time"] is shared


def test_offset_that_turns_to_underestimation_is_shown_first(graph):
    first, *others = paper()
    source = first.case("market")
    rising, falling = (replace(source.offsets[0], offset=offset, quality=q) for offset, q in ((1, (0.9, 1.2)), (2, (1.1, 0.7))))
    cases = tuple(replace(v, offsets=(rising, falling)) if v.case == "market" else v for v in first.cases)
    by_name = {finding.name: finding for finding in findings([replace(first, cases=cases), *others], graph, "protected")}
    assert by_name["Source changes sign with the outage"].holds
    assert (
        "quality at offset 2, from the shortest outage to the longest: 1.100, 0.700"
        in by_name["Source changes sign with the outage"].ours
    )


def test_quoted_paper_values_match_table_2(graph):
    by_name = {finding.name: finding for finding in findings(paper(), graph, "protected")}
    same = [name for name, finding in by_name.items() if finding.paper == finding.ours]
    assert same == [
        "QuoteFilter's correlation is -1.00",
        "QuoteFilter's data dependency is (0.00, accepted)",
        "TradeFilter and VWAP correlate above 0.9 with the outage",
        "VWAP recovers faster than Source",
    ]
    assert by_name["TradeFilter has the largest quality impact"].paper == (
        "TradeFilter 48.70 > VWAP 30.87 > Source 21.23 > BargainIndex 7.89 > QuoteFilter 6.00"
    )
    assert by_name["Source and TradeFilter share the longest recovery time"].paper.startswith(
        "Source 340, TradeFilter 340, VWAP 73"
    )
    assert "differ 8.1 times" in by_name["position in the graph does not predict criticality"].ours


@pytest.mark.parametrize(("tuples", "offsets"), [(10, (10, 30, 50, 70, 90)), (11, (9, 27, 45, 62, 81)), (60, (4, 12, 20, 28, 36))])
def test_offsets_are_the_papers_unless_the_trace_is_short(graph, tuples, offsets):
    locator = OutageLocator(np.arange(100), {"market": np.arange(100)}, Tempo(1.0, 1.0))
    assert papers_offsets(graph, locator, {Case(("market",)): tuples}) == offsets


def test_table_has_the_papers_values_and_ours():
    row = next(row for row in table_rows(paper()[0]) if row[0].startswith("VWAP"))
    assert row == ("VWAP (vwap)", "0.99", "0.99", "(0.14, R)", "(0.14, R)", "73", "73", "30.87", "30.87")


def test_invalid_folder_is_reported_before_any_work(tmp_path):
    def refused(*options, out=tmp_path / "out"):
        run = CliRunner().invoke(debs11, ["--out", str(out), *options])
        assert isinstance(run.exception, HoldfastError) and run.stderr == ""
        return str(run.exception)

    assert "there must be at least as many golden runs as repetitions (5), got 2" in refused("--golden", "2")
    assert "none.parquet' does not exist" in refused("--trace", str(tmp_path / "none.parquet"))
    (tmp_path / "file").write_text("")
    assert "cannot be created, because" in refused(out=tmp_path / "file")
    other = Campaign(subject={"trace": "other"}, cases=(Case(("market",)),), offsets=(1,), scores=("count(*)",), sink="bargains")
    results = Results(tmp_path / "out" / "campaign", other)
    results.add([(next(other.trials()), TrialOutcome(np.array([0]), {"count(*)": np.array([1.0])}))])
    message = refused("--seed", "2")
    assert "holds the results of another campaign: its seed 1, now 2" in message
    assert 'its trace "other", now "market-5000000-2.parquet"' in message
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["campaign"]
