"""Impacts of operators, from a report."""

import json

import pytest

from holdfast.errors import DocumentError
from holdfast.planning.ppa import read_impact

REPORT = {
    "campaign": {"cases": [[["market"], None], [["vwap"], None], [["vwap", "agg"], 2.0]], "seed": 1},
    "choices": [{"name": "market", "chosen": True, "like": None}, {"name": "agg", "chosen": False, "like": "vwap"}],
    "scores": [
        {
            "score": "sum(gain)",
            "cases": [
                {"case": "market", "impact": 2.0, "recovery": 3},
                {"case": "vwap", "impact": 7.5},
                {"case": "vwap+agg (replica, 2 s)", "impact": 0.1},
            ],
        },
        {"score": "count(*)", "cases": []},
    ],
}


def test_impacts_are_read_from_a_report(tmp_path):
    path = tmp_path / "report.json"
    path.write_text(json.dumps(REPORT))
    assert read_impact(path) == {"market": 2.0, "vwap": 7.5, "agg": 7.5}


def test_report_without_impact_is_an_error(tmp_path):
    path = tmp_path / "report.json"
    path.write_text(json.dumps({**REPORT, "scores": [{"score": "sum(gain)", "cases": [{"case": "vwap", "impact": None}]}]}))
    with pytest.raises(DocumentError) as caught:
        read_impact(path)
    assert "no impact was measured for case 'market'" in str(caught.value)
    assert "no impact was measured for case 'vwap'" in str(caught.value)
