"""Campaigns as values, and the folder that keeps their results."""

import errno
import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.app import App
from holdfast.assess.campaign import Campaign
from holdfast.assess.campaign_folder import Results, read_campaign
from holdfast.assess.case import Case, OutageLocator, Tempo, Trial
from holdfast.assess.golden_runs import load_golden
from holdfast.assess.outcome import TrialOutcome, difference
from holdfast.documents.whole_files import write_whole
from holdfast.errors import CompoundError, HoldfastError


def campaign(**changes):
    values = {
        "subject": {"application": "shop"},
        "cases": (Case(("a",)), Case(("a", "b"), 2.0)),
        "offsets": (10, 20),
        "outages_s": (1.0, 2.0),
        "repetitions": 2,
        "golden_runs": 3,
        "scores": ("count(*)",),
        "sink": "out",
    }
    return Campaign(**values | changes)


def outcome(total):
    return TrialOutcome(np.array([3, 4]), {"count(*)": np.array([total, 0.5])})


def facts(**changes):
    names = [case.name for case in campaign().cases]
    return {
        "sections": 1,
        "origin": 0,
        "deterministic": True,
        "why_slow": None,
        "source": {"tuples": 40, "seqs": 40, "average": 5.0, "peak": 10.0},
        "rates": {name: {"average": 5.0, "peak": 10.0} for name in names},
        "tuples": {name: {"1 average": 5, "2 average": 10, "1 peak": 10, "2 peak": 20} for name in names},
        "firsts": {"10": 10, "20": 20},
        "affected": None,
    } | changes


def test_a_campaign_has_every_combination_once():
    trials = list(campaign().trials())
    assert len(trials) == len(set(trials)) == campaign().size == 2 * 2 * 2 * 2 * 2


def test_a_campaign_survives_json_and_keeps_its_identity():
    one = campaign()
    other = Campaign.of(json.loads(json.dumps(one.document())))
    assert other == one
    assert other.identity == one.identity != campaign(seed=2).identity
    apart = replace(one, cases=(replace(one.cases[0], at_once=True), *one.cases[1:]))
    assert Campaign.of(json.loads(json.dumps(apart.document()))) == apart
    assert apart.identity != one.identity


def test_everything_wrong_with_a_campaign_is_said_at_once():
    with pytest.raises(HoldfastError) as raised:
        campaign(
            offsets=(-1,), outages_s=(0.0,), paces=("slow",), repetitions=5, golden_runs=1, percentile=2, fault={"kind": "fire"}
        )
    said = str(raised.value)
    assert "an offset counts source tuples from 0, got -1" in said
    assert "an outage lasts more than 0 seconds, got 0" in said
    assert "a rate is 'average' or 'peak', got 'slow'" in said
    assert "golden runs must be at least as many as the 5 repetitions, got 1" in said
    assert "the percentile lies above 0 and up to 1, got 2" in said
    assert "unknown kind 'fire'" in said


def test_what_is_there_twice_or_beyond_all_bounds_is_refused():
    with pytest.raises(HoldfastError) as raised:
        campaign(
            offsets=(10, 10),
            outages_s=(1.0, float("inf"), 1.0),
            scores=("count(*)", "count(*)"),
            jitter=-1,
            seed=-2,
            affected=0,
        )
    said = str(raised.value)
    assert "the offset '10' is given twice" in said
    assert "the outage '1.0' is given twice" in said
    assert "the score 'count(*)' is given twice" in said
    assert "an outage lasts more than 0 seconds, got inf" in said
    assert "arrival order can be jittered by 0 to 127 tuples, got -1" in said
    assert "the seed must not be negative, got -2" in said
    assert "a fault affects at least 1 source tuple, got 0" in said
    with pytest.raises(HoldfastError, match="a failover takes more than 0 seconds, got -1"):
        Case(("a",), -1.0)


def test_a_campaign_of_faults_on_the_way_out_survives_json():
    out = campaign(
        cases=(Case(("a",), loses="output"), Case(("a", "b"), 2.0, "output")),
        fault={"kind": "divergence", "size": 0.2, "side": "output"},
    )
    assert Campaign.of(json.loads(json.dumps(out.document()))) == out
    assert out.fault_for(out.cases[0], offset=3, tuples=4).document() == {
        "kind": "divergence",
        "target": ["a"],
        "offset": 3,
        "tuples": 4,
        "side": "output",
        "seed": 1,
        "size": 0.2,
        "share": 1.0,
    }
    with pytest.raises(CompoundError, match="the fault affects the output of its targets, and the case 'a' loses its input"):
        campaign(fault={"kind": "loss", "side": "output"})
    with pytest.raises(CompoundError, match="a duplication fault affects a share of the tuples above 0 and up to 1, got 3"):
        campaign(fault={"kind": "duplication", "share": 3})


def test_a_protected_group_loses_its_output_for_as_long_as_failover_takes():
    case = Case(("a", "b"), 2.0)
    assert (case.side, case.outage(16.0), case.outage(0.5), case.name) == ("output", 2.0, 0.5, "a+b (replica, 2 s)")
    assert (Case(("a",)).side, Case(("a",)).outage(16.0)) == ("input", 16.0)


def test_outcomes_are_there_after_the_process_that_wrote_them_has_gone(tmp_path):
    trials = list(campaign().trials())
    Results(tmp_path, campaign()).add([(trials[0], outcome(1.0)), (trials[1], outcome(2.0))])
    Results(tmp_path, campaign()).add([(trials[2], outcome(3.0))])
    again = Results(tmp_path, campaign())
    assert again.done() == set(trials[:3])
    assert dict(again.outcomes())[trials[1]].differences["count(*)"].tolist() == [2.0, 0.5]
    assert read_campaign(tmp_path) == campaign()


def test_a_batch_that_was_being_written_when_the_process_died_counts_as_not_there(tmp_path):
    results = Results(tmp_path, campaign())
    (tmp_path / "outcomes").mkdir()
    (tmp_path / "outcomes" / ".000000.jsonl.77.part").write_text('{"trial": ["a", 10')
    assert results.done() == set()


def test_what_a_killed_process_had_half_written_is_removed_when_the_campaign_goes_on(tmp_path):
    results = Results(tmp_path, campaign())
    trial, *_ = campaign().trials()
    results.add([(trial, outcome(1.0))])
    for part in (tmp_path / ".facts.json.99.part", tmp_path / "outcomes" / ".000001.jsonl.99.part"):
        part.write_text("half")
    with results.locked():
        pass
    assert [path.name for path in tmp_path.rglob("*.part")] == []
    assert results.done() == {trial}


def test_a_folder_of_another_campaign_is_refused_with_what_differs(tmp_path):
    begun = Results(tmp_path, campaign())
    begun.add([(next(campaign().trials()), outcome(1.0))])
    with pytest.raises(HoldfastError, match=r"results of another campaign: its offsets \[10, 20\], now \[10, 30\]"):
        Results(tmp_path, campaign(offsets=(10, 30)))


def test_a_folder_of_another_trace_is_refused_with_the_fields_that_differ_and_no_others(tmp_path):
    subject = {"application": "shop", "application_sha256": "fccda707364731ad", "trace": "march.parquet", "trace_hash": "0a" * 8}
    begun = Results(tmp_path, campaign(subject=subject))
    begun.add([(next(campaign().trials()), outcome(1.0))])
    with pytest.raises(HoldfastError) as raised:
        Results(tmp_path, campaign(subject=subject | {"trace": "april.parquet", "trace_hash": "0b" * 8}))
    said = str(raised.value)
    assert 'its trace "march.parquet", now "april.parquet"; its trace hash "0a0a0a0a0a0a0a0a", now "0b0b0b0b0b0b0b0b"; give' in said
    assert "shop" not in said


@pytest.mark.parametrize("threshold", [0.0, -1.0, float("inf"), float("nan")])
def test_a_threshold_that_every_or_no_error_passes_is_refused(threshold):
    with pytest.raises(HoldfastError, match=rf"the threshold is a relative error above 0, such as 0\.03, got {threshold:g}"):
        campaign(threshold=threshold)


def test_a_folder_in_which_nothing_was_found_out_yet_may_become_another_campaigns(tmp_path):
    Results(tmp_path, campaign())
    Results(tmp_path, campaign(offsets=(10, 30)))
    assert read_campaign(tmp_path).offsets == (10, 30)


def refuse(results):
    with pytest.raises(HoldfastError, match="offset 10 lies past the end"), results.locked():
        raise HoldfastError("offset 10 lies past the end")


def test_a_campaign_that_is_refused_leaves_nothing(tmp_path):
    refuse(Results(tmp_path / "new", campaign()))
    (tmp_path / "empty").mkdir()
    refuse(Results(tmp_path / "empty", campaign()))
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")] == ["empty"]


def test_a_campaign_that_is_refused_after_something_was_found_out_keeps_it(tmp_path):
    results = Results(tmp_path, campaign())
    results.add([(next(campaign().trials()), outcome(1.0))])
    refuse(results)
    assert len(Results(tmp_path, campaign()).done()) == 1


def test_two_campaigns_do_not_run_in_one_folder_at_once(tmp_path):
    one = Results(tmp_path, campaign())
    with one.locked():
        with (
            pytest.raises(HoldfastError, match="another process is running a campaign in folder"),
            Results(tmp_path, campaign()).locked(),
        ):
            pytest.fail("it was let in")
        with pytest.raises(HoldfastError, match="holds the results of another campaign"):
            Results(tmp_path, campaign(offsets=(10, 30)))
    with Results(tmp_path, campaign()).locked():
        assert one.done() == set()


def test_a_folder_that_another_process_used_between_opening_and_locking_keeps_what_that_one_found(tmp_path):
    trials = list(campaign().trials())
    early, stranger = Results(tmp_path, campaign()), Results(tmp_path, campaign(offsets=(10, 30)))
    with early.locked():
        assert read_campaign(tmp_path) == campaign()
    late = Results(tmp_path, campaign())
    with early.locked():
        early.add([(trials[0], outcome(1.0))])
    with late.locked():
        late.add([(trials[1], outcome(2.0))])
    assert late.done() == set(trials[:2])
    with pytest.raises(HoldfastError, match="holds the results of another campaign"), stranger.locked():
        pytest.fail("it was let in")


def test_batches_of_a_resumed_campaign_come_after_those_that_are_there(tmp_path):
    trials = list(campaign().trials())
    for trial in trials[:3]:
        Results(tmp_path, campaign()).add([(trial, outcome(1.0))])
    assert [trial for trial, _ in Results(tmp_path, campaign()).outcomes()] == trials[:3]
    assert len(list((tmp_path / "outcomes").iterdir())) == 3


def test_outcomes_are_read_in_the_order_of_trials_whatever_order_they_were_ready_in(tmp_path):
    trials = list(campaign().trials())
    results = Results(tmp_path, campaign())
    results.add([(trial, outcome(float(n))) for n, trial in reversed(list(enumerate(trials))) if n % 2])
    assert results.done() == set(trials[1::2])
    for n, trial in reversed(list(enumerate(trials))):
        if n % 2 == 0:
            results.add([(trial, outcome(float(n)))])
    read = list(results.outcomes())
    assert [trial for trial, _ in read] == trials
    assert [each.differences["count(*)"][0] for _, each in read] == list(range(len(trials)))


WITHOUT_SECTIONS = '{"trial": ["a", 10, 1.0, "peak", 0], "differences": {"count(*)": [1.0]}}'
OF_TWO_LENGTHS = '{"trial": ["a", 10, 1.0, "peak", 0], "sections": [1, 2], "differences": {"count(*)": [1.0]}}'


@pytest.mark.parametrize(
    "line", ['{"trial": ["a", 10', "7", '{"trial": ["a"]}', '{"sections": []}', "\x00\x00", WITHOUT_SECTIONS, OF_TWO_LENGTHS]
)
def test_a_damaged_results_file_is_named_with_what_to_do(tmp_path, line):
    results = Results(tmp_path, campaign())
    results.add([(next(campaign().trials()), outcome(1.0))])
    path = tmp_path / "outcomes" / "000000.jsonl"
    path.write_text(path.read_text() + line)
    with pytest.raises(
        HoldfastError, match=r"outcomes/000000\.jsonl' is damaged in line 2; remove it, and its trials are run again"
    ):
        results.done()


def test_a_results_file_that_is_no_text_is_named_too(tmp_path):
    results = Results(tmp_path, campaign())
    results.add([(next(campaign().trials()), outcome(1.0))])
    path = tmp_path / "outcomes" / "000000.jsonl"
    path.write_bytes(path.read_bytes() + b"\xff\xfe\x80")
    with pytest.raises(HoldfastError, match=r"outcomes/000000\.jsonl' is damaged in line 2; remove it"):
        results.done()


def test_a_damaged_campaign_and_a_damaged_golden_run_are_named(tmp_path):
    (tmp_path / "campaign.json").write_text("{")
    with pytest.raises(HoldfastError, match=r"campaign\.json' is damaged; give another folder"):
        Results(tmp_path, campaign())
    (tmp_path / "0.npz").write_bytes(b"PK, but not really")
    with pytest.raises(HoldfastError, match=r"0\.npz' is damaged; remove it, and the golden run is made again"):
        load_golden(tmp_path / "0.npz")


@pytest.mark.parametrize(
    ("name", "document", "said"),
    [
        ("facts", {}, "sections: field required; deterministic: field required; why_slow: field required and 5 more"),
        ("facts", facts(firsts={"10": 10}), "it has no firsts.20"),
        ("facts", facts(tuples={"a": {}}), "it has no tuples.a.1 average"),
        ("facts", facts(source=7), "source: input should be a valid dictionary"),
        ("golden", {}, "runs: field required"),
        ("golden", {"runs": []}, "it has no 3 runs"),
        ("golden", {"runs": [{"sum(x)": [1.0]}]}, "it has no runs.0.count(*)"),
        ("golden", {"runs": [{"count(*)": "many"}]}, "runs.0.count(*): input should be a valid list"),
    ],
)
def test_a_results_file_of_another_shape_is_named_with_what_is_wrong_and_what_to_do(tmp_path, name, document, said):
    results = Results(tmp_path, campaign())
    results.write(name, document)
    with pytest.raises(HoldfastError) as raised:
        results.read(name)
    assert f"{name}.json' is damaged ({said}" in str(raised.value)
    assert "remove it, and the same command finds it out again" in str(raised.value)


def test_facts_say_how_far_a_fault_affects_where_the_campaign_says_how_many_tuples(tmp_path):
    results = Results(tmp_path, campaign(affected=5))
    results.write("facts", facts(lasts={"10": 14}))
    with pytest.raises(HoldfastError, match=r"facts\.json' is damaged \(it has no lasts\.20\); remove it"):
        results.read("facts")
    results.write("facts", facts(lasts={"10": 14, "20": 24}))
    assert results.read("facts")["lasts"]["20"] == 24


def test_a_campaign_file_of_another_shape_is_named(tmp_path):
    (tmp_path / "campaign.json").write_text(json.dumps(campaign().document() | {"cases": [7]}))
    with pytest.raises(HoldfastError, match=r"campaign\.json' is damaged; give another folder"):
        read_campaign(tmp_path)


def test_a_folder_that_cannot_be_written_is_named_with_the_systems_reason(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(HoldfastError, match="is a file; results need a folder"):
        Results(tmp_path / "file", campaign())
    with pytest.raises(HoldfastError, match=r"below' cannot be made, because '.*file' is a file; give another --out"):
        Results(tmp_path / "file" / "below", campaign())
    with pytest.raises(HoldfastError, match=r"campaign\.json' cannot be written: .*; earlier results are kept"):
        Results(Path("/proc/below"), campaign())


def test_a_full_disk_is_told_and_leaves_nothing_half_written(tmp_path):
    def fill(file):
        file.write(b"half of it")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(HoldfastError, match=r"facts\.json' cannot be written: No space left on device"):
        write_whole(tmp_path / "facts.json", fill)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_something_else_is_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("chapter one")
    with pytest.raises(HoldfastError, match="holds something that is no campaign"):
        Results(tmp_path, campaign())
    with pytest.raises(HoldfastError, match=r"holds no campaign: it has no campaign\.json"):
        read_campaign(tmp_path)


@given(st.lists(st.floats(-100, 100), min_size=1, max_size=8), st.data())
def test_a_difference_applied_to_golden_gives_the_faulty_run(golden, data):
    faulty = data.draw(st.lists(st.floats(-100, 100), min_size=len(golden), max_size=len(golden)))
    one, other = {"n": np.array(golden)}, {"n": np.array(faulty)}
    assert np.allclose(difference(other, one).applied(one)["n"], other["n"], atol=1e-6)


def test_a_section_that_has_rows_only_under_the_fault_is_there_in_the_faulty_run():
    golden = {"max(x)": np.array([np.nan, 4.0, np.nan]), "n": np.array([0.0, 2.0, 5.0])}
    faulty = {"max(x)": np.array([7.0, np.nan, np.nan]), "n": np.array([1.0, 0.0, 6.0])}
    applied = difference(faulty, golden).applied(golden)
    assert np.array_equal(applied["max(x)"], [7.0, 0.0, np.nan], equal_nan=True)
    assert applied["n"].tolist() == [1.0, 0.0, 6.0]


def test_differences_of_the_last_digit_are_none():
    assert len(difference({"n": np.array([0.1 + 0.2])}, {"n": np.array([0.3])}).sections) == 0


def trace_locator():
    app = App("shop")
    orders = app.source("orders", "seq long")
    large = app.operator(inputs=orders, name="large")(lambda rows: rows)
    app.sink("out", app.operator(inputs=large, name="alert")(lambda rows: rows))
    seqs = {"orders": np.arange(100), "large": np.arange(0, 100, 4)}
    return app.graph(), OutageLocator(seqs["orders"], seqs, Tempo(100.0, 400.0))


def test_an_operators_rate_is_its_share_of_the_sources():
    graph, locator = trace_locator()
    assert locator.tempo_of(graph, Case(("alert",))) == Tempo(25.0, 100.0)
    assert locator.tempo_of(graph, Case(("orders",))) == Tempo(100.0, 400.0)


def test_how_far_a_fault_is_said_to_affect_counts_source_tuples_whatever_their_seqs():
    gaps = OutageLocator(np.arange(0, 1000, 10), {}, Tempo(1.0, 1.0))
    assert gaps.last(5, 1) == 50
    assert gaps.last(5, 20) == 240
    assert gaps.last(95, 20) == 990


def test_an_outage_counts_the_targets_own_tuples_from_the_offset_on():
    graph, locator = trace_locator()
    assert locator.locate(graph, Case(("orders",)), offset=10, tuples=5) == (10, 14)
    assert locator.locate(graph, Case(("alert",)), offset=10, tuples=5) == (10, 28)


def test_whatever_fails_at_once_is_away_for_the_same_time():
    graph, locator = trace_locator()
    for failing in (("orders",), ("alert",), ("large", "alert")):
        case = Case(failing, at_once=True)
        assert locator.tempo_of(graph, case) == Tempo(100.0, 400.0)
        assert locator.locate(graph, case, offset=10, tuples=5) == (10, 14)
        assert locator.room(graph, case, tuples=5) == 96
    assert locator.count(graph, Case(("alert",), at_once=True)) == 25, "it has no more tuples to lose than before"


def test_an_offset_past_the_end_and_an_outage_longer_than_the_trace_are_refused():
    graph, locator = trace_locator()
    with pytest.raises(HoldfastError, match="offset 100 lies past the end of the trace, which has 100 source tuples"):
        locator.locate(graph, Case(("orders",)), offset=100, tuples=1)
    with pytest.raises(
        HoldfastError, match="an outage of 30 tuples of alert at offset 10 is longer than the trace, where 22 are left"
    ):
        locator.locate(graph, Case(("alert",)), offset=10, tuples=30)


def test_trials_are_named_for_people():
    assert Trial("vwap", 10, 0.5, "peak", 2).name == "vwap | 10 | 0.5 s peak | 2"


def test_a_campaign_is_finished_when_every_trial_has_an_outcome(tmp_path):
    results = Results(tmp_path, campaign())
    results.write("facts", facts())
    results.write("golden", {"runs": [{"count(*)": [1.0]}]})
    assert not results.finished()
    results.add([(trial, outcome(0.0)) for trial in campaign().trials()])
    assert results.finished()
