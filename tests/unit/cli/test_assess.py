"""holdfast assess: options, errors and --explain."""

import json

import pytest
from click.testing import CliRunner

from holdfast.assess.campaign_setup import parse_fault
from holdfast.cli.assess import assess
from holdfast.errors import CompoundError, HoldfastError, TraceError

APPLICATION = """
from holdfast import App

app = App("orders")
orders = app.source("orders", "seq long, time timestamp, amount double")
large = app.operator(inputs=orders, name="large")(lambda rows: rows.where("amount > 9"))
small = app.operator(inputs=orders, name="small")(lambda rows: rows.where("amount <= 9"))
app.sink("out", large)
app.sink("rest", small)
"""


@pytest.fixture
def explain(tmp_path):
    (tmp_path / "app.py").write_text(APPLICATION)

    def run(*options):
        return CliRunner().invoke(assess, [str(tmp_path / "app.py"), "--explain", *options])

    return run


def test_missing_trace_is_reported_before_spark_starts(tmp_path):
    (tmp_path / "app.py").write_text(APPLICATION)
    run = CliRunner().invoke(assess, [str(tmp_path / "app.py"), "--trace", str(tmp_path / "none"), "--out", str(tmp_path / "out")])
    assert isinstance(run.exception, TraceError) and "none' does not exist; make one with 'holdfast trace'" in str(run.exception)
    assert run.stderr == ""


def test_unusable_folder_is_reported_before_reading(tmp_path):
    (tmp_path / "app.py").write_text(APPLICATION)
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.tex").write_text("one")
    for out, message in (("app.py", "is a file; results need a folder"), ("thesis", "has files but no campaign")):
        there = str(tmp_path / "app.py")
        run = CliRunner().invoke(assess, [there, "--trace", there, "--out", str(tmp_path / out)])
        assert isinstance(run.exception, HoldfastError) and message in str(run.exception)
        assert run.stderr == ""


def test_invalid_values_are_reported_together_before_spark_starts(tmp_path):
    (tmp_path / "app.py").write_text(APPLICATION)
    there, out = str(tmp_path / "app.py"), str(tmp_path / "out")
    figures = ["--outage", "-1", "--offset", "-3", "--threshold", "nan", "--percentile", "7", "--golden", "2"]
    twice = ["--target", "large", "--target", "large"]
    run = CliRunner().invoke(assess, [there, "--trace", there, "--out", out, *figures, *twice, "--fault", "divergence,size=0"])
    assert isinstance(run.exception, CompoundError) and len(run.exception.errors) == 7
    assert "the target 'large' is given twice" in str(run.exception)
    assert run.stderr == "" and not (tmp_path / "out").exists()


def test_names_of_a_group_may_contain_blanks(explain):
    assert explain("--target", "large, small").stdout == explain("--target", "large,small").stdout != ""


def test_explain_prints_injected_graphs(explain):
    shown = explain("--target", "large", "--fault", "duplication")
    assert shown.exit_code == 0
    assert "* duplication before large on orders  <-  orders" in shown.stdout
    assert "large: a target, because orders also feeds small" in shown.stdout


def test_fault_can_be_on_the_output_side_with_parameters(explain):
    shown = explain("--target", "large", "--fault", "divergence,size=0.2,share=0.5", "--side", "output")
    assert "* divergence after large on large  <-  large" in shown.stdout
    assert parse_fault("reordering, distance=3") == {"kind": "reordering", "distance": 3}


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("crash", "there is no fault 'crash'; faults are: loss, duplication, reordering, divergence"),
        ("loss,share=1", "a loss has no 'share'; it has no parameters"),
        ("divergence,target=2", "a divergence has no 'target'; its parameters are: size, share"),
        ("duplication,share=most", "the share of a duplication is a number, got 'most'"),
        ("duplication,share=2", "affects a share of the tuples above 0 and up to 1, got 2"),
        ("reordering,distance=0", "a reordering fault moves tuples by a whole number of places, at least 1, got 0"),
        ("reordering,distance=2.5", "a reordering fault moves tuples by a whole number of places, at least 1, got 2.5"),
        ("reordering,distance=nan", "a reordering fault moves tuples by a whole number of places, at least 1, got nan"),
        ("divergence,size=inf", "a divergence fault needs a finite size above 0, as a share of each value, got inf"),
    ],
)
def test_invalid_fault_is_rejected(explain, fault, message):
    assert message in str(explain("--fault", fault).exception)


def test_trace_is_required(tmp_path):
    (tmp_path / "app.py").write_text(APPLICATION)
    run = CliRunner().invoke(assess, [str(tmp_path / "app.py")])
    assert "assess needs a recorded trace; give its file or folder with --trace" in str(run.exception)


def test_explain_prints_injected_graphs_as_json(explain):
    shown = json.loads(explain("--json", "--protect", "small").stdout)
    assert [graph["case"] for graph in shown["graphs"]] == ["orders", "large", "small", "small (replica, 2 s)"]
    put_in = [node for node in shown["graphs"][3]["nodes"] if node["injected"]]
    assert put_in == [{"name": "loss after small on small", "reads": ["small"], "injected": True, "node": "operator"}]
    assert {choice["name"]: choice["chosen"] for choice in shown["choices"]} == {"orders": True, "large": True, "small": True}
