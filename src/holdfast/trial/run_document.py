"""Describe a run as one document: its outcome, figures, faults, recoveries and verdicts. `holdfast run --json` prints it."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from holdfast.app.load import load_app
from holdfast.control import EXCEEDED
from holdfast.documents.column_mapping import read_columns
from holdfast.documents.job import Job
from holdfast.engine.row_comparison import Difference
from holdfast.engine.session import open_session
from holdfast.engine.trace_reader import opened_trace
from holdfast.errors import HoldfastError
from holdfast.log import Store
from holdfast.planning.laar.strategy import read_strategy
from holdfast.terminal import say
from holdfast.trial.checkers import Verdict, check_run, count_output_rows, output_gap_s, recoveries, uncorrected_epochs
from holdfast.trial.completeness import check_promised_completeness, internal_completeness
from holdfast.trial.job_run import INTERRUPTED, JobRun
from holdfast.trial.second_law import (
    completed_timeline,
    differences,
    ingested_rows,
    second_law,
    uncompared_second_law,
    unknown_second_law,
)
from holdfast.trial.switch_times import switches


def describe_run(job: Job, run: JobRun, *, verify: bool) -> dict[str, Any]:
    """Return the document of a run, as plain values. `verify` also checks the second law: if the trace ran to its end, or
    against the rows that readers have ingested."""
    events, timeline = run.events, run.timeline
    sinks = [task.pe for task in run.tasks if task.kind == "sink"]
    verdicts: list[Verdict] = []
    completeness = None
    if timeline is not None:
        deadlines = {task.pe: job.contract_of(task.pe).deadline_s for task in run.tasks}
        completeness = internal_completeness(events, timeline, tasks=run.tasks, deadlines=deadlines)
        verdicts = check_run(events, timeline, sinks=sinks, correction=job.contract.correction, scheduled=run.scheduled)
        if job.strategy is not None:
            verdicts.append(check_promised_completeness(completeness, promised=read_strategy(job.strategy).internal_completeness))
        if verify and run.state == ("completed" if job.feed.trace else "canceled"):
            verdicts += _check_second_law(job, run)
        if run.state == INTERRUPTED:
            verdicts = [v if v.holds else replace(v, holds=None, reason=f"so far, {v.reason}") for v in verdicts]
    latencies = sorted(e.about["latency_s"] for e in events if e.kind == "output" and e.about["as"] == "first")
    return {
        "application": job.application,
        "state": run.state,
        "reason": run.reason,
        "seconds": round(run.seconds, 2),
        "epochs": None if timeline is None or timeline.last is None else timeline.last - timeline.first + 1,
        "rows": {sink: count_output_rows(events, sink=sink) for sink in sinks},
        "latency_s": {"median": latencies[len(latencies) // 2], "worst": latencies[-1]} if latencies else None,
        "gap_s": {sink: output_gap_s(events, sink=sink) for sink in sinks},
        "internal_completeness": None if completeness is None else asdict(completeness),
        "faults": [{"at_s": e.at_s, "what": e.about["what"], "tasks": e.about["tasks"]} for e in events if e.kind == "fault"],
        "unprotected": {e.about["task"]: e.about["why"] for e in events if e.kind == "unprotected"},
        "warnings": [e.about["text"] for e in events if e.kind == "orchestrator" and EXCEEDED in e.about],
        "switches": [asdict(switch) for switch in switches(events)],
        "recoveries": [{**asdict(recovery), "latency_s": recovery.latency_s} for recovery in recoveries(events)],
        "verdicts": [{"name": v.name, "holds": v.holds, "reason": v.reason, "figures": dict(v.figures)} for v in verdicts],
        "log": job.log,
        "out": job.out,
    }


def _check_second_law(job: Job, run: JobRun) -> list[Verdict]:
    """Return a verdict per sink. It is unknown if the sink has a writer, or if the whole trace cannot be replayed."""
    sinks = [task.pe for task in run.tasks if task.kind == "sink"]
    say("comparing the output with a replay of the whole trace ...")
    try:
        by_sink = compare_with_whole_trace(job, run)
    except HoldfastError as error:
        return [unknown_second_law(sink, error) for sink in sinks]
    inexact = {sink: 0 if job.contract.correction else len(uncorrected_epochs(run.events, sink=sink)) for sink in by_sink}
    return [
        second_law(sink, by_sink[sink], uncorrected=inexact[sink]) if sink in by_sink else uncompared_second_law(sink)
        for sink in sinks
    ]


def compare_with_whole_trace(job: Job, run: JobRun) -> dict[str, Difference | None]:
    """Replay the whole trace and return, per sink without a writer, the first row that differs from the output of the run."""
    assert job.application and job.log and job.out and run.timeline
    app = load_app(job.application)
    graph = app.graph()
    mapping = read_columns(Path(job.feed.columns) if job.feed.columns else None, [source.name for source in graph.sources])
    spark = open_session("local[*]", name="holdfast second law", memory="2g")
    log, out = Store(job.log), Store(job.out)
    try:
        if job.feed.trace is None:
            sinks = [sink.name for sink in graph.sinks if sink.writer is None]
            timeline = completed_timeline(out, sinks, run.timeline, correction=job.contract.correction)
            return differences(spark, app, ingested_rows(spark, app, log, run.tasks, timeline), out=out, timeline=timeline)
        with opened_trace(spark, graph, job.feed.trace, columns=mapping) as sources:
            return differences(spark, app, sources, out=out, timeline=run.timeline)
    finally:
        spark.stop()
