"""Internal completeness measured from small histories."""

from holdfast.documents.history import HistoryEvent
from holdfast.documents.job import Reading, Task
from holdfast.log.timeline import Timeline
from holdfast.trial import completeness
from holdfast.trial.completeness import Completeness, check_promised_completeness, count_unprocessed_rows

TIMELINE = Timeline(first=1, last=3, epoch_s=1.0, opened_s=0.0)


DEADLINES = {"a": 1.0, "b": 0.5}


def internal_completeness(events, timeline, *, tasks, deadlines=DEADLINES):
    return completeness.internal_completeness(events, timeline, tasks=tasks, deadlines=deadlines)


def commit(stream, epoch, rows, kind="first", task=0, quality="exact", at_s=1.0):
    about = {"stream": stream, "task": task, "epoch": epoch, "as": kind, "quality": quality, "rows": rows}
    return HistoryEvent(at_s, "n", "commit", about)


SOURCE = Task(pe="s", kind="source", makes=("s",))
CHAIN = (
    SOURCE,
    Task(pe="a", operators=("a",), reads=(Reading(stream="s"),), makes=("a",)),
    Task(pe="b", operators=("b",), reads=(Reading(stream="a"),), makes=("b",)),
    Task(pe="out", kind="sink", reads=(Reading(stream="b"),)),
)


def chain(*, s=10, a=4, b=1):
    """Three epochs of a chain without faults."""
    return [commit(stream, epoch, rows) for stream, rows in (("s", s), ("a", a), ("b", b)) for epoch in (1, 2, 3)]


def without(events, stream, epoch):
    return [e for e in events if (e.about["stream"], e.about["epoch"]) != (stream, epoch)]


def test_completeness_is_one_without_faults():
    assert internal_completeness(chain(), TIMELINE, tasks=CHAIN) == Completeness(1.0, 0)
    assert internal_completeness([], TIMELINE, tasks=CHAIN) is None


def test_late_epoch_counts_as_unprocessed():
    events = [*without(chain(), "b", 2), commit("b", 2, 1, "final")]
    assert internal_completeness(events, TIMELINE, tasks=CHAIN) == Completeness((30 + 8) / (30 + 12), 0)


def test_epoch_after_its_deadline_counts_as_unprocessed():
    late_b = [*without(chain(), "b", 2), commit("b", 2, 1, at_s=3.6)]  # closed at 2 s; a has 1 s and b another 0.5 s
    assert internal_completeness(late_b, TIMELINE, tasks=CHAIN) == Completeness((30 + 8) / (30 + 12), 0)
    assert internal_completeness([*late_b[:-1], commit("b", 2, 1, at_s=3.4)], TIMELINE, tasks=CHAIN) == Completeness(1.0, 0)
    late_a = [*without(chain(), "a", 2), commit("a", 2, 4, at_s=3.1)]  # what a emits too late is lost to b, too
    measured = internal_completeness(late_a, TIMELINE, tasks=CHAIN)
    assert measured == Completeness((20 + 8) / (30 + 12), 0)
    assert check_promised_completeness(measured, promised=0.7).holds is False


def test_promise_is_unknown_without_a_deadline():
    measured = internal_completeness(chain(), TIMELINE, tasks=CHAIN, deadlines={"a": 1.0})
    assert measured == Completeness(1.0, 0, ("b",))
    verdict = check_promised_completeness(measured, promised=0.7)
    assert verdict.holds is None
    assert verdict.reason.endswith("; nothing is too late at b: set deadline_s in the contract (--deadline)")
    short = internal_completeness([*without(chain(), "a", 2), commit("a", 2, 4, "final")], TIMELINE, tasks=CHAIN, deadlines={})
    assert check_promised_completeness(short, promised=0.9).holds is False


def test_absent_epoch_is_lost_to_its_task_and_its_consumers():
    events = without(chain(), "a", 2)
    events += [commit("a", 2, 4, "final"), commit("b", 2, 1, "final")]
    assert internal_completeness(events, TIMELINE, tasks=CHAIN) == Completeness((20 + 8) / (30 + 12), 0)


def test_predicted_epoch_counts_as_unprocessed():
    events = [*without(chain(), "b", 2), commit("b", 2, 1, quality="predicted"), commit("b", 2, 1, "final")]
    assert internal_completeness(events, TIMELINE, tasks=CHAIN) == Completeness((30 + 8) / (30 + 12), 0)


def test_absent_commit_equals_no_commit():
    late = without(without(chain(), "b", 2), "b", 3)
    corrected = [*late, commit("b", 2, 1, "final")]
    absent = [commit("b", epoch, 0, quality="absent") for epoch in (2, 3)]
    measured = internal_completeness(corrected, TIMELINE, tasks=CHAIN)
    assert measured is not None and measured.unknown == 1
    assert internal_completeness([*absent, *corrected], TIMELINE, tasks=CHAIN) == measured


def test_row_of_a_partitioned_stream_is_due_at_one_task():
    parts = tuple(
        Task(pe="a", task=n, operators=("a",), reads=(Reading(stream="s", key=("k",), share=n, of=2),), makes=("a",))
        for n in (0, 1)
    )
    line = Timeline(first=1, last=2, epoch_s=1.0, opened_s=0.0)
    events = [commit("s", 1, 10), commit("s", 2, 10), *(commit("a", epoch, 5, task=n) for n in (0, 1) for epoch in (1, 2))]
    assert internal_completeness(events, line, tasks=(SOURCE, *parts)) == Completeness(1.0, 0)
    events = [e for e in events if (e.about["task"], e.about["epoch"]) != (1, 2)]
    assert internal_completeness([*events, commit("a", 2, 5, "final", 1)], line, tasks=(SOURCE, *parts)) == Completeness(0.75, 0)


def test_rows_without_any_record_of_their_task_are_unprocessed():
    assert count_unprocessed_rows(chain(), tasks=CHAIN) == 0
    lacks = without(chain(), "b", 2)
    assert count_unprocessed_rows(lacks, tasks=CHAIN) == 4
    assert count_unprocessed_rows([*lacks, commit("b", 2, 1, quality="absent")], tasks=CHAIN) == 4
    assert count_unprocessed_rows([*lacks, commit("b", 2, 1, "final")], tasks=CHAIN) == 0
    halves = tuple(
        Task(pe="a", task=n, operators=("a",), reads=(Reading(stream="s", key=("k",), share=n, of=2),), makes=("a",))
        for n in range(2)
    )
    events = [commit("s", 1, 10), commit("a", 1, 2, task=0)]
    assert count_unprocessed_rows(events, tasks=(SOURCE, *halves)) == 5


def test_completeness_is_compared_with_the_promise():
    assert check_promised_completeness(Completeness(0.8, 0), promised=0.8).holds is True
    assert check_promised_completeness(Completeness(0.7, 0), promised=0.8).holds is False
    assert check_promised_completeness(Completeness(0.7, 3), promised=0.8).holds is False
    unsure = check_promised_completeness(Completeness(0.9, 3), promised=0.8)
    assert unsure.holds is None
    assert unsure.reason == "measured at most 0.9000 (the history lacks 3 epochs of tasks), promised 0.8000"
    assert check_promised_completeness(None, promised=0.8).holds is None


def test_epochs_missing_in_the_history_are_unknown():
    measured = internal_completeness(without(chain(), "a", 2), TIMELINE, tasks=CHAIN)
    assert measured == Completeness(1.0, 2)
