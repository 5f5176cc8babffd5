"""Measures the internal completeness of a run from its history, and compares it with the promise of a strategy."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from holdfast.documents.history import HistoryEvent
from holdfast.documents.job import Task
from holdfast.log.timeline import Timeline
from holdfast.plural import counted
from holdfast.trial.checkers import Verdict


@dataclass(frozen=True)
class Completeness:
    """The share of the tuples due at PEs that they processed in time.

    `unknown` counts the epochs, over all tasks, that the history does not cover. The share counts them as processed. `unlimited`
    are the PEs whose contract has no deadline, so that nothing is too late.
    """

    share: float
    unknown: int
    unlimited: tuple[str, ...] = ()

    def __str__(self) -> str:
        if not self.unknown:
            return f"{self.share:.4f}"
        return f"at most {self.share:.4f} (the history lacks {counted(self.unknown, 'epoch')} of tasks)"


def internal_completeness(
    events: Iterable[HistoryEvent], timeline: Timeline, *, tasks: Sequence[Task], deadlines: Mapping[str, float | None]
) -> Completeness | None:
    """Return the measured internal completeness (LAAR, Eq. 5 to 8), or None if no rows flowed.

    In each epoch, the rows of the final records of a task's inputs are due at the task. The task processed in time those that were
    already in the first records, if it also committed its own first record, and if both came in time. An epoch of a task is in time
    within the deadline of its PE (`deadlines`, by the wall clock) after its inputs were due; sources are due when the epoch closes.
    Predicted and absent records do not count.
    """
    limits_s = _limits_s(tasks, deadlines)
    late: set[tuple[str, int, int]] = set()
    first: dict[tuple[str, int], dict[int, int]] = defaultdict(dict)
    final: dict[tuple[str, int], dict[int, int]] = defaultdict(dict)
    for event in events:
        if event.kind == "commit" and event.about["quality"] not in ("predicted", "absent"):
            records = first if event.about["as"] == "first" else final
            stream, number, epoch = event.about["stream"], event.about["task"], event.about["epoch"]
            records[stream, number][epoch] = event.about["rows"]
            if event.at_s > timeline.closes_s(epoch) + limits_s.get((stream, number), inf):
                late.add((stream, number, epoch))
    due_rows = processed_rows = 0.0
    unknown = 0
    for task in tasks:
        if task.kind != "operators":
            continue
        own = {(stream, epoch) for stream in task.makes for epoch in first[stream, task.task]}
        epochs_in_time = {epoch for stream, epoch in own if (stream, task.task, epoch) not in late}
        committed = {epoch for stream in task.makes for epoch in (*final[stream, task.task], *first[stream, task.task])}
        late_epochs = committed - epochs_in_time
        last = timeline.last if timeline.last is not None else max(committed, default=timeline.first - 1)
        inputs = [((r.stream, number), r.of) for r in task.reads if r.job is None for number in r.tasks]
        for epoch in range(timeline.first, last + 1):
            known = epoch in epochs_in_time or epoch in late_epochs
            for key, of in inputs:
                if epoch not in first[key] and epoch not in final[key]:
                    known = False
                    continue
                rows = final[key].get(epoch, first[key].get(epoch, 0))
                due_rows += rows / of
                in_input = 0 if (*key, epoch) in late else first[key].get(epoch, 0)
                processed_rows += 0.0 if epoch in late_epochs else min(rows, in_input) / of
            unknown += not known
    unlimited = sorted({task.pe for task in tasks if task.kind == "operators" and deadlines.get(task.pe) is None})
    return Completeness(processed_rows / due_rows, unknown, tuple(unlimited)) if due_rows else None


def _limits_s(tasks: Sequence[Task], deadlines: Mapping[str, float | None]) -> dict[tuple[str, int], float]:
    """Return, per stream and task that an operator makes, how long after its close an epoch is due: the sum of the deadlines on the
    longest way from a source."""
    makers = {(stream, task.task): task for task in tasks if task.kind == "operators" for stream in task.makes}
    limits: dict[tuple[str, int], float] = {}

    def limit(key: tuple[str, int]) -> float:
        if key not in makers:
            return 0.0
        if key not in limits:
            task = makers[key]
            inputs = ((reading.stream, number) for reading in task.reads if reading.job is None for number in reading.tasks)
            own = deadlines.get(task.pe)
            limits[key] = (inf if own is None else own) + max(map(limit, inputs), default=0.0)
        return limits[key]

    for key in makers:
        limit(key)
    return limits


def count_unprocessed_rows(events: Iterable[HistoryEvent], *, tasks: Sequence[Task]) -> float:
    """Return how many input rows are in epochs for which their task committed no record, neither first nor final."""
    rows_of: dict[tuple[str, int], dict[int, int]] = defaultdict(dict)
    for event in events:
        if event.kind == "commit" and event.about["quality"] not in ("predicted", "absent"):
            rows_of[event.about["stream"], event.about["task"]][event.about["epoch"]] = event.about["rows"]
    unprocessed_rows = 0.0
    for task in tasks:
        if task.kind != "operators":
            continue
        own_epochs = {epoch for stream in task.makes for epoch in rows_of[stream, task.task]}
        for reading in (reading for reading in task.reads if reading.job is None):
            inputs = [item for number in reading.tasks for item in rows_of[reading.stream, number].items()]
            unprocessed_rows += sum(rows / reading.of for epoch, rows in inputs if epoch not in own_epochs)
    return unprocessed_rows


def check_promised_completeness(measured: Completeness | None, *, promised: float) -> Verdict:
    """Check that the measured completeness is at least what a strategy promises."""
    name = "internal completeness as promised"
    if measured is None:
        return Verdict(name, None, f"no rows flowed; promised {promised:.4f}")
    holds = False if measured.share < promised - 1e-9 else None if measured.unknown or measured.unlimited else True
    figures = {"measured": measured.share, "promised": promised, "unknown": measured.unknown}
    reason = f"measured {measured}, promised {promised:.4f}"
    if measured.unlimited:
        reason += f"; nothing is too late at {', '.join(measured.unlimited)}: set deadline_s in the contract (--deadline)"
    return Verdict(name, holds, reason, figures)
