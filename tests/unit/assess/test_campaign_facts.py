"""Damaged files in a results folder."""

import json

import pytest

from holdfast.assess.campaign_folder import Results, read_campaign
from holdfast.assess.golden_runs import load_golden
from holdfast.errors import HoldfastError

from .small_campaign import campaign, facts, outcome

WITHOUT_SECTIONS = '{"trial": ["a", 10, 1.0, "peak", 0], "differences": {"count(*)": [1.0]}}'


OF_TWO_LENGTHS = '{"trial": ["a", 10, 1.0, "peak", 0], "sections": [1, 2], "differences": {"count(*)": [1.0]}}'


@pytest.mark.parametrize(
    "line", ['{"trial": ["a", 10', "7", '{"trial": ["a"]}', '{"sections": []}', "\x00\x00", WITHOUT_SECTIONS, OF_TWO_LENGTHS]
)
def test_damaged_outcome_file_is_reported(tmp_path, line):
    results = Results(tmp_path, campaign())
    results.add([(next(campaign().trials()), outcome(1.0))])
    path = tmp_path / "outcomes" / "000000.jsonl"
    path.write_text(path.read_text() + line)
    with pytest.raises(
        HoldfastError, match=r"outcomes/000000\.jsonl' is damaged in line 2; remove it; the same command then runs its trials again"
    ):
        results.done()


def test_binary_outcome_file_is_reported(tmp_path):
    results = Results(tmp_path, campaign())
    results.add([(next(campaign().trials()), outcome(1.0))])
    path = tmp_path / "outcomes" / "000000.jsonl"
    path.write_bytes(path.read_bytes() + b"\xff\xfe\x80")
    with pytest.raises(HoldfastError, match=r"outcomes/000000\.jsonl' is damaged in line 2; remove it"):
        results.done()


def test_damaged_campaign_and_golden_run_are_reported(tmp_path):
    (tmp_path / "campaign.json").write_text("{")
    with pytest.raises(HoldfastError, match=r"campaign\.json' is damaged; give another folder"):
        Results(tmp_path, campaign())
    (tmp_path / "0.npz").write_bytes(b"PK, but not really")
    with pytest.raises(HoldfastError, match=r"0\.npz' is damaged; remove it; the same command then repeats the golden run"):
        load_golden(tmp_path / "0.npz")


@pytest.mark.parametrize(
    ("name", "document", "message"),
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
def test_results_file_with_missing_values_is_reported(tmp_path, name, document, message):
    results = Results(tmp_path, campaign())
    results.write(name, document)
    with pytest.raises(HoldfastError) as raised:
        results.read(name)
    assert f"{name}.json' is damaged ({message}" in str(raised.value)
    assert "remove it; the same command then computes it again" in str(raised.value)


def test_facts_need_last_seqs_if_campaign_gives_affected_tuples(tmp_path):
    results = Results(tmp_path, campaign(affected=5))
    results.write("facts", facts(lasts={"10": 14}))
    with pytest.raises(HoldfastError, match=r"facts\.json' is damaged \(it has no lasts\.20\); remove it"):
        results.read("facts")
    results.write("facts", facts(lasts={"10": 14, "20": 24}))
    assert results.read("facts")["lasts"]["20"] == 24


def test_campaign_file_of_another_version_is_reported(tmp_path):
    (tmp_path / "campaign.json").write_text(json.dumps(campaign().document() | {"cases": [7]}))
    with pytest.raises(HoldfastError, match=r"campaign\.json' is damaged; give another folder"):
        read_campaign(tmp_path)
