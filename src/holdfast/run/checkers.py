"""Verdicts about a run, each a pure function of its history.

A verdict is true, false, or unknown where the history does not tell. What it says can be read without knowing the checker.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from holdfast.run.history import Event
from holdfast.run.timeline import Timeline


@dataclass(frozen=True)
class Verdict:
    """What was checked, whether it holds (None: it cannot be told), what was found, and the figures behind it."""

    name: str
    holds: bool | None
    said: str
    figures: Mapping[str, Any] = field(default_factory=dict)


def check_run(
    events: Sequence[Event], timeline: Timeline, *, sinks: Sequence[str], correction: bool = True, scheduled: int = 0
) -> list[Verdict]:
    """Every verdict that a history allows; `scheduled` is how many faults there were to be."""
    made = [
        nothing_lost(events, timeline, sinks=sinks),
        nothing_duplicated(events),
        no_divergence(events),
    ]
    if correction:
        made.append(all_corrected(events, timeline))
    if scheduled:
        made.append(every_fault_struck(events, scheduled=scheduled))
    return made


def nothing_lost(events: Iterable[Event], timeline: Timeline, *, sinks: Sequence[str]) -> Verdict:
    """Every epoch of the job has left every sink."""
    name = "nothing lost"
    if timeline.last is None:
        return Verdict(name, None, "the job has no end; epochs that are still to come cannot be missed")
    seen: dict[str, set[int]] = defaultdict(set)
    for event in events:
        if event.kind == "output":
            seen[event.about["sink"]].add(event.about["epoch"])
    wanted = range(timeline.first, timeline.last + 1)
    missing = {sink: [epoch for epoch in wanted if epoch not in seen[sink]] for sink in sinks}
    count = sum(map(len, missing.values()))
    if count:
        sink = next(sink for sink in sinks if missing[sink])
        said = f"{count} epochs never left; sink '{sink}' lacks epoch {missing[sink][0]} first"
        return Verdict(name, False, said, {"missing": count})
    return Verdict(name, True, f"all {len(wanted)} epochs left every sink", {"epochs": len(wanted)})


def nothing_duplicated(events: Iterable[Event]) -> Verdict:
    """No epoch left a sink twice, but for its correction."""
    times = Counter((e.about["sink"], e.about["epoch"], e.about["as"]) for e in events if e.kind == "output")
    twice = sorted(key for key, count in times.items() if count > 1)
    if twice:
        sink, epoch, kind = twice[0]
        return Verdict("nothing duplicated", False, f"{len(twice)} epochs left twice, first {kind} of epoch {epoch} at '{sink}'")
    return Verdict("nothing duplicated", True, f"{len(times)} epochs and corrections left once each")


def all_corrected(events: Iterable[Event], timeline: Timeline) -> Verdict:
    """Every result that was not exact when it left was corrected later."""
    open_: set[tuple[str, int]] = set()
    inexact = 0
    for event in events:
        if event.kind == "output":
            key = event.about["sink"], event.about["epoch"]
            if event.about["as"] == "first" and event.about["quality"] != "exact":
                open_.add(key)
                inexact += 1
            elif event.about["as"] == "final":
                open_.discard(key)
    if open_:
        sink, epoch = min(open_)
        said = f"{len(open_)} of {inexact} inexact results were never corrected, first epoch {epoch} at '{sink}'"
        return Verdict("every tentative result corrected", False if timeline.last is not None else None, said, {"open": len(open_)})
    said = (
        f"{inexact} results were tentative, predicted or absent, and were corrected"
        if inexact
        else "every result was exact at once"
    )
    return Verdict("every tentative result corrected", True, said, {"inexact": inexact})


def no_divergence(events: Iterable[Event]) -> Verdict:
    """No two replicas made different exact rows."""
    found = [event.about for event in events if event.kind == "divergence"]
    if found:
        first = found[0]
        said = (
            f"{len(found)} epochs were made differently by two replicas, first epoch {first['epoch']} of '{first['stream']}' "
            f"at seq {first['seq']}: {first['held_by']} has {first['theirs']}, {first['made_by']} has {first['ours']}"
        )
        return Verdict("replicas agree", False, said, {"divergences": len(found)})
    return Verdict("replicas agree", True, "no epoch was made differently by two replicas")


def every_fault_struck(events: Sequence[Event], *, scheduled: int) -> Verdict:
    """Every fault of the schedule came about before the run's end: one that did not has proved nothing.

    A fault of a PE is an order to the hosts; where none has obeyed, its replicas may have been dead already, which is unknown.
    """
    name = "every fault struck"
    faults = [event.about for event in events if event.kind == "fault"]
    if len(faults) < scheduled:
        said = f"{scheduled - len(faults)} of {scheduled} faults were due after the run's end; schedule them earlier"
        return Verdict(name, False, said, {"struck": len(faults), "scheduled": scheduled})
    obeyed = {event.about["order"] for event in events if event.kind == "struck"}
    missed = [about["what"] for about in faults if not obeyed.issuperset(about.get("orders", ()))]
    figures = {"struck": scheduled - len(missed), "scheduled": scheduled}
    if missed:
        return Verdict(name, None, f"{len(missed)} of {scheduled} faults found no living replica, first: {missed[0]}", figures)
    return Verdict(name, True, f"all {scheduled} faults of the schedule came about", figures)


def output_gap_s(events: Iterable[Event], *, sink: str, after_s: float = 0.0) -> float | None:
    """The longest silence of a sink: between two epochs leaving it for the first time. None where fewer than two did."""
    times = [e.at_s for e in events if e.kind == "output" and e.about["sink"] == sink and e.about["as"] == "first"]
    times = sorted(time for time in times if time >= after_s)
    return max((later - earlier for earlier, later in pairwise(times)), default=None)


@dataclass(frozen=True)
class Recovery:
    """How a failed task came back (PPA section VI: recovered when its progress is again what it was before it failed)."""

    task: str
    failed_s: float
    detected_s: float
    started_s: float
    recovered_s: float

    @property
    def latency_s(self) -> float:
        """From the failure being noticed to the task being where it had been: the paper's recovery latency."""
        return self.recovered_s - self.detected_s


def recoveries(events: Sequence[Event]) -> list[Recovery]:
    """Each failure of a task that a new replica made good, from the faults, detections, starts and recoveries of a history.

    A task whose other replica went on never stopped; it has no recovery.
    """
    found: list[Recovery] = []
    failed: dict[str, float] = {}
    noticed: dict[str, float] = {}
    started: dict[str, float] = {}
    for event in events:
        about = event.about
        if event.kind == "fault":
            for task in about.get("tasks", ()):
                failed.setdefault(task, event.at_s)
        elif event.kind == "detected":
            for task in about.get("tasks", ()):
                noticed.setdefault(task, event.at_s)
        elif event.kind == "restored" and about["task"] in noticed:
            started[about["task"]] = event.at_s
        elif event.kind == "recovered" and about["task"] in started:
            task = about["task"]
            at = noticed.pop(task)
            found.append(Recovery(task, failed.pop(task, at), at, started.pop(task), event.at_s))
    return found


def internal_completeness(events: Iterable[Event], *, read: Mapping[str, int]) -> float | None:
    """The share of the tuples that PEs should have processed which they had in time (LAAR Eq. 6 to 8, measured).

    `read` says by how many PEs each stream is read. None where nothing flowed.
    """
    first: dict[tuple[str, int, int], int] = {}
    final: dict[tuple[str, int, int], int] = {}
    for event in events:
        if event.kind == "commit":
            key = event.about["stream"], event.about["task"], event.about["epoch"]
            (first if event.about["as"] == "first" else final)[key] = event.about["rows"]
    due = sum(final.get(key, rows) * read.get(key[0], 0) for key, rows in first.items())
    done = sum(min(rows, final.get(key, rows)) * read.get(key[0], 0) for key, rows in first.items())
    return done / due if due else None
