"""The one page of a run: its verdicts, its output over time, faults and recoveries, nodes, decisions and where the output lies."""

from collections.abc import Mapping, Sequence, Set
from itertools import pairwise
from pathlib import Path
from typing import Any

from holdfast.documents.history import HistoryEvent
from holdfast.documents.job import Task
from holdfast.log.timeline import Timeline
from holdfast.report.page import cards, heading, html_page, long_table, paragraph, table, verdicts
from holdfast.report.run_plots import RunPlots
from holdfast.trial.checkers import Recovery, recoveries
from holdfast.trial.completeness import Completeness
from holdfast.trial.run_timeseries import Decision, Placement, decisions, placements

MEANINGS = {
    "nothing lost": "every epoch of the job has left every sink",
    "nothing duplicated": "no epoch left a sink twice, but for its correction",
    "replicas agree": "no two replicas made different exact rows of one epoch",
    "every tentative result corrected": "what was not exact when it left was replaced by what is",
    "every fault injected": "every fault of the schedule was injected before the run ended",
    "internal completeness": "PEs had as many of their tuples in time as the strategy promises",
    "second law": "when all is quiet the output is what the whole trace gives as one plan, whatever was killed",
}
"""What each verdict speaks of, by how its name begins."""

BEFORE = "before"
"""The moment of what was decided while the job was being dispatched."""

SHOWN, HISTORY = 80, "in the history"
"""Rows of a table on the page, and who has all."""


def run_page(
    document: Mapping[str, Any],
    *,
    events: Sequence[HistoryEvent],
    tasks: Sequence[Task],
    timeline: Timeline | None,
    history: Path | None = None,
) -> str:
    """The page. `document` is what `holdfast run` says of the run, `history` the folder that its events lie in."""
    name = Path(document["application"]).stem
    parts = [paragraph(_summary(document)), heading("Verdicts")]
    parts += _verdicts(document["verdicts"])
    if timeline is not None:
        parts += _over_time(events, tasks, timeline)
        found = placements(events)
        parts += _faults(events, tasks, found, zero_s=timeline.opened_s)
        parts += _places(found, tasks, zero_s=timeline.opened_s)
        parts += _decisions(decisions(events), zero_s=timeline.opened_s)
    parts += _places_of_files(document, history)
    return html_page(f"A run of {name}", parts)


def _summary(document: Mapping[str, Any]) -> str:
    said = [f"{document['state']} after {document['seconds']:,.0f} s" + (f": {document['reason']}" if document["reason"] else "")]
    if document["epochs"]:
        rows = ", ".join(f"{rows:,} rows at {sink}" for sink, rows in document["rows"].items())
        said.append(f"{document['epochs']:,} epochs, {rows}")
    if document["latency_s"]:
        latency = document["latency_s"]
        said.append(
            f"from an epoch's close to its output it took {latency['median']:.2f} s (median), {latency['worst']:.2f} s at worst"
        )
    silences = {sink: gap for sink, gap in document["gap_s"].items() if gap is not None}
    if silences:
        said.append("longest silence: " + ", ".join(f"{gap:.2f} s at {sink}" for sink, gap in silences.items()))
    if document["internal_completeness"] is not None:
        said.append(
            f"share of tuples processed in time (internal completeness): {Completeness(**document['internal_completeness'])}"
        )
    return ". ".join(text[0].upper() + text[1:] for text in said) + "."


def _verdicts(found: Sequence[Mapping[str, Any]]) -> list[str]:
    if not found:
        return [paragraph("The run ended before there was anything to judge.")]
    broken = [verdict["name"] for verdict in found if verdict["holds"] is False]
    unknown = [verdict["name"] for verdict in found if verdict["holds"] is None]
    said = [
        *([f"Broken: {', '.join(broken)}."] if broken else []),
        *([f"Not to be told: {', '.join(unknown)}."] if unknown else []),
    ]
    rows = []
    for verdict in found:
        meaning = next((text for start, text in MEANINGS.items() if verdict["name"].startswith(start)), None)
        name = f"{verdict['name']}: {meaning}" if meaning else verdict["name"]
        rows.append((name, verdict["holds"], verdict["reason"]))
    return [paragraph(" ".join(said) or "All of them hold."), verdicts(rows)]


def _over_time(events: Sequence[HistoryEvent], tasks: Sequence[Task], timeline: Timeline) -> list[str]:
    faults = [event.at_s for event in events if event.kind == "fault"]
    plots = RunPlots(events, tasks, timeline, faults=faults, recovered=recoveries(events))
    sinks = [task.pe for task in tasks if task.kind == "sink"]
    outputs, cpu = [draw(sink) for sink in sinks for draw in (plots.output, plots.latency)], plots.cpu()
    marks = (
        " Numbered lines are faults, as in the table below; shaded is the time until what they struck was back." if faults else ""
    )
    return [
        heading("Over time"),
        paragraph(
            "Exact rows are final. Tentative ones were made without a dead PE's input, predicted ones in place of a late one's; "
            f"where an epoch was absent there was nothing to write. Corrected rows replace such rows.{marks}",
            note=True,
        ),
        cards([*outputs, plots.lag(), *([cpu] if cpu is not None else [])]),
    ]


def _faults(events: Sequence[HistoryEvent], tasks: Sequence[Task], found: Sequence[Placement], *, zero_s: float) -> list[str]:
    struck = [event for event in events if event.kind == "fault"]
    back = recoveries(events)
    if not struck and not back:
        return [heading("Faults"), paragraph("Nothing failed.")]
    parts = [heading("Faults and recoveries")]
    if struck:
        rows = [
            (
                str(number),
                f"{event.at_s - zero_s:.1f}",
                "-" if event.about.get("for_s") is None else f"{event.about['for_s']:g}",
                event.about["what"],
                ", ".join(event.about.get("tasks", ())) or "-",
            )
            for number, event in enumerate(struck, 1)
        ]
        columns = ("no.", "at (s)", "for (s)", "fault", "struck")
        parts.append(long_table(columns, rows, most=SHOWN, where=HISTORY, words=("struck",), names=("fault",)))
    steps = ("task", "failed at (s)", "noticed after (s)", "restarted after (s)", "caught up after (s)", "in all (s)")
    shown = [(each.failed_s, each.task, _recovery(each, zero_s)) for each in back]
    shown += _others(events, {each.task for each in back}, tasks, found, zero_s=zero_s)
    if shown:
        said = (
            "Each step counts from the one before it: the failure, its being noticed, the new start. Sources and sinks keep no "
            "rows and have nothing to catch up with."
        )
        told = [row for _, _, row in sorted(shown)]
        parts += [paragraph(said, note=True), long_table((*steps, "how"), told, most=SHOWN, where=HISTORY, names=("how",))]
    return parts


def _recovery(each: Recovery, zero_s: float) -> tuple[str, ...]:
    moments = (each.failed_s, each.detected_s, each.started_s, each.recovered_s)
    steps = [f"{later - earlier:.1f}" for earlier, later in pairwise(moments)]
    return each.task, f"{each.failed_s - zero_s:.1f}", *steps, f"{each.recovered_s - each.failed_s:.1f}", "from its checkpoint"


def _others(
    events: Sequence[HistoryEvent], recovered: Set[str], tasks: Sequence[Task], found: Sequence[Placement], *, zero_s: float
) -> list[tuple[float, str, tuple[str, ...]]]:
    """What became of struck tasks that no recovery speaks of: started anew, or gone on without that."""
    replicas = {task.name: task.replicas for task in tasks}
    rows: dict[str, tuple[float, str, tuple[str, ...]]] = {}
    for event in events:
        for task in event.about.get("tasks", ()) if event.kind == "fault" else ():
            if task in recovered or task in rows:
                continue
            at_s = event.at_s
            noticed = next((e.at_s for e in events if e.kind == "detected" and e.at_s >= at_s and task in e.about["tasks"]), None)
            anew = next((stay.from_s for stay in found if stay.task == task and stay.from_s > at_s), None)
            times = ["-", "-", "-", "-"]
            how = "another replica went on" if replicas.get(task, 1) > 1 else "was not restarted"
            if noticed is not None:
                times[0] = f"{noticed - at_s:.1f}"
            if noticed is not None and anew is not None and anew >= noticed:
                times[1], times[3], how = f"{anew - noticed:.1f}", f"{anew - at_s:.1f}", "started anew"
            rows[task] = at_s, task, (task, f"{at_s - zero_s:.1f}", *times, how)
    return list(rows.values())


def _places(found: Sequence[Placement], tasks: Sequence[Task], *, zero_s: float) -> list[str]:
    """A table of tasks by nodes: which replica was where, and when, where that was not throughout."""
    nodes = sorted({stay.node for stay in found})
    if not nodes:
        return []

    def cell(task: str, node: str) -> str:
        return ", ".join(_stay(stay, zero_s) for stay in found if stay.task == task and stay.node == node) or "-"

    rows = [(task.name, *(cell(task.name, node) for node in nodes)) for task in tasks]
    return [
        heading("Replicas by node"),
        paragraph("A replica by its number; 0 is the primary. Times are those at which it came or went."),
        long_table(("task", *nodes), rows, most=SHOWN, where=HISTORY, names=nodes),
    ]


def _stay(stay: Placement, zero_s: float) -> str:
    came = f" from {stay.from_s - zero_s:.1f} s" if stay.from_s > zero_s else ""
    went = f" until {stay.to_s - zero_s:.1f} s" if stay.to_s is not None else ""
    return f"{stay.replica}{came}{went}"


def _decisions(found: Sequence[Decision], *, zero_s: float) -> list[str]:
    if not found:
        return [heading("Decisions"), paragraph("The orchestrator had nothing to decide.")]
    rows = [(_span(each, zero_s), _said(each), ", ".join(each.about) or "-") for each in found]
    columns = ("at (s)", "what was done", "about")
    early = [paragraph("Before: while the job was dispatched.", note=True)] if any(row[0] == BEFORE for row in rows) else []
    return [heading("Decisions"), *early, long_table(columns, rows, most=SHOWN, where=HISTORY, words=columns[1:])]


def _said(each: Decision) -> str:
    return f"committed {each.epochs:,} absent epochs until they were back" if each.epochs else each.what


def _span(each: Decision, zero_s: float) -> str:
    if each.to_s < zero_s:
        return BEFORE
    began, ended = f"{each.from_s - zero_s:.1f}", f"{each.to_s - zero_s:.1f}"
    return began if began == ended else f"{began} to {ended}"


def _places_of_files(document: Mapping[str, Any], history: Path | None) -> list[str]:
    rows = [(what, path) for what, path in (("output of the sinks", document["out"]), ("epoch log", document["log"])) if path]
    if history is not None:
        rows.append(("history", f"{history} (history*.jsonl)"))
    return [
        heading("Where it lies"),
        table(("what", "where"), rows, words=("where",)),
        *([paragraph(f"holdfast ui {history} plays the run back.", note=True)] if history is not None else []),
    ]
