"""The document of a run: the second law."""

from holdfast.documents.history import HistoryEvent
from holdfast.documents.job import Feed, Job, Task
from holdfast.engine.row_comparison import Difference
from holdfast.errors import TraceError
from holdfast.log.timeline import Timeline
from holdfast.trial.checkers import uncorrected_epochs
from holdfast.trial.job_run import JobRun
from holdfast.trial.run_document import describe_run
from holdfast.trial.second_law import second_law

TIMELINE = Timeline(first=1, last=2, epoch_s=1.0, opened_s=0.0)
DIFFERENCE = Difference(7, {"seq": 7}, None)


def output(epoch, kind="first", quality="exact"):
    about = {"sink": "out", "epoch": epoch, "as": kind, "quality": quality, "rows": 5, "latency_s": 0.5}
    return HistoryEvent(float(epoch), "n1", "output", about)


def test_difference_breaks_the_second_law_unless_the_contract_allows_it():
    assert second_law("out", None).holds is True
    assert second_law("out", None, uncorrected=2).holds is True
    assert second_law("out", DIFFERENCE).holds is False
    unknown = second_law("out", DIFFERENCE, uncorrected=2)
    assert unknown.holds is None
    assert unknown.reason.startswith("2 results stayed inexact, as the contract allows; 'out' differs at seq 7: in the replay")


def test_second_law_is_unknown_if_the_trace_was_removed(monkeypatch):
    def fail(job, run):
        raise TraceError("trace 'orders.parquet' does not exist")

    monkeypatch.setattr("holdfast.trial.run_document.compare_with_whole_trace", fail)
    job = Job(job="shop", application="shop.py", log="log", out="out", feed=Feed(trace="orders.parquet"))
    run = JobRun("completed", "", (Task(pe="out", kind="sink"),), TIMELINE, [output(1), output(2)], seconds=3.0)
    verdicts = {verdict["name"]: verdict for verdict in describe_run(job, run, verify=True)["verdicts"]}
    assert verdicts["nothing lost"]["holds"] is True
    law = verdicts["second law at 'out'"]
    assert law["holds"] is None
    assert law["reason"] == "the whole trace could not be replayed: trace 'orders.parquet' does not exist"


def test_second_law_is_unknown_at_a_sink_with_a_writer(monkeypatch):
    monkeypatch.setattr("holdfast.trial.run_document.compare_with_whole_trace", lambda job, run: {"out": None})
    job = Job(job="shop", application="shop.py", log="log", out="out", feed=Feed(trace="orders.parquet"))
    tasks = (Task(pe="out", kind="sink"), Task(pe="table", kind="sink"))
    run = JobRun("completed", "", tasks, TIMELINE, [output(1), output(2)], seconds=3.0)
    verdicts = {verdict["name"]: verdict for verdict in describe_run(job, run, verify=True)["verdicts"]}
    assert verdicts["second law at 'out'"]["holds"] is True
    law = verdicts["second law at 'table'"]
    assert law["holds"] is None
    assert law["reason"].startswith("what the writer of 'table' wrote was not compared with the whole-trace replay")


def test_uncorrected_epochs_are_inexact_without_a_final_output():
    events = [output(1, quality="tentative"), output(2, quality="absent"), output(3), output(1, "final")]
    assert uncorrected_epochs(events, sink="out") == [2]
    assert uncorrected_epochs(events, sink="other") == []
