"""holdfast demo: its options and what it prints. Nothing is measured or run."""

import pytest
from click.testing import CliRunner

from holdfast.cli import demo as command
from holdfast.cli.demo import require_success
from holdfast.errors import HoldfastError

OPERATORS = ("market", "trade_quote", "trade_filter", "quote_filter", "aggregator", "vwap", "bargain_index")


def measured(*_, **__):
    return dict.fromkeys(OPERATORS, 1.0), dict.fromkeys(OPERATORS, "")


def returning(document):
    return lambda job, work, **options: dict(document)


def test_failed_run_is_reported_with_its_reason(monkeypatch):
    failed = {"state": "failed", "reason": "no node has room", "verdicts": [], "faults": [], "gap_s": {"bargains": None}}
    monkeypatch.setattr(command, "MEASURED_S", 20)
    monkeypatch.setattr(command, "_measure_losses", measured)
    monkeypatch.setattr(command, "run_and_report", returning(failed))
    with pytest.raises(HoldfastError, match="the run ended as failed; no node has room; please report it"):
        CliRunner().invoke(command.demo, ["--seconds", "20"], catch_exceptions=False)


def test_invalid_options_are_refused_before_measuring(monkeypatch):
    monkeypatch.setattr(command, "_measure_losses", lambda *_, **__: pytest.fail("measured first"))
    with pytest.raises(HoldfastError) as caught:
        CliRunner().invoke(command.demo, ["--seconds", "5", "--budget", "8"], catch_exceptions=False)
    assert str(caught.value) == (
        "the demo has 2 errors:\n  - --seconds: wanted at least 20, to show a failure and the recovery, got 5\n"
        "  - --budget: wanted 1 to 7 replicas, got 8"
    )


def test_kept_demo_prints_how_to_play_it_back(monkeypatch, tmp_path):
    corrected = {"name": "every tentative result corrected", "holds": True, "reason": "2 corrected", "figures": {"inexact": 2}}
    document = {"state": "completed", "reason": "", "verdicts": [corrected], "faults": [], "gap_s": {"bargains": 1.5}, "epochs": 20,
           "rows": {"bargains": 7}, "recoveries": [], "report": "run.html"}  # fmt: skip
    monkeypatch.setattr(command, "MEASURED_S", 20)
    monkeypatch.setattr(command, "_measure_losses", measured)
    monkeypatch.setattr(command, "run_and_report", returning(document))
    result = CliRunner().invoke(command.demo, ["--seconds", "20", "--work", str(tmp_path / "kept")], catch_exceptions=False)
    assert f"holdfast ui {tmp_path / 'kept' / 'run'}" in result.stdout
    assert {path.name for path in (tmp_path / "kept").iterdir()} == {"market.parquet", "past.parquet", "plan.json", "faults.yaml"}
    with pytest.raises(HoldfastError, match="is not empty; give another --work"):
        CliRunner().invoke(command.demo, ["--work", str(tmp_path / "kept")], catch_exceptions=False)


def test_false_verdict_is_an_error_and_unknown_is_none():
    with pytest.raises(HoldfastError, match="the run ended as completed; 3 epochs never left; please report it"):
        require_success({"state": "completed", "reason": "", "verdicts": [{"holds": False, "reason": "3 epochs never left"}]})
    require_success({"state": "completed", "reason": "", "verdicts": [{"holds": None, "reason": "cannot be told"}]})
