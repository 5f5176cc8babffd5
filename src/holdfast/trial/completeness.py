"""Internal completeness of a run, measured from its history, and held against what a strategy promises."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from holdfast.documents.history import HistoryEvent
from holdfast.documents.job import Task
from holdfast.log.timeline import Timeline
from holdfast.trial.checkers import Verdict


@dataclass(frozen=True)
class Completeness:
    """The share of the tuples that PEs should have processed which they processed in time.

    `unknown` is of how many epochs of tasks the history does not tell; the share takes them for processed.
    """

    share: float
    unknown: int

    def __str__(self) -> str:
        if not self.unknown:
            return f"{self.share:.4f}"
        return f"at most {self.share:.4f} (of {self.unknown} epochs of tasks the history does not tell)"


def internal_completeness(events: Iterable[HistoryEvent], timeline: Timeline, *, tasks: Sequence[Task]) -> Completeness | None:
    """Internal completeness as it was measured (LAAR Eq. 5 to 8); None where nothing flowed.

    Due of an epoch is what each task's inputs have in their final records. It was processed in time as far as it was in the
    first records, and only by a task that made a first record itself: one that was stood in for has only a final one, or none. A
    predicted or absent epoch was made by nobody.
    """
    first: dict[tuple[str, int], dict[int, int]] = defaultdict(dict)
    final: dict[tuple[str, int], dict[int, int]] = defaultdict(dict)
    for event in events:
        if event.kind == "commit" and event.about["quality"] not in ("predicted", "absent"):
            into = first if event.about["as"] == "first" else final
            into[event.about["stream"], event.about["task"]][event.about["epoch"]] = event.about["rows"]
    due = done = 0.0
    unknown = 0
    for task in tasks:
        if task.kind != "operators":
            continue
        in_time = {epoch for stream in task.makes for epoch in first[stream, task.task]}
        later = {epoch for stream in task.makes for epoch in final[stream, task.task]} - in_time
        last = timeline.last if timeline.last is not None else max(in_time | later, default=timeline.first - 1)
        inputs = [((r.stream, number), r.of) for r in task.reads if r.job is None for number in r.tasks]
        for epoch in range(timeline.first, last + 1):
            known = epoch in in_time or epoch in later
            for key, of in inputs:
                if epoch not in first[key] and epoch not in final[key]:
                    known = False
                    continue
                rows = final[key].get(epoch, first[key].get(epoch, 0))
                due += rows / of
                done += 0.0 if epoch in later else min(rows, first[key].get(epoch, 0)) / of
            unknown += not known
    return Completeness(done / due, unknown) if due else None


def count_unprocessed_rows(events: Iterable[HistoryEvent], *, tasks: Sequence[Task]) -> float:
    """The rows that reached tasks and of which these made nothing, neither in time nor later."""
    made: dict[tuple[str, int], dict[int, int]] = defaultdict(dict)
    for event in events:
        if event.kind == "commit" and event.about["quality"] not in ("predicted", "absent"):
            made[event.about["stream"], event.about["task"]][event.about["epoch"]] = event.about["rows"]
    lost = 0.0
    for task in tasks:
        if task.kind != "operators":
            continue
        own = {epoch for stream in task.makes for epoch in made[stream, task.task]}
        for reading in (reading for reading in task.reads if reading.job is None):
            came = [each for number in reading.tasks for each in made[reading.stream, number].items()]
            lost += sum(rows / reading.of for epoch, rows in came if epoch not in own)
    return lost


def check_promised_completeness(found: Completeness | None, *, promised: float) -> Verdict:
    """As much was processed in time as a strategy promises for the failures that it is made for."""
    name = "internal completeness as promised"
    if found is None:
        return Verdict(name, None, f"nothing flowed; promised was {promised:.4f}")
    holds = False if found.share < promised - 1e-9 else None if found.unknown else True
    figures = {"measured": found.share, "promised": promised, "unknown": found.unknown}
    return Verdict(name, holds, f"measured {found}, promised {promised:.4f}", figures)
