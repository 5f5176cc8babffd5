"""Verdicts about a run, each a pure function of its history.

A verdict is true, false, or unknown where the history does not tell. What it says can be read without knowing the checker.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf
from typing import Any

from holdfast.documents.history import HistoryEvent
from holdfast.log.timeline import Timeline

LEFT = ("output", "found")
"""What a sink tells of an epoch that has left it: that it let it leave, or found it gone already."""


@dataclass(frozen=True)
class Verdict:
    """What was checked, whether it holds (None: it cannot be told), what was found, and the figures behind it."""

    name: str
    holds: bool | None
    reason: str
    figures: Mapping[str, Any] = field(default_factory=dict)


def check_run(
    events: Sequence[HistoryEvent], timeline: Timeline, *, sinks: Sequence[str], correction: bool = True, scheduled: int = 0
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
        made.append(every_fault_injected(events, scheduled=scheduled))
    return made


def nothing_lost(events: Iterable[HistoryEvent], timeline: Timeline, *, sinks: Sequence[str]) -> Verdict:
    """Every epoch of the job has left every sink."""
    name = "nothing lost"
    if timeline.last is None:
        return Verdict(name, None, "the job has no end; epochs that are still to come cannot be missed")
    seen: dict[str, set[int]] = defaultdict(set)
    for event in events:
        if event.kind in LEFT:
            seen[event.about["sink"]].add(event.about["epoch"])
    wanted = range(timeline.first, timeline.last + 1)
    missing = {sink: [epoch for epoch in wanted if epoch not in seen[sink]] for sink in sinks}
    count = sum(map(len, missing.values()))
    if count:
        sink = next(sink for sink in sinks if missing[sink])
        reason = f"{count} epochs never left; sink '{sink}' lacks epoch {missing[sink][0]} first"
        return Verdict(name, False, reason, {"missing": count})
    return Verdict(name, True, f"all {len(wanted)} epochs left every sink", {"epochs": len(wanted)})


def nothing_duplicated(events: Iterable[HistoryEvent]) -> Verdict:
    """No epoch left a sink twice, but for its correction."""
    times = Counter((e.about["sink"], e.about["epoch"], e.about["as"]) for e in events if e.kind == "output")
    twice = sorted(key for key, count in times.items() if count > 1)
    if twice:
        sink, epoch, kind = twice[0]
        return Verdict("nothing duplicated", False, f"{len(twice)} epochs left twice, first {kind} of epoch {epoch} at '{sink}'")
    return Verdict("nothing duplicated", True, f"{len(times)} epochs and corrections left once each")


def all_corrected(events: Sequence[HistoryEvent], timeline: Timeline) -> Verdict:
    """Every result that was not exact when it left was corrected later."""
    sinks = sorted({event.about["sink"] for event in events if event.kind in LEFT})
    inexact = {(sink, epoch) for sink in sinks for epoch in _inexact(events, sink)}
    open_ = [(sink, epoch) for sink in sinks for epoch in uncorrected_epochs(events, sink=sink)]
    if open_:
        sink, epoch = open_[0]
        reason = f"{len(open_)} of {len(inexact)} inexact results were never corrected, first epoch {epoch} at '{sink}'"
        return Verdict(
            "every tentative result corrected", False if timeline.last is not None else None, reason, {"open": len(open_)}
        )
    reason = (
        f"{len(inexact)} results were tentative, predicted or absent, and were corrected"
        if inexact
        else "every result was exact at once"
    )
    return Verdict("every tentative result corrected", True, reason, {"inexact": len(inexact)})


def uncorrected_epochs(events: Sequence[HistoryEvent], *, sink: str) -> list[int]:
    """The epochs that left a sink as anything but exact and were not corrected."""
    return sorted(_inexact(events, sink) - {epoch for epoch, about in _left(events, sink) if about["as"] == "final"})


def _inexact(events: Sequence[HistoryEvent], sink: str) -> set[int]:
    return {epoch for epoch, about in _left(events, sink) if about["as"] == "first" and about["quality"] != "exact"}


def _left(events: Sequence[HistoryEvent], sink: str) -> list[tuple[int, dict[str, Any]]]:
    return [(event.about["epoch"], event.about) for event in events if event.kind in LEFT and event.about["sink"] == sink]


def no_divergence(events: Iterable[HistoryEvent]) -> Verdict:
    """No two replicas made different exact rows."""
    found = [event.about for event in events if event.kind == "divergence"]
    if found:
        first = found[0]
        reason = (
            f"{len(found)} epochs were made differently by two replicas, first epoch {first['epoch']} of '{first['stream']}' "
            f"at seq {first['seq']}: {first['held_by']} has {first['theirs']}, {first['made_by']} has {first['ours']}"
        )
        return Verdict("replicas agree", False, reason, {"divergences": len(found)})
    return Verdict("replicas agree", True, "no epoch was made differently by two replicas")


def every_fault_injected(events: Sequence[HistoryEvent], *, scheduled: int) -> Verdict:
    """Every fault of the schedule came about before the run's end: one that did not has proved nothing.

    Where a fault found its target dead already, or no host has obeyed an order to strike a PE, it cannot be told.
    """
    name = "every fault injected"
    faults = [event.about for event in events if event.kind == "fault"]
    if len(faults) < scheduled:
        reason = f"{scheduled - len(faults)} of {scheduled} faults were due after the run's end; schedule them earlier"
        return Verdict(name, False, reason, {"injected": len(faults), "scheduled": scheduled})
    obeyed = {event.about["order"] for event in events if event.kind == "struck"}
    missed = [about["what"] for about in faults if about.get("dead") or not obeyed.issuperset(about.get("orders", ()))]
    figures = {"injected": scheduled - len(missed), "scheduled": scheduled}
    if missed:
        return Verdict(name, None, f"{len(missed)} of {scheduled} faults had no live target, first: {missed[0]}", figures)
    return Verdict(name, True, f"all {scheduled} faults of the schedule were injected", figures)


def count_output_rows(events: Sequence[HistoryEvent], *, sink: str) -> int:
    """How many rows have left a sink, those of an epoch that was corrected as its correction has them."""
    left = sorted(_left(events, sink), key=lambda each: each[1]["as"] == "final")
    return sum({epoch: about["rows"] for epoch, about in left}.values())


def output_gap_s(events: Iterable[HistoryEvent], *, sink: str, after_s: float = 0.0) -> float | None:
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


def recoveries(events: Sequence[HistoryEvent]) -> list[Recovery]:
    """Each failure of a task that a new replica made good, from the faults, detections, starts and recoveries of a history.

    A task whose other replica went on never stopped; it has no recovery.
    """
    found: list[Recovery] = []
    failed: dict[str, tuple[float, float]] = {}
    noticed: dict[str, float] = {}
    started: dict[str, float] = {}
    working = _Working()
    for event in events:
        about = event.about
        working.take(event)
        if event.kind == "fault":
            over_s = inf if about.get("for_s") is None else event.at_s + about["for_s"]
            for task in about.get("tasks", ()):
                if task not in noticed and failed.get(task, (0.0, -inf))[1] < event.at_s:
                    failed[task] = event.at_s, over_s
        elif event.kind == "detected":
            for task in about.get("tasks", ()):
                if not working.replicas[task]:
                    noticed.setdefault(task, event.at_s)
                elif task in failed:  # it has done no harm; the next fault is another matter
                    failed[task] = failed[task][0], event.at_s
        elif event.kind == "restored" and about["task"] in noticed:
            started[about["task"]] = event.at_s
        elif event.kind == "recovered" and about["task"] in started:
            task = about["task"]
            at = noticed.pop(task)
            found.append(Recovery(task, failed.pop(task, (at, at))[0], at, started.pop(task), event.at_s))
    return found


class _Working:
    """Which replicas of each task are at work, as far as a history tells: from being restored to failing or being idled."""

    def __init__(self) -> None:
        self.replicas: dict[str, set[Any]] = defaultdict(set)
        self._started: dict[tuple[str, str], str] = {}

    def take(self, event: HistoryEvent) -> None:
        about = event.about
        if event.kind == "start":
            task = _task_of(about["replica"])
            self._started[event.by, task] = about["replica"]
            self.replicas[task].discard(about["replica"])
        elif event.kind == "restored":
            task = about["task"]
            self.replicas[task].add(about.get("replica", self._started.get((event.by, task), event.by)))
        elif event.kind == "detected":
            for task in about.get("tasks", ()):
                self.replicas[task] -= {about.get("replica"), about.get("node")}
        elif event.kind == "orchestrator" and about.get("text") == "idled" and about.get("replica"):
            self.replicas[_task_of(about["replica"])].discard(about["replica"])


def _task_of(replica: str) -> str:
    """The task of a replica's key.

    >>> _task_of("1:vwap/0.1")
    'vwap/0'
    """
    return replica.split(":", 1)[1].rsplit(".", 1)[0]
