"""holdfast reproduce ppa --part runs: the report of stored runs."""

import json
from contextlib import contextmanager

import pytest
from click.testing import CliRunner

from holdfast.cli.main import root
from holdfast_papers.ppa.checkpoint_runs import INTERVALS, RATES, SECONDS, WINDOW
from holdfast_papers.ppa.recovery_runs import TECHNIQUES, RecoveryTimes
from holdfast_papers.ppa.runs_command import real_runs
from holdfast_papers.records import Records


@pytest.fixture
def kept(tmp_path):
    names = [technique.name for technique in TECHNIQUES]
    runs = Records(tmp_path / "runs", {"techniques": names})
    for name in names:
        seconds = dict.fromkeys(("one_silence_s", "all_silence_s", "one_latency_s", "all_latency_s"), 1.0)
        runs.add({"key": name, "technique": name, **seconds, "load": 1.5})
    costs = Records(tmp_path / "checkpoints", {"intervals": list(INTERVALS), "window": WINDOW, "seconds": SECONDS})
    for rate in RATES:
        costs.add({"key": str(rate), "rate": rate, "costs": costs_of(rate), "load": 2.5})
    return tmp_path


def costs_of(rate):
    figures = {"checkpoints": 2, "rows": 30.0 * rate, "checkpoint_s": 0.02, "epoch_s": 0.2}
    return [{"rate": rate, "interval_s": interval, **figures, "share": 0.1 / interval} for interval in INTERVALS]


def test_progress_counts_the_real_runs(tmp_path, monkeypatch):
    steps = []

    @contextmanager
    def bar(what):
        yield lambda done, total: steps.append((what, done, total))

    def run_cells(wanted, work, *, done):
        for cell in wanted:
            done(cell, RecoveryTimes(cell.technique.name, 1.0, 1.0, 1.0, 1.0, 0.5))

    def run_rates(rates, work, *, done):
        for rate in rates:
            done({"rate": rate, "costs": costs_of(rate), "load": 1.0})

    monkeypatch.setattr("holdfast_papers.ppa.runs_command.progress_bar", bar)
    monkeypatch.setattr("holdfast_papers.ppa.recovery_runs.run_cells", run_cells)
    monkeypatch.setattr("holdfast_papers.ppa.checkpoint_runs.run_rates", run_rates)
    real_runs(tmp_path, varied=False)
    assert steps == [
        *(("runs", n, len(TECHNIQUES)) for n in range(len(TECHNIQUES) + 1)),
        *(("runs with checkpoints", n, len(RATES)) for n in range(len(RATES) + 1)),
    ]


def test_stored_runs_are_not_run_again(kept):
    result = CliRunner().invoke(root, ["reproduce", "ppa", "--part", "runs", "--quick", "--out", str(kept), "--json"])
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    holds = {finding["name"]: finding["holds"] for finding in document["findings"]}
    assert holds["Figure 9, real runs: more frequent checkpoints cost more"]
    assert not holds["Figure 9, real runs: one every second is prohibitive"]
    assert [(cost["rate"], cost["interval_s"]) for cost in document["checkpoint_runs"]] == [
        (rate, interval) for rate in RATES for interval in INTERVALS
    ]
    page = (kept / "ppa.html").read_text()
    assert "Figure 9, real runs: time of checkpoints" in page
    assert ">30,000<" in page
    assert 'aria-label="Figure 9, real runs"' in page
