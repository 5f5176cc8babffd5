"""Errors in a call of `holdfast assess` are reported together, before Spark is started."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from holdfast.app.load import load_app
from holdfast.assess.campaign import Campaign
from holdfast.assess.campaign_folder import Results
from holdfast.assess.campaign_setup import describe_partial_subject
from holdfast.assess.case import Case
from holdfast.assess.outcome import TrialOutcome
from holdfast.cli.assess import assess
from holdfast.engine.trace_reader import known_rows
from holdfast.errors import CompoundError, HoldfastError

APPLICATION = """
from holdfast import App

app = App("orders")
orders = app.source("orders", "seq long, time timestamp, amount double")
large = app.operator(inputs=orders, name="large")(lambda rows: rows.where("amount > 9"))
small = app.operator(inputs=orders, name="small")(lambda rows: rows.where("amount <= 9"))
app.sink("out", large)
app.sink("rest", small)
app.score("out", "sum(amount)")
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with an application and a trace of 40 orders."""
    (tmp_path / "app.py").write_text(APPLICATION)
    pq.write_table(pa.table({"seq": np.arange(40)}), tmp_path / "orders.parquet")
    return tmp_path


def refused(place: Path, *options: str) -> HoldfastError:
    """The error that a call ends with before it has said anything, so before Spark was started."""
    words = [str(place / "app.py"), "--trace", str(place / "orders.parquet"), "--out", str(place / "results"), *options]
    run = CliRunner().invoke(assess, words)
    assert isinstance(run.exception, HoldfastError), run.output
    assert run.stderr == ""
    return run.exception


def test_errors_of_every_kind_are_reported_together(place):
    (place / "results").write_text("a file")
    error = refused(
        place,
        *("--target", "larg", "--protect", "smal", "--fault", "fire", "--score", "sum", "--sink", "nowhere", "--jitter", "500"),
        *("--offset", "40", "--outage", "-1", "--columns", str(place / "none.yaml"), "--profile", str(place / "none.yaml")),
    )
    assert isinstance(error, CompoundError)
    message = "\n".join(error.errors)
    for part in (
        "targets 'larg', 'smal' are not sources, operators or PEs of this application; they are: orders, large, small",
        "there is no fault 'fire'",
        "application 'orders' has no sink 'nowhere'; sinks are: out, rest",
        "an outage lasts more than 0 seconds, got -1",
        "arrival order can be jittered by 0 to 127 tuples, got 500",
        "offset 40 lies past the end of the trace, which has 40 source tuples; give offsets below that",
        "is a file; results need a folder",
    ):
        assert part in message
    assert message.count("none.yaml") == 2
    assert len(error.errors) == 9


def test_single_error_is_raised_unchanged(place):
    assert str(refused(place, "--target", "none")).startswith("target 'none' is not a source, operator or PE")


def test_target_off_the_path_to_the_sink_is_reported(place):
    error = refused(place, "--target", "small", "--target", "large", "--sink", "out", "--failover", "-1", "--protect", "large")
    assert "a failover takes more than 0 seconds, got -1" in str(error)
    error = refused(place, "--target", "small", "--target", "large", "--sink", "out", "--offset", "99")
    assert "target 'small' does not lead to sink 'out', which is scored; give another target" in str(error)
    assert "offset 99 lies past the end" in str(error) and "'large'" not in str(error)


def test_duplicate_score_under_two_names_is_reported(place):
    assert "the score 'sum(amount)' is given twice" in str(refused(place, "--score", "sum", "--score", "sum(amount)"))


def start_campaign(place: Path, **changes) -> Campaign:
    """A campaign of which the results folder holds an outcome."""
    app_file = place / "app.py"
    values = {
        "subject": describe_partial_subject(load_app(app_file), app_file, "orders.parquet", None)
        | {"trace_hash": "0a", "tuples": 40},
        "cases": (Case(("orders",)), Case(("large",))),
        "offsets": (3, 5),
        "scores": ("sum(amount)",),
        "sink": "out",
    }
    campaign = Campaign(**values | changes)
    results = Results(place / "results", campaign)
    results.add([(next(campaign.trials()), TrialOutcome(np.array([0]), {"sum(amount)": np.array([1.0])}))])
    return campaign


def test_folder_of_another_campaign_is_reported_before_reading(place):
    start_campaign(place)
    message = str(refused(place, "--seed", "2", "--repetitions", "3", "--target", "large", "--offset", "3"))
    assert "results' holds the results of another campaign: its cases " in message
    for part in ("its golden runs 5, now 3", "its repetitions 5, now 3", "its offsets [3, 5], now [3]", "its seed 1, now 2"):
        assert part in message
    (place / "app.py").write_text(APPLICATION + "\n# changed\n")
    assert "its application sha256 " in str(refused(place))


def test_values_that_depend_on_the_trace_are_not_compared(place):
    start_campaign(place)
    call = [str(place / "app.py"), "--trace", str(place / "orders.parquet"), "--out", str(place / "results")]
    assert json.loads((place / "results" / "campaign.json").read_text())["subject"]["trace_hash"] == "0a"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("holdfast.cli.assess.spark_session", lambda *_, **__: (_ for _ in ()).throw(HoldfastError("it would start")))
        assert str(CliRunner().invoke(assess, call).exception) == "it would start"
        for file in (place / "results" / "outcomes").iterdir():
            file.unlink()
        assert str(CliRunner().invoke(assess, [*call, "--seed", "2"]).exception) == "it would start"


def test_only_parquet_traces_have_a_known_number_of_rows(place):
    graph = load_app(place / "app.py").graph()
    assert known_rows(graph, str(place / "orders.parquet")) == 40
    (place / "many.parquet").mkdir()
    for part in range(2):
        pq.write_table(pa.table({"seq": np.arange(7)}), place / "many.parquet" / f"part-{part}.parquet")
    (place / "many.parquet" / "_temporary.parquet").write_text("not there yet")
    assert known_rows(graph, str(place / "many.parquet")) == 14
    (place / "orders.csv").write_text("seq\n1\n")
    (place / "broken.parquet").write_text("seq\n1\n")
    assert [known_rows(graph, str(place / name)) for name in ("orders.csv", "broken.parquet")] == [None, None]
    assert known_rows(graph, "s3://bucket/orders.parquet") is None
