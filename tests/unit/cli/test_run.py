"""holdfast run: options, early errors, and what it prints about a run. No run is started."""

import json
from dataclasses import asdict

import pytest
from click.testing import CliRunner

from holdfast.cli import run as command
from holdfast.documents.history import HistoryEvent
from holdfast.documents.job import Job, Layout, Reading, Task
from holdfast.errors import DocumentError, HoldfastError
from holdfast.job_layout import layout_of
from holdfast.log.timeline import Timeline
from holdfast.trial.job_run import JobRun, require_nodes
from holdfast.trial.local_cluster import LocalCluster
from holdfast.trial.run_document import describe_run

TIMELINE = Timeline(first=1, last=2, epoch_s=1.0, opened_s=0.0)


def output(epoch, kind="first", quality="exact"):
    about = {"sink": "out", "epoch": epoch, "as": kind, "quality": quality, "rows": 5, "latency_s": 0.5}
    return HistoryEvent(float(epoch), "n1", "output", about)


def document(shop, *events, state="completed", timeline=TIMELINE):
    job = Job(job="shop", application=str(shop), log="log", out="out")
    tasks = tuple(task.model_copy(update={"pe": "out"}) if task.kind == "sink" else task for task in layout_of(job).tasks)
    return describe_run(job, JobRun(state, "", tasks, timeline, list(events), seconds=3.0), verify=False)


def commit(stream, epoch, rows, kind="first"):
    return HistoryEvent(
        1.0, "n1", "commit", {"stream": stream, "task": 0, "epoch": epoch, "as": kind, "quality": "exact", "rows": rows}
    )


COMMITS = [commit("orders", 1, 10), commit("orders", 2, 10), commit("large", 1, 5), commit("large", 2, 5, "final")]


def returning(document):
    return lambda job, work, **options: dict(document)


def test_internal_completeness_is_printed(shop, monkeypatch):
    report = document(shop, output(1), output(2), *COMMITS)
    assert report["internal_completeness"] == {"share": 0.5, "unknown": 0, "unlimited": ("large",)}
    monkeypatch.setattr(command, "run_and_report", returning(report))
    printed = CliRunner().invoke(command.run, [str(shop)]).output
    assert "processed in time (internal completeness): 0.5000" in printed
    assert "out 10 rows" in printed


def test_unprotected_pe_is_printed(shop, monkeypatch):
    events = [HistoryEvent(float(at), "run", "unprotected", {"task": "large/0", "why": "no column to predict"}) for at in (1, 2)]
    report = document(shop, output(1), output(2), *events)
    assert report["unprotected"] == {"large/0": "no column to predict"}
    monkeypatch.setattr(command, "run_and_report", returning(report))
    printed = CliRunner().invoke(command.run, [str(shop)]).output
    assert "not protected: large/0: its prediction agent cannot predict: no column to predict" in printed


def test_rows_of_an_endless_job_are_printed(shop, monkeypatch):
    endless = Timeline(first=1, last=None, epoch_s=1.0, opened_s=0.0)
    monkeypatch.setattr(
        command, "run_and_report", returning(document(shop, output(1), output(2), *COMMITS, state="canceled", timeline=endless))
    )
    assert "\n  out 10 rows\n" in CliRunner().invoke(command.run, [str(shop)]).output


def test_rates_above_the_strategy_are_printed_as_warning(shop, monkeypatch):
    about = {"text": "no configuration of the strategy dominates the measured rates", "exceeded": {"orders": 5.0}}
    report = document(shop, output(1), HistoryEvent(1.5, "run", "orchestrator", about), output(2), *COMMITS)
    monkeypatch.setattr(command, "run_and_report", returning(report))
    assert f"\n  warning: {about['text']}\n" in CliRunner().invoke(command.run, [str(shop)]).output


def test_run_that_never_began_is_printed_without_figures(shop, monkeypatch):
    report = document(shop, state="failed", timeline=None)
    assert (report["internal_completeness"], report["verdicts"]) == (None, [])
    monkeypatch.setattr(command, "run_and_report", returning(report))
    result = CliRunner().invoke(command.run, [str(shop)])
    assert result.exit_code == 1
    assert result.output.startswith("failed after 3 s")


@pytest.mark.parametrize(
    ("options", "out", "log"),
    [([], None, None), (["--out", "there"], "out", None), (["--log", "s3://b/log"], None, "log"), (["--work", "w"], "out", "log")],
)
def test_only_kept_output_and_log_are_printed(shop, monkeypatch, tmp_path, options, out, log):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(command, "run_and_report", returning(document(shop, output(1), output(2))))
    report = json.loads(CliRunner().invoke(command.run, [str(shop), "--json", *options]).stdout)
    assert (report["out"], report["log"]) == (out, log)
    printed = CliRunner().invoke(command.run, [str(shop), *options]).output
    assert [f"output: {out}" in printed, f"log: {log}" in printed] == [out is not None, log is not None]


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("log/timeline", "the log at '{}/log' belongs to an earlier run; give another --log, or remove it"),
        (
            "out/alerts/00000000000000000001.parquet",
            "'{}/out' contains the output of an earlier run for sink 'alerts'; give another --out",
        ),
    ],
)
def test_log_or_output_of_an_earlier_run_is_refused(shop, tmp_path, file, message):
    file_path = tmp_path / file
    file_path.parent.mkdir(parents=True)
    file_path.write_text(json.dumps(asdict(TIMELINE)))
    options = ["--log", str(tmp_path / "log"), "--out", str(tmp_path / "out"), "--work", str(tmp_path / "run")]
    result = CliRunner().invoke(command.run, [str(shop), *options])
    assert isinstance(result.exception, HoldfastError)
    assert message.format(tmp_path) in str(result.exception)


def test_missing_trace_is_reported_before_anything_starts(shop, tmp_path):
    result = CliRunner().invoke(command.run, [str(shop), "--trace", str(tmp_path / "none"), "--work", str(tmp_path / "run")])
    assert isinstance(result.exception, HoldfastError)
    assert str(result.exception).startswith(f"trace '{tmp_path}/none' does not exist; make one with 'holdfast trace'")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            [],
            "source 'orders' (shop.py:5) has no reader; give a --trace to replay, or give the source an input "
            "(kafka=, files=, delta=, iceberg=, reader=)",
        ),
        (["--out", "/proc/none"], "the output's root '/proc/none' cannot be opened"),
        (["--log", "/sys"], "the log at '/sys' cannot be written"),
        (["--out", "/sys"], "the output at '/sys' cannot be written"),
        (["--memory", "potato"], "--memory: wanted a size such as 512m or 4g, got 'potato'"),
        (["--replicas", "large=4"], "large/0 needs 4 replicas, each on its own node, but --nodes is 3; give more nodes"),
        (["--deadline", "1"], "--deadline requires --protection prediction, got --protection none"),
        (
            ["--reroute-after", "5", "--deadline", "1"],
            "the run has 2 errors:\n"
            "  - --deadline requires --protection prediction, got --protection none\n"
            "  - --reroute-after requires --protection upstream, got --protection none",
        ),
        (
            ["--protection", "upstream", "--replicas", "large=1"],
            "PE 'large' has protection: upstream, but its task 'large/0' has one replica, so there is none to re-route to",
        ),
        (
            ["--protection", "upstream", "--nodes", "1"],
            "large/0 needs 2 replicas, each on its own node, but --nodes is 1; give more nodes",
        ),
        (["--cores", "0"], "Invalid value for '--cores': 0.0 is not in the range x>0"),
        (["--cores", "nan"], "Invalid value for '--cores': wanted a finite number, got nan"),
        (["--for", "-3"], "Invalid value for '--for': -3.0 is not in the range x>0"),
    ],
)
def test_invalid_options_are_reported_before_anything_starts(shop, tmp_path, monkeypatch, options, message):
    monkeypatch.setattr(LocalCluster, "start", lambda cluster: pytest.fail("must not start"))
    result = CliRunner().invoke(command.run, [str(shop), "--work", str(tmp_path / "run"), *options])
    assert message in (str(result.exception) if isinstance(result.exception, HoldfastError) else result.output)


def test_missing_mapping_is_reported_before_anything_starts(shop, tmp_path, monkeypatch):
    monkeypatch.setattr(LocalCluster, "start", lambda cluster: pytest.fail("must not start"))
    (tmp_path / "trace.csv").write_text("seq\n")
    options = ["--trace", str(tmp_path / "trace.csv"), "--columns", str(tmp_path / "none.yaml"), "--work", str(tmp_path / "run")]
    with pytest.raises(HoldfastError, match=r"mapping '.*none.yaml' cannot be read: No such file or directory"):
        CliRunner().invoke(command.run, [str(shop), *options], catch_exceptions=False)


def test_strategy_for_more_nodes_than_given_is_refused():
    task = Task(pe="large", reads=(Reading(stream="orders"),), makes=("large",), replicas=2)
    layout = Layout(application="shop", tasks=(task,), nodes={"large/0": ("h1", "h2"), "small/0": ("h2", "h3")})
    require_nodes(layout, 3)
    with pytest.raises(HoldfastError, match=r"the strategy is for 3 nodes \(h1, h2, h3\), but --nodes is 2; give more nodes"):
        require_nodes(layout, 2)


def test_upstream_backup_with_adaptation_is_refused(shop, tmp_path):
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"topology": "shop", "budget": 1, "replicated": [{"task": "large/0"}]}))
    options = ["--plan", str(plan), "--adapt", "5", "--protection", "upstream", "--work", str(tmp_path / "run")]
    with pytest.raises(DocumentError, match="'upstream' wakes and idles replicas, and so does 'adapt'; give one of them"):
        CliRunner().invoke(command.run, [str(shop), *options], catch_exceptions=False)


def test_measured_plan_cannot_be_adapted(shop, tmp_path):
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"topology": "shop", "objective": "measured", "budget": 1, "replicated": [{"task": "large/0"}]}))
    options = ["--plan", str(plan), "--adapt", "5", "--work", str(tmp_path / "run")]
    with pytest.raises(HoldfastError, match="was made for 'measured', from the measured costs of failures"):
        CliRunner().invoke(command.run, [str(shop), *options], catch_exceptions=False)


@pytest.mark.parametrize(
    ("given", "checkpoints"),
    [
        (["--log", "s3://b/log"], "readers"),
        (["--log", "s3://b/log", "--trace", "x.parquet"], None),
        (["--log", "log"], None),
        ([], None),
    ],
)
def test_reader_checkpoints_in_work_folder_if_log_is_remote(shop, tmp_path, given, checkpoints):
    options = command.run.make_context("run", [str(shop), *given]).params
    folder = command.build_job(str(shop), tmp_path, options).feed.checkpoints
    assert folder == (checkpoints and str(tmp_path / checkpoints))


@pytest.mark.parametrize(("given", "sync"), [([], True), (["--no-sync"], False)])
def test_no_sync_is_passed_on_in_the_job_document(shop, tmp_path, given, sync):
    options = command.run.make_context("run", [str(shop), *given]).params
    assert command.build_job(str(shop), tmp_path, options).sync is sync
