"""holdfast advise: what is refused before anything is measured."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from holdfast.cli.advise import _require_length, advise
from holdfast.errors import HoldfastError

APPLICATION = Path(__file__).parents[3] / "examples" / "bargain_discovery.py"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--budget", "0"], "with a budget of nothing there is nothing to advise"),
        (["--budget", "0%"], "with a budget of nothing there is nothing to advise"),
        (["--budget", "8"], r"wanted 1 to 7 replicas \(the application has 7 operators and sources\), got 8"),
        (["--budget", "some"], "such as 3, or a share of the CPU of full replication up to 100%, such as 50%, got 'some'"),
        (["--budget", "3", "--ic", "0.5"], "--budget and --ic say different things; give one of them"),
        (["--ic", "1.5"], "--ic: wanted a share from 0 to 1, got 1.5"),
        (["--loss", "-1"], "--loss: wanted a share from 0 to 1, got -1"),
        (["--outage", "0"], "--outage: wanted more than 0 seconds, got 0"),
        (["--failover", "0"], "--failover: wanted more than 0 seconds, got 0"),
        ([], "none.parquet' does not exist; make one with 'holdfast trace', or check the path"),
    ],
)
def test_what_cannot_be_is_refused_at_once_and_leaves_nothing(tmp_path, options, said):
    command = [str(APPLICATION), "--trace", str(tmp_path / "none.parquet"), "--out", str(tmp_path / "out"), *options]
    with pytest.raises(HoldfastError, match=said):
        CliRunner().invoke(advise, command, catch_exceptions=False)
    assert list(tmp_path.iterdir()) == []


def trace_of(*, tuples, peak, epochs, epoch_s):
    rows = SimpleNamespace(seq=range(tuples), tempo=SimpleNamespace(peak=peak))
    return SimpleNamespace(rows=rows, epochs=(0, epochs - 1), app=SimpleNamespace(epoch_s=epoch_s))


def test_a_trace_too_short_for_the_outage_or_for_real_kills_is_told_before_it_is_measured():
    short = trace_of(tuples=5000, peak=100.0, epochs=20, epoch_s=1.0)
    _require_length(short, outage_s=50.0, verify=False)
    with pytest.raises(
        HoldfastError, match="--outage: 60 s at the peak rate of 100 tuples a second take 6,000 tuples, and the trace"
    ):
        _require_length(short, outage_s=60.0, verify=False)
    with pytest.raises(HoldfastError, match="two kills, which need 28 s of trace, and it has 20 s; give a longer trace"):
        _require_length(short, outage_s=None, verify=True)
    _require_length(trace_of(tuples=5000, peak=100.0, epochs=28, epoch_s=1.0), outage_s=None, verify=True)
