"""holdfast advise: what is refused before anything is measured."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from holdfast.advise.verification import Kill, StatedCost, Verified
from holdfast.app import App
from holdfast.app.load import load_app
from holdfast.cli.advise import _quick_check, _require_length, _require_output, _write_report, advise
from holdfast.errors import HoldfastError

APPLICATION = Path(__file__).parents[3] / "examples" / "bargain_discovery.py"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--budget", "0"], "a budget must be above 0"),
        (["--budget", "0%"], "a budget must be above 0"),
        (["--budget", "8"], r"expected 1 to 7 replicas \(the application has 7 tasks\), got 8"),
        (["--budget", "some"], "such as 3, or a share of the CPU of full replication up to 100%, such as 50%, got 'some'"),
        (["--budget", "3", "--ic", "0.5"], "--budget and --ic contradict each other; give one of them"),
        (["--ic", "1.5"], "--ic: wanted a share from 0 to 1, got 1.5"),
        (["--loss", "-1"], "--loss: wanted a share from 0 to 1, got -1"),
        (["--outage", "0"], "--outage: wanted more than 0 seconds, got 0"),
        (["--failover", "0"], "--failover: wanted more than 0 seconds, got 0"),
        (["--ic", "2", "--loss", "3", "--outage", "0"], r"4 errors:(?s:.*)--ic and --loss(?s:.*)got 2(?s:.*)got 3(?s:.*)got 0"),
        ([], "none.parquet' does not exist; make one with 'holdfast trace', or check the path"),
    ],
)
def test_invalid_options_are_rejected_and_leave_no_files(tmp_path, options, message):
    command = [str(APPLICATION), "--trace", str(tmp_path / "none.parquet"), "--out", str(tmp_path / "out"), *options]
    with pytest.raises(HoldfastError, match=message):
        CliRunner().invoke(advise, command, catch_exceptions=False)
    assert list(tmp_path.iterdir()) == []


def test_budget_counts_replicas_of_tasks():
    pages = load_app(APPLICATION.with_name("top_pages.py")).graph()
    _quick_check(pages, "21")
    with pytest.raises(HoldfastError, match=r"expected 1 to 21 replicas \(the application has 21 tasks\), got 22"):
        _quick_check(pages, "22")
    assert "an operator with 4 tasks takes 4" in " ".join(CliRunner().invoke(advise, ["--help"]).output.split())


def test_non_finite_numbers_are_null_in_the_document(tmp_path, monkeypatch):
    monkeypatch.setattr("holdfast.report.advice.advice_page", lambda *lines: "the page")
    advice = SimpleNamespace(document=lambda: {"spread_over_seeds": {"quality": float("nan")}})
    kill = Kill("sum", None, False, 0, 0, None, StatedCost(False, 0.0, float("inf"), 2.0), 1.0)
    written = _write_report(advice, {}, "no strategy", Verified((kill,), ()), tmp_path)
    kept = json.loads((tmp_path / "advice.json").read_text(), parse_constant=lambda text: pytest.fail(text))
    assert kept == written
    assert (kept["spread_over_seeds"]["quality"], kept["verified"]["kills"][0]["stated"]) == (None, [0.0, None])


def trace_of(*, tuples, peak, epochs, epoch_s):
    rows = SimpleNamespace(seq=range(tuples), tempo=SimpleNamespace(peak=peak))
    return SimpleNamespace(rows=rows, epochs=(0, epochs - 1), app=SimpleNamespace(epoch_s=epoch_s))


def test_too_short_trace_is_reported_before_measuring():
    short = trace_of(tuples=5000, peak=100.0, epochs=20, epoch_s=1.0)
    _require_length(short, outage_s=50.0, verify=False)
    with pytest.raises(
        HoldfastError, match="--outage: 60 s at the peak rate of 100 tuples a second take 6,000 tuples, and the trace"
    ):
        _require_length(short, outage_s=60.0, verify=False)
    with pytest.raises(HoldfastError, match="two kills, which need 28 s of trace, and it has 20 s; give a longer trace"):
        _require_length(short, outage_s=None, verify=True)
    _require_length(trace_of(tuples=5000, peak=100.0, epochs=28, epoch_s=1.0), outage_s=None, verify=True)


def test_trace_without_output_is_reported_before_measuring():
    app = App("line")
    read = app.source("read", "seq long, time timestamp, x double")
    app.sink("out", app.operator(inputs=read, name="last")(lambda read: read))

    def context(*put_out):
        seqs = {"read": range(100), "last": put_out}
        rows = SimpleNamespace(seq=range(100))
        return SimpleNamespace(
            graph=app.graph(), sink="out", rows=rows, stream_seqs=lambda names: {name: seqs[name] for name in names}
        )

    _require_output(context(99))
    message = "wanted output at sink 'out' to judge failures by, got none from the 100 tuples of the trace; give a longer trace"
    with pytest.raises(HoldfastError, match=message):
        _require_output(context())
