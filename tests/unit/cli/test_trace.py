"""holdfast trace."""

import json

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from holdfast.cli.trace import trace
from holdfast.errors import TraceError

KINDS = ("market", "pages", "servers", "traffic")

pytestmark = pytest.mark.usefixtures("papers_installed")


def run(*words):
    return CliRunner().invoke(trace, [str(word) for word in words], catch_exceptions=False)


@pytest.mark.parametrize("kind", KINDS)
def test_json_is_the_only_thing_on_stdout(kind, tmp_path):
    result = run(kind, "--events", 3000, "--seed", 4, "--out", tmp_path / "t", "--json")
    document = json.loads(result.stdout)
    assert result.exit_code == 0
    assert result.stderr == ""
    assert (document["kind"], document["rows"], document["seed"], document["path"]) == (kind, 3000, 4, str(tmp_path / "t"))
    assert {"rate_mean", "rate_peak", "span_s"} <= set(document["statistics"])
    assert document["bytes"] > 0


@pytest.mark.parametrize("kind", KINDS)
def test_summary_is_one_line_on_stderr(kind, tmp_path):
    result = run(kind, "--events", 3000, "--seed", 4, "--out", tmp_path / "t")
    assert result.stdout == ""
    assert result.stderr.startswith(f"{tmp_path / 't'}: 3,000 rows, ")
    assert "tuples/s on average" in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("kind", KINDS)
def test_help_shows_an_example_that_works(kind, tmp_path, monkeypatch):
    text = run(kind, "--help").stdout
    example = next(line.split() for line in text.splitlines() if line.strip().startswith("holdfast trace"))
    assert example[:3] == ["holdfast", "trace", kind]
    example[example.index("--events") + 1] = "100"
    monkeypatch.chdir(tmp_path)
    assert run(*example[2:]).exit_code == 0


def test_options_reach_the_generator(tmp_path):
    run("market", "--events", 5000, "--seed", 1, "--out", tmp_path / "m", "--tickers", 3, "--quotes", 0.5)
    assert len(pq.read_table(tmp_path / "m")["ticker"].unique()) == 3
    run("servers", "--events", 10, "--seed", 1, "--out", tmp_path / "s", "--servers", 2, "--rack-size", 1, "--interval", 60)
    assert set(pq.read_table(tmp_path / "s")["rack"].to_pylist()) == {"rack-000", "rack-001"}
    result = run(
        "traffic", "--events", 500, "--seed", 1, "--out", tmp_path / "t", "--users", 9, "--rate", 9, "--every", 1, "--json"
    )
    assert json.loads(result.stdout)["statistics"]["rate_mean"] < 30
    run("pages", "--events", 500, "--seed", 1, "--out", tmp_path / "p", "--pages", 2, "--servers", 1)
    assert len(pq.read_table(tmp_path / "p")["page"].unique()) == 2


def test_unknown_kind_is_refused():
    result = run("weather", "--events", 10, "--seed", 1, "--out", "t")
    assert result.exit_code == 2
    assert "No such command 'weather'" in result.stderr


@pytest.mark.parametrize("missing", ["--events", "--out"])
def test_missing_option_is_named(missing, tmp_path):
    words = {"--events": 10, "--seed": 1, "--out": tmp_path / "t"}
    del words[missing]
    result = run("market", *(word for pair in words.items() for word in pair))
    assert result.exit_code == 2
    assert f"Missing option '{missing}'" in result.stderr


def test_wrong_values_raise_trace_errors(tmp_path):
    with pytest.raises(TraceError, match="at least 1 event, not 0"):
        run("market", "--events", 0, "--seed", 1, "--out", tmp_path / "t")
    run("market", "--events", 10, "--seed", 1, "--out", tmp_path / "t")
    with pytest.raises(TraceError, match="use --force"):
        run("market", "--events", 10, "--seed", 1, "--out", tmp_path / "t")
    assert run("market", "--events", 10, "--seed", 1, "--out", tmp_path / "t", "--force").exit_code == 0
