"""Measures the internal completeness of a run from its history, and compares it with the promise of a strategy."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from holdfast.documents.history import HistoryEvent
from holdfast.documents.job import Task
from holdfast.log.timeline import Timeline
from holdfast.plural import counted
from holdfast.trial.checkers import Verdict


@dataclass(frozen=True)
class Completeness:
    """The share of the tuples due at PEs that they processed in time.

    `unknown` counts the epochs, over all tasks, that the history does not cover. The share counts them as processed.
    """

    share: float
    unknown: int

    def __str__(self) -> str:
        if not self.unknown:
            return f"{self.share:.4f}"
        return f"at most {self.share:.4f} (the history lacks {counted(self.unknown, 'epoch')} of tasks)"


def internal_completeness(events: Iterable[HistoryEvent], timeline: Timeline, *, tasks: Sequence[Task]) -> Completeness | None:
    """Return the measured internal completeness (LAAR, Eq. 5 to 8), or None if no rows flowed.

    In each epoch, the rows of the final records of a task's inputs are due at the task. The task processed in time those that were
    already in the first records, if it also committed its own first record. Predicted and absent records do not count.
    """
    first: dict[tuple[str, int], dict[int, int]] = defaultdict(dict)
    final: dict[tuple[str, int], dict[int, int]] = defaultdict(dict)
    for event in events:
        if event.kind == "commit" and event.about["quality"] not in ("predicted", "absent"):
            records = first if event.about["as"] == "first" else final
            records[event.about["stream"], event.about["task"]][event.about["epoch"]] = event.about["rows"]
    due_rows = processed_rows = 0.0
    unknown = 0
    for task in tasks:
        if task.kind != "operators":
            continue
        epochs_in_time = {epoch for stream in task.makes for epoch in first[stream, task.task]}
        late_epochs = {epoch for stream in task.makes for epoch in final[stream, task.task]} - epochs_in_time
        last = timeline.last if timeline.last is not None else max(epochs_in_time | late_epochs, default=timeline.first - 1)
        inputs = [((r.stream, number), r.of) for r in task.reads if r.job is None for number in r.tasks]
        for epoch in range(timeline.first, last + 1):
            known = epoch in epochs_in_time or epoch in late_epochs
            for key, of in inputs:
                if epoch not in first[key] and epoch not in final[key]:
                    known = False
                    continue
                rows = final[key].get(epoch, first[key].get(epoch, 0))
                due_rows += rows / of
                processed_rows += 0.0 if epoch in late_epochs else min(rows, first[key].get(epoch, 0)) / of
            unknown += not known
    return Completeness(processed_rows / due_rows, unknown) if due_rows else None


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
    holds = False if measured.share < promised - 1e-9 else None if measured.unknown else True
    figures = {"measured": measured.share, "promised": promised, "unknown": measured.unknown}
    return Verdict(name, holds, f"measured {measured}, promised {promised:.4f}", figures)
