"""holdfast reproduce ppa --part runs: what is told of real runs that are kept."""

import json

import pytest
from click.testing import CliRunner

from holdfast.cli.main import root
from holdfast.run.checkpoint_study import INTERVALS, RATES, SECONDS, WINDOW
from holdfast.run.recovery_study import TECHNIQUES
from holdfast.simulate.records import Records


@pytest.fixture
def kept(tmp_path):
    names = [technique.name for technique in TECHNIQUES]
    runs = Records(tmp_path / "runs", {"techniques": names})
    for name in names:
        seconds = dict.fromkeys(("one_silence_s", "all_silence_s", "one_latency_s", "all_latency_s"), 1.0)
        runs.add({"key": name, "technique": name, **seconds, "load": 1.5})
    costs = Records(tmp_path / "checkpoints", {"intervals": list(INTERVALS), "window": WINDOW, "seconds": SECONDS})
    for rate in RATES:
        figures = {"checkpoints": 2, "rows": 30.0 * rate, "checkpoint_s": 0.02, "epoch_s": 0.2}
        each = [{"rate": rate, "interval_s": interval, **figures, "share": 0.1 / interval} for interval in INTERVALS]
        costs.add({"key": str(rate), "rate": rate, "costs": each, "load": 2.5})
    return tmp_path


def test_runs_that_are_kept_are_told_without_running_them_again(kept):
    result = CliRunner().invoke(root, ["reproduce", "ppa", "--part", "runs", "--quick", "--out", str(kept), "--json"])
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    holds = {finding["name"]: finding["holds"] for finding in document["findings"]}
    assert holds["Figure 9, really run: checkpoints cost more the more often they are made"]
    assert not holds["Figure 9, really run: one every second is prohibitive"]
    assert [(cost["rate"], cost["interval_s"]) for cost in document["checkpoint_runs"]] == [
        (rate, interval) for rate in RATES for interval in INTERVALS
    ]
    page = (kept / "ppa.html").read_text()
    assert "Figure 9, really run: time of checkpoints" in page
    assert ">30,000<" in page
    assert 'aria-label="Figure 9, really run"' in page
