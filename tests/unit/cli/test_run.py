"""holdfast run and demo: what they say of a run, without running one."""

import json
from dataclasses import asdict

import pytest
from click.testing import CliRunner

from holdfast.cli import demo as demonstration
from holdfast.cli import run as command
from holdfast.cli.demo import check_ended_well
from holdfast.documents.history import HistoryEvent
from holdfast.documents.job import Feed, Job, Layout, Reading, Task
from holdfast.engine.row_comparison import Difference
from holdfast.errors import DocumentError, HoldfastError, TraceError
from holdfast.log.timeline import Timeline
from holdfast.trial.checkers import uncorrected_epochs
from holdfast.trial.job_run import JobRun, require_nodes
from holdfast.trial.local_cluster import LocalCluster
from holdfast.trial.second_law import second_law

LINE = Timeline(first=1, last=2, epoch_s=1.0, opened_s=0.0)


def output(epoch, kind="first", quality="exact"):
    about = {"sink": "out", "epoch": epoch, "as": kind, "quality": quality, "rows": 5, "latency_s": 0.5}
    return HistoryEvent(float(epoch), "n1", "output", about)


def document(shop, *events, state="completed", line=LINE, verify=False, **more):
    from holdfast.job_layout import layout_of

    job = Job(job="shop", application=str(shop), log="log", out="out", **more)
    tasks = tuple(task.model_copy(update={"pe": "out"}) if task.kind == "sink" else task for task in layout_of(job).tasks)
    ran = JobRun(state, "", tasks, line, list(events), seconds=3.0)
    return command._document(job, ran, {"verify": verify})


def commit(stream, epoch, rows, kind="first"):
    return HistoryEvent(
        1.0, "n1", "commit", {"stream": stream, "task": 0, "epoch": epoch, "as": kind, "quality": "exact", "rows": rows}
    )


COMMITS = [commit("orders", 1, 10), commit("orders", 2, 10), commit("large", 1, 5), commit("large", 2, 5, "final")]


def told(found):
    return lambda work, application, **options: dict(found)


def test_what_was_processed_in_time_is_printed(shop, monkeypatch):
    found = document(shop, output(1), output(2), *COMMITS)
    assert found["internal_completeness"] == {"share": 0.5, "unknown": 0}
    monkeypatch.setattr(command, "run_in", told(found))
    said = CliRunner().invoke(command.run, [str(shop)]).output
    assert "processed in time (internal completeness): 0.5000" in said
    assert "out 10 rows" in said


def test_a_pe_that_prediction_could_not_protect_is_told(shop, monkeypatch):
    events = [HistoryEvent(float(at), "run", "unprotected", {"task": "large/0", "why": "no column to predict"}) for at in (1, 2)]
    found = document(shop, output(1), output(2), *events)
    assert found["unprotected"] == {"large/0": "no column to predict"}
    monkeypatch.setattr(command, "run_in", told(found))
    said = CliRunner().invoke(command.run, [str(shop)]).output
    assert "not protected: large/0, whose prediction agent cannot stand in for it: no column to predict" in said


def test_rows_are_told_of_a_job_without_an_end_too(shop, monkeypatch):
    endless = Timeline(first=1, last=None, epoch_s=1.0, opened_s=0.0)
    monkeypatch.setattr(command, "run_in", told(document(shop, output(1), output(2), *COMMITS, state="canceled", line=endless)))
    assert "\n  out 10 rows\n" in CliRunner().invoke(command.run, [str(shop)]).output


def test_rates_that_a_strategy_was_not_made_for_are_told_in_the_end(shop, monkeypatch):
    about = {"text": "no configuration of the strategy dominates the measured rates", "exceeded": {"orders": 5.0}}
    found = document(shop, output(1), HistoryEvent(1.5, "run", "orchestrator", about), output(2), *COMMITS)
    monkeypatch.setattr(command, "run_in", told(found))
    assert f"\n  warning: {about['text']}\n" in CliRunner().invoke(command.run, [str(shop)]).output


def test_a_run_that_never_began_is_told_without_figures(shop, monkeypatch):
    found = document(shop, state="failed", line=None)
    assert (found["internal_completeness"], found["verdicts"]) == (None, [])
    monkeypatch.setattr(command, "run_in", told(found))
    result = CliRunner().invoke(command.run, [str(shop)])
    assert result.exit_code == 1
    assert result.output.startswith("failed after 3 s")


@pytest.mark.parametrize(
    ("options", "out", "log"),
    [([], None, None), (["--out", "there"], "out", None), (["--log", "s3://b/log"], None, "log"), (["--work", "w"], "out", "log")],
)
def test_where_output_and_log_are_is_said_of_all_that_outlives_the_run(shop, monkeypatch, tmp_path, options, out, log):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(command, "run_in", told(document(shop, output(1), output(2))))
    found = json.loads(CliRunner().invoke(command.run, [str(shop), "--json", *options]).stdout)
    assert (found["out"], found["log"]) == (out, log)
    said = CliRunner().invoke(command.run, [str(shop), *options]).output
    assert [f"output: {out}" in said, f"log: {log}" in said] == [out is not None, log is not None]


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("log/timeline", "the log at '{}/log' belongs to an earlier run; give another --log, or remove it"),
        (
            "out/alerts/00000000000000000001.first.exact.parquet",
            "'{}/out' contains the output of an earlier run for sink 'alerts'; give another --out",
        ),
    ],
)
def test_what_an_earlier_run_has_written_is_not_taken_for_this_ones(shop, tmp_path, file, said):
    left = tmp_path / file
    left.parent.mkdir(parents=True)
    left.write_text(json.dumps(asdict(LINE)))
    options = ["--log", str(tmp_path / "log"), "--out", str(tmp_path / "out"), "--work", str(tmp_path / "run")]
    result = CliRunner().invoke(command.run, [str(shop), *options])
    assert isinstance(result.exception, HoldfastError)
    assert said.format(tmp_path) in str(result.exception)


def test_a_trace_that_is_not_there_is_told_before_anything_starts(shop, tmp_path):
    result = CliRunner().invoke(command.run, [str(shop), "--trace", str(tmp_path / "none"), "--work", str(tmp_path / "run")])
    assert isinstance(result.exception, HoldfastError)
    assert str(result.exception).startswith(f"trace '{tmp_path}/none' does not exist; make one with 'holdfast trace'")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "source 'orders' (shop.py:5) has no reader; give a --trace to replay, or give the source a reader (reader=...)"),
        (["--out", "/proc/none"], "the output's root '/proc/none' cannot be opened"),
        (["--log", "/sys"], "the log at '/sys' cannot be written"),
        (["--out", "/sys"], "the output at '/sys' cannot be written"),
        (["--memory", "potato"], "--memory: wanted a size such as 512m or 4g, got 'potato'"),
        (["--replicas", "large=4"], "large/0 needs 4 replicas, each on its own node, but --nodes is 3; give more nodes"),
        (["--deadline", "1"], "--deadline: is for --protection prediction, which was not asked for"),
        (
            ["--reroute-after", "5", "--deadline", "1"],
            "the run has 2 errors:\n"
            "  - --deadline: is for --protection prediction, which was not asked for; nothing would be predicted\n"
            "  - --reroute-after: is for --protection upstream, which was not asked for; nothing would be re-routed",
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
def test_what_no_node_could_do_is_told_before_anything_starts(shop, tmp_path, monkeypatch, options, said):
    monkeypatch.setattr(LocalCluster, "start", lambda cluster: pytest.fail("nothing is to be started"))
    result = CliRunner().invoke(command.run, [str(shop), "--work", str(tmp_path / "run"), *options])
    assert said in (str(result.exception) if isinstance(result.exception, HoldfastError) else result.output)


def test_columns_that_cannot_be_mapped_are_told_before_anything_starts(shop, tmp_path, monkeypatch):
    monkeypatch.setattr(LocalCluster, "start", lambda cluster: pytest.fail("nothing is to be started"))
    (tmp_path / "trace.csv").write_text("seq\n")
    options = ["--trace", str(tmp_path / "trace.csv"), "--columns", str(tmp_path / "none.yaml"), "--work", str(tmp_path / "run")]
    with pytest.raises(HoldfastError, match=r"mapping '.*none.yaml' cannot be read: No such file or directory"):
        CliRunner().invoke(command.run, [str(shop), *options], catch_exceptions=False)


def test_a_strategy_for_more_hosts_than_nodes_is_told_before_anything_starts():
    task = Task(pe="large", reads=(Reading(stream="orders"),), makes=("large",), replicas=2)
    layout = Layout(application="shop", tasks=(task,), nodes={"large/0": ("h1", "h2"), "small/0": ("h2", "h3")})
    require_nodes(layout, 3)
    with pytest.raises(HoldfastError, match=r"the strategy is for 3 nodes \(h1, h2, h3\), but --nodes is 2; give more nodes"):
        require_nodes(layout, 2)


def test_upstream_backup_beside_adaptation_is_refused_before_anything_starts(shop, tmp_path):
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"topology": "shop", "budget": 1, "replicated": [{"task": "large/0"}]}))
    options = ["--plan", str(plan), "--adapt", "5", "--protection", "upstream", "--work", str(tmp_path / "run")]
    with pytest.raises(DocumentError, match="'upstream' wakes and idles replicas, and so does 'adapt'; give one of them"):
        CliRunner().invoke(command.run, [str(shop), *options], catch_exceptions=False)


def test_a_measured_plan_is_not_adapted(shop, tmp_path):
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"topology": "shop", "objective": "measured", "budget": 1, "replicated": [{"task": "large/0"}]}))
    options = ["--plan", str(plan), "--adapt", "5", "--work", str(tmp_path / "run")]
    with pytest.raises(HoldfastError, match="was made for 'measured', from what injected failures cost"):
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
def test_readers_keep_their_place_in_the_runs_folder_where_the_log_is_no_folder(shop, tmp_path, given, checkpoints):
    options = command.run.make_context("run", [str(shop), *given]).params
    found = command._job(str(shop), tmp_path, options).feed.checkpoints
    assert found == (checkpoints and str(tmp_path / checkpoints))


DIFFERENCE = Difference(7, {"seq": 7}, None)


def test_the_second_law_is_broken_by_a_difference_unless_results_were_left_inexact_by_contract():
    assert second_law("out", None).holds is True
    assert second_law("out", None, left_inexact=2).holds is True
    assert second_law("out", DIFFERENCE).holds is False
    unknown = second_law("out", DIFFERENCE, left_inexact=2)
    assert unknown.holds is None
    assert unknown.reason.startswith("2 inexact results were left as they are, by contract; 'out' differs at seq 7: in one plan")


def test_a_run_whose_trace_is_gone_in_the_end_is_told_with_all_else_that_is_known_of_it(shop, monkeypatch):
    def gone(job, ran):
        raise TraceError("trace 'orders.parquet' does not exist")

    monkeypatch.setattr(command, "_compared", gone)
    found = document(shop, output(1), output(2), verify=True, feed=Feed(trace="orders.parquet"))
    by_name = {verdict["name"]: (verdict["holds"], verdict["reason"]) for verdict in found["verdicts"]}
    assert by_name["nothing lost"][0] is True
    holds, said = by_name["second law at 'out'"]
    assert holds is None
    assert said == "the whole trace could not be run as one plan: trace 'orders.parquet' does not exist"


def test_uncorrected_are_inexact_results_without_a_final_one():
    events = [output(1, quality="tentative"), output(2, quality="absent"), output(3), output(1, "final")]
    assert uncorrected_epochs(events, sink="out") == [2]
    assert uncorrected_epochs(events, sink="other") == []


def test_a_demo_whose_run_failed_says_why(monkeypatch):
    operators = ("market", "trade_quote", "trade_filter", "quote_filter", "aggregator", "vwap", "bargain_index")
    failed = {"state": "failed", "reason": "no node has room", "verdicts": [], "faults": [], "gap_s": {"bargains": None}}
    monkeypatch.setattr(demonstration, "PAST_S", 20)
    monkeypatch.setattr(demonstration, "_measured", lambda *_, **__: (dict.fromkeys(operators, 1.0), dict.fromkeys(operators, "")))
    monkeypatch.setattr(demonstration, "run_in", told(failed))
    with pytest.raises(HoldfastError, match="the run ended as failed; no node has room; please report it"):
        CliRunner().invoke(demonstration.demo, ["--seconds", "20"], catch_exceptions=False)


def test_a_demo_that_cannot_be_shown_is_refused_before_anything_takes_time(monkeypatch):
    monkeypatch.setattr(demonstration, "_measured", lambda *_, **__: pytest.fail("measured first"))
    with pytest.raises(HoldfastError) as told_all:
        CliRunner().invoke(demonstration.demo, ["--seconds", "5", "--budget", "8"], catch_exceptions=False)
    assert str(told_all.value) == (
        "the demo has 2 errors:\n  - --seconds: wanted at least 20, to show a failure and its repair, got 5\n"
        "  - --budget: wanted 1 to 7 replicas, got 8"
    )


def test_a_demo_that_is_kept_says_how_to_look_at_it_again(monkeypatch, tmp_path):
    operators = ("market", "trade_quote", "trade_filter", "quote_filter", "aggregator", "vwap", "bargain_index")
    corrected = {"name": "every tentative result corrected", "holds": True, "reason": "2 corrected", "figures": {"inexact": 2}}
    ran = {"state": "completed", "reason": "", "verdicts": [corrected], "faults": [], "gap_s": {"bargains": 1.5}, "epochs": 20,
           "rows": {"bargains": 7}, "recoveries": [], "report": "run.html"}  # fmt: skip
    monkeypatch.setattr(demonstration, "PAST_S", 20)
    monkeypatch.setattr(demonstration, "_measured", lambda *_, **__: (dict.fromkeys(operators, 1.0), dict.fromkeys(operators, "")))
    monkeypatch.setattr(demonstration, "run_in", told(ran))
    result = CliRunner().invoke(demonstration.demo, ["--seconds", "20", "--work", str(tmp_path / "kept")], catch_exceptions=False)
    assert f"holdfast ui {tmp_path / 'kept' / 'run'}" in result.stdout
    assert {path.name for path in (tmp_path / "kept").iterdir()} == {"market.parquet", "past.parquet", "plan.json", "faults.yaml"}
    with pytest.raises(HoldfastError, match="is not empty; give another --work"):
        CliRunner().invoke(demonstration.demo, ["--work", str(tmp_path / "kept")], catch_exceptions=False)


def test_a_demo_that_broke_a_verdict_names_it_and_one_that_is_unknown_breaks_nothing():
    with pytest.raises(HoldfastError, match="the run ended as completed; 3 epochs never left; please report it"):
        check_ended_well({"state": "completed", "reason": "", "verdicts": [{"holds": False, "reason": "3 epochs never left"}]})
    check_ended_well({"state": "completed", "reason": "", "verdicts": [{"holds": None, "reason": "cannot be told"}]})
