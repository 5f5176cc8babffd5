"""Internal completeness from histories: what was absent in time is lost, to whom, and what was promised."""

from holdfast.documents.history import HistoryEvent
from holdfast.documents.job import Reading, Task
from holdfast.log.timeline import Timeline
from holdfast.trial.completeness import Completeness, check_promised_completeness, count_unprocessed_rows, internal_completeness

TIMELINE = Timeline(first=1, last=3, epoch_s=1.0, opened_s=0.0)


def commit(stream, epoch, rows, kind="first", task=0, quality="exact"):
    about = {"stream": stream, "task": task, "epoch": epoch, "as": kind, "quality": quality, "rows": rows}
    return HistoryEvent(1, "n", "commit", about)


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


def test_without_faults_all_that_was_due_was_processed():
    assert internal_completeness(chain(), TIMELINE, tasks=CHAIN) == Completeness(1.0, 0)
    assert internal_completeness([], TIMELINE, tasks=CHAIN) is None


def test_what_a_task_would_have_processed_while_it_was_stood_in_for_was_not_processed():
    events = [*without(chain(), "b", 2), commit("b", 2, 1, "final")]
    assert internal_completeness(events, TIMELINE, tasks=CHAIN) == Completeness((30 + 8) / (30 + 12), 0)


def test_an_absent_epoch_is_lost_to_its_own_task_and_to_those_that_read_it():
    events = without(chain(), "a", 2)
    events += [commit("a", 2, 4, "final"), commit("b", 2, 1, "final")]
    assert internal_completeness(events, TIMELINE, tasks=CHAIN) == Completeness((20 + 8) / (30 + 12), 0)


def test_what_was_predicted_was_not_processed():
    events = [*without(chain(), "b", 2), commit("b", 2, 1, quality="predicted"), commit("b", 2, 1, "final")]
    assert internal_completeness(events, TIMELINE, tasks=CHAIN) == Completeness((30 + 8) / (30 + 12), 0)


def test_that_an_epoch_was_committed_as_absent_changes_nothing():
    struck = without(without(chain(), "b", 2), "b", 3)
    corrected = [*struck, commit("b", 2, 1, "final")]
    absent = [commit("b", epoch, 0, quality="absent") for epoch in (2, 3)]
    found = internal_completeness(corrected, TIMELINE, tasks=CHAIN)
    assert found is not None and found.unknown == 1
    assert internal_completeness([*absent, *corrected], TIMELINE, tasks=CHAIN) == found


def test_the_rows_of_a_stream_that_is_divided_are_each_due_to_one_task():
    parts = tuple(
        Task(pe="a", task=n, operators=("a",), reads=(Reading(stream="s", key=("k",), share=n, of=2),), makes=("a",))
        for n in (0, 1)
    )
    line = Timeline(first=1, last=2, epoch_s=1.0, opened_s=0.0)
    events = [commit("s", 1, 10), commit("s", 2, 10), *(commit("a", epoch, 5, task=n) for n in (0, 1) for epoch in (1, 2))]
    assert internal_completeness(events, line, tasks=(SOURCE, *parts)) == Completeness(1.0, 0)
    events = [e for e in events if (e.about["task"], e.about["epoch"]) != (1, 2)]
    assert internal_completeness([*events, commit("a", 2, 5, "final", 1)], line, tasks=(SOURCE, *parts)) == Completeness(0.75, 0)


def test_rows_are_never_processed_where_their_task_made_nothing_of_them_then_or_later():
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


def test_completeness_is_held_against_what_was_promised():
    assert check_promised_completeness(Completeness(0.8, 0), promised=0.8).holds is True
    assert check_promised_completeness(Completeness(0.7, 0), promised=0.8).holds is False
    assert check_promised_completeness(Completeness(0.7, 3), promised=0.8).holds is False
    unsure = check_promised_completeness(Completeness(0.9, 3), promised=0.8)
    assert unsure.holds is None
    assert unsure.reason == "measured at most 0.9000 (of 3 epochs of tasks the history does not tell), promised 0.8000"
    assert check_promised_completeness(None, promised=0.8).holds is None


def test_epochs_of_which_nothing_was_told_leave_completeness_unknown():
    found = internal_completeness(without(chain(), "a", 2), TIMELINE, tasks=CHAIN)
    assert found == Completeness(1.0, 2)
