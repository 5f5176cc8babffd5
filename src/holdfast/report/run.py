"""Write the report of a run: verdicts, output over time, faults and recoveries, placement, decisions and file locations."""

from collections.abc import Mapping, Sequence, Set
from itertools import pairwise
from pathlib import Path
from typing import Any

from holdfast.documents.history import HistoryEvent
from holdfast.documents.job import Task
from holdfast.log.timeline import Timeline
from holdfast.plural import counted
from holdfast.report.page import cards, heading, html_page, long_table, paragraph, table, verdicts
from holdfast.report.run_plots import RunPlots
from holdfast.trial.checkers import Recovery, recoveries
from holdfast.trial.completeness import Completeness
from holdfast.trial.run_timeseries import Decision, Placement, decisions, placements
from holdfast.trial.switch_times import describe_switch

MEANINGS = {
    "nothing lost": "every sink has output every epoch of the job",
    "nothing duplicated": "no sink output an epoch twice, except to correct it",
    "replicas agree": "no two replicas computed different exact rows of an epoch",
    "every tentative result corrected": "every output that was not exact was replaced by the exact one",
    "every fault injected": "every fault of the schedule was injected before the run ended",
    "internal completeness": "PEs processed at least the share of tuples in time that the strategy promises",
    "second law": "after all faults, the output equals the whole trace run as one plan",
}
"""What each verdict means, by the beginning of its name."""

BEFORE = "before"
"""The time shown for decisions that were made before the first epoch opened."""

SHOWN, HISTORY = 80, "in the history"
"""How many rows of a table the page shows, and where the others are."""


def run_page(
    document: Mapping[str, Any],
    *,
    events: Sequence[HistoryEvent],
    tasks: Sequence[Task],
    timeline: Timeline | None,
    history: Path | None = None,
) -> str:
    """Return the page. `document` is the document of the run, `history` the folder with the files of its events."""
    name = Path(document["application"]).stem
    parts = [paragraph(_summary(document)), heading("Verdicts")]
    parts += _verdicts(document["verdicts"])
    if timeline is not None:
        parts += _over_time(events, tasks, timeline)
        stays = placements(events)
        parts += _faults(events, tasks, stays, zero_s=timeline.opened_s)
        parts += _placement(stays, tasks, zero_s=timeline.opened_s)
        parts += _decisions(decisions(events), zero_s=timeline.opened_s)
    parts += _files(document, history)
    return html_page(f"A run of {name}", parts)


def _summary(document: Mapping[str, Any]) -> str:
    sentences = [
        f"{document['state']} after {document['seconds']:,.0f} s" + (f": {document['reason']}" if document["reason"] else "")
    ]
    if document["epochs"]:
        rows = ", ".join(f"{rows:,} rows at {sink}" for sink, rows in document["rows"].items())
        sentences.append(f"{document['epochs']:,} epochs, {rows}")
    if document["latency_s"]:
        latency = document["latency_s"]
        sentences.append(
            f"from an epoch's close to its output it took {latency['median']:.2f} s (median), {latency['worst']:.2f} s at worst"
        )
    silences = {sink: gap for sink, gap in document["gap_s"].items() if gap is not None}
    if silences:
        sentences.append("longest silence: " + ", ".join(f"{gap:.2f} s at {sink}" for sink, gap in silences.items()))
    if document["internal_completeness"] is not None:
        sentences.append(
            f"share of tuples processed in time (internal completeness): {Completeness(**document['internal_completeness'])}"
        )
    sentences += [describe_switch(switch) for switch in document["switches"]]
    return ". ".join(text[0].upper() + text[1:] for text in sentences) + "."


def _verdicts(documents: Sequence[Mapping[str, Any]]) -> list[str]:
    if not documents:
        return [paragraph("The run ended before there was anything to check.")]
    broken = [verdict["name"] for verdict in documents if verdict["holds"] is False]
    unknown = [verdict["name"] for verdict in documents if verdict["holds"] is None]
    summary = [
        *([f"Broken: {', '.join(broken)}."] if broken else []),
        *([f"Unknown: {', '.join(unknown)}."] if unknown else []),
    ]
    rows = []
    for verdict in documents:
        meaning = next((text for start, text in MEANINGS.items() if verdict["name"].startswith(start)), None)
        name = f"{verdict['name']}: {meaning}" if meaning else verdict["name"]
        rows.append((name, verdict["holds"], verdict["reason"]))
    return [paragraph(" ".join(summary) or "All verdicts hold."), verdicts(rows)]


def _over_time(events: Sequence[HistoryEvent], tasks: Sequence[Task], timeline: Timeline) -> list[str]:
    faults = [event.at_s for event in events if event.kind == "fault"]
    plots = RunPlots(events, tasks, timeline, faults=faults, recovered=recoveries(events))
    sinks = [task.pe for task in tasks if task.kind == "sink"]
    outputs, cpu = [draw(sink) for sink in sinks for draw in (plots.output, plots.latency)], plots.cpu()
    marks = (
        " Numbered lines are faults, as in the table below. The shaded time is until the failed tasks had recovered."
        if faults
        else ""
    )
    return [
        heading("Over time"),
        paragraph(
            "Exact rows are final. Tentative rows were computed without the input of a dead PE, predicted rows for a late PE. "
            f"For an absent epoch there was nothing to write. Corrected rows replace all of these.{marks}",
            note=True,
        ),
        cards([*outputs, plots.lag(), *([cpu] if cpu is not None else [])]),
    ]


def _faults(events: Sequence[HistoryEvent], tasks: Sequence[Task], stays: Sequence[Placement], *, zero_s: float) -> list[str]:
    faults = [event for event in events if event.kind == "fault"]
    recovered = recoveries(events)
    if not faults and not recovered:
        return [heading("Faults"), paragraph("Nothing failed.")]
    parts = [heading("Faults and recoveries")]
    if faults:
        rows = [
            (
                str(number),
                f"{event.at_s - zero_s:.1f}",
                "-" if event.about.get("for_s") is None else f"{event.about['for_s']:g}",
                event.about["what"],
                ", ".join(event.about.get("tasks", ())) or "-",
            )
            for number, event in enumerate(faults, 1)
        ]
        columns = ("no.", "at (s)", "for (s)", "fault", "affected tasks")
        parts.append(long_table(columns, rows, most=SHOWN, where=HISTORY, words=("affected tasks",), names=("fault",)))
    steps = ("task", "failed at (s)", "detected after (s)", "restarted after (s)", "caught up after (s)", "in all (s)")
    timed_rows = [(recovery.failed_s, recovery.task, _recovery_row(recovery, zero_s)) for recovery in recovered]
    timed_rows += _unrecovered_rows(events, {recovery.task for recovery in recovered}, tasks, stays, zero_s=zero_s)
    if timed_rows:
        note = (
            "Each step counts from the step before it: failure, detection, restart. Sources and sinks keep no rows and have "
            "nothing to catch up with."
        )
        recovery_rows = [row for _, _, row in sorted(timed_rows)]
        parts += [paragraph(note, note=True), long_table((*steps, "how"), recovery_rows, most=SHOWN, where=HISTORY, names=("how",))]
    return parts


def _recovery_row(recovery: Recovery, zero_s: float) -> tuple[str, ...]:
    moments = (recovery.failed_s, recovery.detected_s, recovery.started_s, recovery.recovered_s)
    steps = [f"{later - earlier:.1f}" for earlier, later in pairwise(moments)]
    total = f"{recovery.recovered_s - recovery.failed_s:.1f}"
    return recovery.task, f"{recovery.failed_s - zero_s:.1f}", *steps, total, "from its checkpoint"


def _unrecovered_rows(
    events: Sequence[HistoryEvent], recovered: Set[str], tasks: Sequence[Task], stays: Sequence[Placement], *, zero_s: float
) -> list[tuple[float, str, tuple[str, ...]]]:
    """Return rows for the affected tasks without a recovery: they restarted, continued on another replica, or did not restart."""
    replicas = {task.name: task.replicas for task in tasks}
    rows: dict[str, tuple[float, str, tuple[str, ...]]] = {}
    for event in events:
        for task in event.about.get("tasks", ()) if event.kind == "fault" else ():
            if task in recovered or task in rows:
                continue
            at_s = event.at_s
            detected_s = next(
                (e.at_s for e in events if e.kind == "detected" and e.at_s >= at_s and task in e.about["tasks"]), None
            )
            restarted_s = next((stay.from_s for stay in stays if stay.task == task and stay.from_s > at_s), None)
            times = ["-", "-", "-", "-"]
            how = "another replica continued" if replicas.get(task, 1) > 1 else "was not restarted"
            if detected_s is not None:
                times[0] = f"{detected_s - at_s:.1f}"
            if detected_s is not None and restarted_s is not None and restarted_s >= detected_s:
                times[1], times[3], how = f"{restarted_s - detected_s:.1f}", f"{restarted_s - at_s:.1f}", "restarted"
            rows[task] = at_s, task, (task, f"{at_s - zero_s:.1f}", *times, how)
    return list(rows.values())


def _placement(stays: Sequence[Placement], tasks: Sequence[Task], *, zero_s: float) -> list[str]:
    """Return a table of tasks by nodes: which replica ran where, with times if it did not run there throughout."""
    nodes = sorted({stay.node for stay in stays})
    if not nodes:
        return []

    def cell(task: str, node: str) -> str:
        return ", ".join(_stay(stay, zero_s) for stay in stays if stay.task == task and stay.node == node) or "-"

    rows = [(task.name, *(cell(task.name, node) for node in nodes)) for task in tasks]
    return [
        heading("Replicas by node"),
        paragraph("The numbers are replicas; 0 is the primary. The times are when a replica started or ended on the node."),
        long_table(("task", *nodes), rows, most=SHOWN, where=HISTORY, names=nodes),
    ]


def _stay(stay: Placement, zero_s: float) -> str:
    start = f" from {stay.from_s - zero_s:.1f} s" if stay.from_s > zero_s else ""
    end = f" until {stay.to_s - zero_s:.1f} s" if stay.to_s is not None else ""
    return f"{stay.replica}{start}{end}"


def _decisions(all_decisions: Sequence[Decision], *, zero_s: float) -> list[str]:
    if not all_decisions:
        return [heading("Decisions"), paragraph("The orchestrator made no decisions.")]
    rows = [(_span(decision, zero_s), _decision_text(decision), ", ".join(decision.about) or "-") for decision in all_decisions]
    columns = ("at (s)", "decision", "about")
    early = [paragraph("Before: while the job was dispatched.", note=True)] if any(row[0] == BEFORE for row in rows) else []
    return [heading("Decisions"), *early, long_table(columns, rows, most=SHOWN, where=HISTORY, words=columns[1:])]


def _decision_text(decision: Decision) -> str:
    return f"committed {counted(decision.epochs, 'absent epoch')} until they were back" if decision.epochs else decision.what


def _span(decision: Decision, zero_s: float) -> str:
    if decision.to_s < zero_s:
        return BEFORE
    began, ended = f"{decision.from_s - zero_s:.1f}", f"{decision.to_s - zero_s:.1f}"
    return began if began == ended else f"{began} to {ended}"


def _files(document: Mapping[str, Any], history: Path | None) -> list[str]:
    rows = [(what, path) for what, path in (("output of the sinks", document["out"]), ("epoch log", document["log"])) if path]
    if history is not None:
        rows.append(("history", f"{history} (history*.jsonl)"))
    return [
        heading("Files"),
        table(("what", "where"), rows, words=("where",)),
        *([paragraph(f"holdfast ui {history} plays the run back.", note=True)] if history is not None else []),
    ]
