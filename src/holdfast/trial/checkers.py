"""Checkers of a run. Each is a pure function from a history to a verdict.

A verdict is true, false, or unknown if the history is not sufficient to decide. Its reason is readable without this code.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf
from typing import Any

from holdfast.documents.history import HistoryEvent
from holdfast.log.timeline import Timeline
from holdfast.plural import counted

OUTPUT_KINDS = ("output", "existing")
"""Events of an epoch that left a sink: the sink wrote it, or a restarted sink saw that it was already written."""


@dataclass(frozen=True)
class Verdict:
    """The result of one check: its name, whether it holds (None: unknown), the reason, and the figures behind it."""

    name: str
    holds: bool | None
    reason: str
    figures: Mapping[str, Any] = field(default_factory=dict)


def check_run(
    events: Sequence[HistoryEvent], timeline: Timeline, *, sinks: Sequence[str], correction: bool = True, scheduled: int = 0
) -> list[Verdict]:
    """Return the verdicts on a history. `correction`: the contract demands corrections. `scheduled` counts the scheduled faults."""
    verdicts = [
        nothing_lost(events, timeline, sinks=sinks),
        nothing_duplicated(events),
        no_divergence(events),
    ]
    if correction:
        verdicts.append(all_corrected(events, timeline))
    if scheduled:
        verdicts.append(every_fault_injected(events, scheduled=scheduled))
    return verdicts


def nothing_lost(events: Iterable[HistoryEvent], timeline: Timeline, *, sinks: Sequence[str]) -> Verdict:
    """Check that every epoch of the job left every sink."""
    name = "nothing lost"
    if timeline.last is None:
        return Verdict(name, None, "the job has no last epoch, so none can be missing")
    epochs_of_sink: dict[str, set[int]] = defaultdict(set)
    for event in events:
        if event.kind in OUTPUT_KINDS:
            epochs_of_sink[event.about["sink"]].add(event.about["epoch"])
    expected = range(timeline.first, timeline.last + 1)
    missing = {sink: [epoch for epoch in expected if epoch not in epochs_of_sink[sink]] for sink in sinks}
    count = sum(map(len, missing.values()))
    if count:
        sink = next(sink for sink in sinks if missing[sink])
        reason = f"{counted(count, 'epoch')} never left a sink, first epoch {missing[sink][0]} at '{sink}'"
        return Verdict(name, False, reason, {"missing": count})
    return Verdict(name, True, f"all {counted(len(expected), 'epoch')} left every sink", {"epochs": len(expected)})


def nothing_duplicated(events: Iterable[HistoryEvent]) -> Verdict:
    """Check that no epoch, and no correction of one, left a sink twice."""
    counts = Counter((e.about["sink"], e.about["epoch"], e.about["as"]) for e in events if e.kind == "output")
    duplicates = sorted(key for key, count in counts.items() if count > 1)
    if duplicates:
        sink, epoch, kind = duplicates[0]
        return Verdict(
            "nothing duplicated",
            False,
            f"{counted(len(duplicates), 'epoch')} left twice, first {kind} of epoch {epoch} at '{sink}'",
        )
    return Verdict("nothing duplicated", True, f"{len(counts)} epochs and corrections left once each")


def all_corrected(events: Sequence[HistoryEvent], timeline: Timeline) -> Verdict:
    """Check that every result that was not exact was corrected later."""
    name = "every tentative result corrected"
    sinks = sorted({event.about["sink"] for event in events if event.kind in OUTPUT_KINDS})
    inexact = {(sink, epoch) for sink in sinks for epoch in _inexact(events, sink)}
    uncorrected = [(sink, epoch) for sink in sinks for epoch in uncorrected_epochs(events, sink=sink)]
    if uncorrected:
        sink, epoch = uncorrected[0]
        reason = f"{len(uncorrected)} of {len(inexact)} inexact results were never corrected, first epoch {epoch} at '{sink}'"
        return Verdict(name, False if timeline.last is not None else None, reason, {"uncorrected": len(uncorrected)})
    overtaken = sorted((event.about["sink"], event.about["epoch"]) for event in events if event.kind == "overtaken")
    if overtaken:
        sink, epoch = overtaken[0]
        reason = (
            f"the writer of sink '{sink}' returned after another replica had taken over epoch {epoch}, and may have replaced newer "
            "rows; give the writer function a parameter 'token'"
        )
        return Verdict(name, None, reason, {"overtaken": len(overtaken)})
    if not inexact:
        return Verdict(name, True, "every first result was exact", {"inexact": 0})
    reason = f"all results that were tentative, predicted or absent at first were corrected: {len(inexact)}"
    return Verdict(name, True, reason, {"inexact": len(inexact)})


def uncorrected_epochs(events: Sequence[HistoryEvent], *, sink: str) -> list[int]:
    """Return the epochs whose first result at a sink was not exact and was never corrected."""
    return sorted(_inexact(events, sink) - {epoch for epoch, about in _outputs(events, sink) if about["as"] == "final"})


def _inexact(events: Sequence[HistoryEvent], sink: str) -> set[int]:
    return {epoch for epoch, about in _outputs(events, sink) if about["as"] == "first" and about["quality"] != "exact"}


def _outputs(events: Sequence[HistoryEvent], sink: str) -> list[tuple[int, dict[str, Any]]]:
    return [(event.about["epoch"], event.about) for event in events if event.kind in OUTPUT_KINDS and event.about["sink"] == sink]


def no_divergence(events: Iterable[HistoryEvent]) -> Verdict:
    """Check that no two replicas produced different exact rows for an epoch."""
    divergences = [event.about for event in events if event.kind == "divergence"]
    if divergences:
        first = divergences[0]
        reason = (
            f"two replicas produced different rows for {counted(len(divergences), 'epoch')}, first epoch {first['epoch']} "
            f"of '{first['stream']}' at seq {first['seq']}: "
            f"{first['held_by']} has {first['theirs']}, {first['made_by']} has {first['ours']}"
        )
        return Verdict("replicas agree", False, reason, {"divergences": len(divergences)})
    return Verdict("replicas agree", True, "no two replicas produced different rows")


def every_fault_injected(events: Sequence[HistoryEvent], *, scheduled: int) -> Verdict:
    """Check that every fault of the schedule was injected before the run ended, because a missing fault tests nothing.

    The verdict is unknown if a fault's target was already dead, or if no PE host executed an order to inject a fault into a PE.
    """
    name = "every fault injected"
    faults = [event.about for event in events if event.kind == "fault"]
    if len(faults) < scheduled:
        reason = f"{scheduled - len(faults)} of {scheduled} faults were due after the run's end; schedule them earlier"
        return Verdict(name, False, reason, {"injected": len(faults), "scheduled": scheduled})
    executed = {event.about["order"] for event in events if event.kind == "injected"}
    missed = [about["what"] for about in faults if about.get("dead") or not executed.issuperset(about.get("orders", ()))]
    figures = {"injected": scheduled - len(missed), "scheduled": scheduled}
    if missed:
        return Verdict(name, None, f"{len(missed)} of {scheduled} faults had no live target, first: {missed[0]}", figures)
    return Verdict(name, True, f"all faults of the schedule were injected: {scheduled}", figures)


def count_output_rows(events: Sequence[HistoryEvent], *, sink: str) -> int:
    """Return how many rows left a sink. For a corrected epoch only the rows of its correction count."""
    corrections_last = sorted(_outputs(events, sink), key=lambda output: output[1]["as"] == "final")
    return sum({epoch: about["rows"] for epoch, about in corrections_last}.values())


def output_gap_s(events: Iterable[HistoryEvent], *, sink: str, after_s: float = 0.0) -> float | None:
    """Return the longest time between two first outputs of a sink, or None if it had fewer than two."""
    times = [e.at_s for e in events if e.kind == "output" and e.about["sink"] == sink and e.about["as"] == "first"]
    times = sorted(time for time in times if time >= after_s)
    return max((later - earlier for earlier, later in pairwise(times)), default=None)


@dataclass(frozen=True)
class Recovery:
    """The recovery of a failed task. It ends when the task is again where it was before the failure (PPA, section VI)."""

    task: str
    failed_s: float
    detected_s: float
    started_s: float
    recovered_s: float

    @property
    def latency_s(self) -> float:
        """PPA's recovery latency: the time from the detection of the failure to the end of the recovery."""
        return self.recovered_s - self.detected_s


def recoveries(events: Sequence[HistoryEvent]) -> list[Recovery]:
    """Return each recovery of a task by a new replica.

    A task that had another working replica did not stop, so it has no recovery.
    """
    completed: list[Recovery] = []
    failed: dict[str, tuple[float, float]] = {}
    detected: dict[str, float] = {}
    started: dict[str, float] = {}
    working = _WorkingReplicas()
    for event in events:
        about = event.about
        working.update(event)
        if event.kind == "fault":
            ends_s = inf if about.get("for_s") is None else event.at_s + about["for_s"]
            for task in about.get("tasks", ()):
                if task not in detected and failed.get(task, (0.0, -inf))[1] < event.at_s:
                    failed[task] = event.at_s, ends_s
        elif event.kind == "detected":
            for task in about.get("tasks", ()):
                if not working.replicas[task]:
                    detected.setdefault(task, event.at_s)
                elif task in failed:  # another replica works, so this fault did not stop the task; a later one may
                    failed[task] = failed[task][0], event.at_s
        elif event.kind == "restored" and about["task"] in detected:
            started[about["task"]] = event.at_s
        elif event.kind == "recovered" and about["task"] in started:
            task = about["task"]
            detected_s = detected.pop(task)
            failed_s, _ = failed.pop(task, (detected_s, inf))
            completed.append(Recovery(task, failed_s, detected_s, started.pop(task), event.at_s))
    return completed


class _WorkingReplicas:
    """The working replicas of each task. A replica works from when it is restored until it fails or becomes idle."""

    def __init__(self) -> None:
        self.replicas: dict[str, set[Any]] = defaultdict(set)
        self._started: dict[tuple[str, str], str] = {}

    def update(self, event: HistoryEvent) -> None:
        about = event.about
        if event.kind == "start":
            task = task_of_replica(about["replica"])
            self._started[event.by, task] = about["replica"]
            self.replicas[task].discard(about["replica"])
        elif event.kind == "restored":
            task = about["task"]
            self.replicas[task].add(about.get("replica", self._started.get((event.by, task), event.by)))
        elif event.kind == "detected":
            for task in about.get("tasks", ()):
                self.replicas[task] -= {about.get("replica"), about.get("node")}
        elif event.kind == "orchestrator" and about.get("text") == "idled" and about.get("replica"):
            self.replicas[task_of_replica(about["replica"])].discard(about["replica"])


def task_of_replica(replica: str) -> str:
    """Return the name of the task of a replica's key.

    >>> task_of_replica("1:vwap/0.1")
    'vwap/0'
    """
    return replica.split(":", 1)[1].rsplit(".", 1)[0]
