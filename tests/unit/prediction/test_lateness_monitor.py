"""Which epochs are late and when, and when the agent hands over to the orchestrator."""

import pytest

from holdfast.errors import CompoundError, HoldfastError
from holdfast.prediction.contract_terms import LatenessTerms
from holdfast.prediction.lateness_monitor import LatenessMonitor

TERMS = LatenessTerms(deadline_s=2.0, epoch_s=1.0, lead_s=0.5, most_epochs=3)


def new_monitor(terms=TERMS, inputs=("cpu", "memory")):
    return LatenessMonitor(terms, inputs)


def commit_inputs(monitor, epoch, at_s):
    monitor.input_committed("cpu", epoch, at_s=at_s - 0.3)
    monitor.input_committed("memory", epoch, at_s=at_s)


def test_time_of_an_epoch_starts_with_its_last_input():
    monitor = new_monitor()
    monitor.input_committed("cpu", 0, at_s=10.0)
    assert monitor.overdue(100.0) == ()
    assert monitor.next_s() is None
    monitor.input_committed("memory", 0, at_s=11.0)
    assert monitor.next_s() == 12.5
    assert monitor.overdue(12.4) == ()
    late = monitor.overdue(12.6)
    assert [one.epoch for one in late] == [0]
    assert late[0].remaining_s(12.6) == pytest.approx(0.4)
    assert late[0].remaining_s(14.0) == 0.0


def test_output_in_time_leaves_nothing_overdue():
    monitor = new_monitor()
    commit_inputs(monitor, 0, 10.0)
    monitor.output_committed(0, at_s=10.7)
    assert monitor.overdue(100.0) == ()
    assert (monitor.outputs, monitor.misses) == (1, 0)
    assert monitor.slowest_s == pytest.approx(0.7)


def test_overdue_epochs_come_oldest_first():
    monitor = new_monitor()
    for epoch in (2, 0, 1):
        commit_inputs(monitor, epoch, 10.0 + epoch)
    assert [one.epoch for one in monitor.overdue(13.6)] == [0, 1, 2]
    assert [one.epoch for one in monitor.overdue(12.6)] == [0, 1]


def test_commit_reported_twice_counts_once():
    monitor = new_monitor()
    commit_inputs(monitor, 0, 10.0)
    commit_inputs(monitor, 0, 50.0)
    assert monitor.next_s() == 11.5
    monitor.output_committed(0, at_s=10.5)
    monitor.output_committed(0, at_s=99.0)
    commit_inputs(monitor, 0, 60.0)
    assert monitor.next_s() is None
    assert (monitor.outputs, monitor.misses) == (1, 0)


def test_hands_over_after_the_most_predicted_epochs():
    monitor = new_monitor()
    for epoch in range(3):
        commit_inputs(monitor, epoch, 10.0 + epoch)
        assert not monitor.hand_over
        monitor.output_committed(epoch, at_s=12.0 + epoch, predicted=True)
    commit_inputs(monitor, 3, 13.0)
    assert monitor.hand_over
    assert monitor.overdue(100.0) == ()
    assert monitor.misses == 3


def test_overdue_epochs_are_bounded_by_the_most_in_a_row():
    monitor = new_monitor()
    for epoch in range(10):
        commit_inputs(monitor, epoch, 10.0 + epoch)
    assert [one.epoch for one in monitor.overdue(100.0)] == [0, 1, 2]
    monitor.output_committed(0, at_s=100.0, predicted=True)
    assert [one.epoch for one in monitor.overdue(100.0)] == [1, 2]


def test_late_output_of_the_pe_ends_the_row_of_predictions():
    monitor = new_monitor()
    for epoch in range(3):
        commit_inputs(monitor, epoch, 10.0 + epoch)
        monitor.output_committed(epoch, at_s=12.0 + epoch, predicted=True)
    monitor.output_committed(1, at_s=30.0)
    assert not monitor.hand_over
    commit_inputs(monitor, 3, 31.0)
    assert [one.epoch for one in monitor.overdue(33.0)] == [3]


def test_output_after_the_deadline_is_a_miss():
    monitor = new_monitor()
    commit_inputs(monitor, 0, 10.0)
    monitor.output_committed(0, at_s=12.5)
    assert monitor.misses == 1


def test_settled_epochs_are_forgotten():
    monitor = new_monitor()
    for epoch in range(1000):
        commit_inputs(monitor, epoch, float(epoch))
        monitor.output_committed(epoch, at_s=epoch + 0.5)
    assert monitor.next_s() is None
    assert len(monitor._input_times) == 0


def test_unknown_input_stream_is_refused():
    with pytest.raises(HoldfastError, match="stream 'disk' is not an input of the monitored PE; inputs are: cpu, memory"):
        new_monitor().input_committed("disk", 0, at_s=1.0)
    with pytest.raises(HoldfastError, match="reads at least one stream"):
        LatenessMonitor(TERMS, [])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"deadline_s": None}, "contract of prediction: no deadline set; give deadline_s"),
        ({"deadline_s": 0.5}, "the deadline of 0.5 s is below the epoch length of 1 s; give a longer deadline or shorter epochs"),
        ({"deadline_s": float("inf")}, "deadline_s must be a number of seconds, got inf"),
        ({"lead_s": 3.0}, "lead_s must be at least 0 and less than the deadline of 2 s, got 3"),
        ({"most_epochs": 0}, "most_epochs must be a whole number of at least 1, got 0"),
        ({"late": "ignore"}, "late must be correct or drop, got 'ignore'"),
    ],
)
def test_invalid_terms_are_refused(changes, message):
    with pytest.raises(CompoundError, match=message):
        LatenessTerms(**({"deadline_s": 2.0, "epoch_s": 1.0} | changes))


def test_deadline_equal_to_the_epoch_length_survives_rounding():
    assert LatenessTerms(deadline_s=0.43, epoch_s=5.0 / (5.0 / 0.43)).due_s == 0.43


def test_all_errors_of_terms_are_reported_at_once():
    with pytest.raises(CompoundError, match="has 3 errors"):
        LatenessTerms(deadline_s=None, epoch_s=1.0, most_epochs=0, late="x")


def settled_monitor(terms=TERMS):
    """Return a monitor after eight epochs, one per second, each output 0.3 s after its input."""
    monitor = new_monitor(terms)
    for epoch in range(8):
        commit_inputs(monitor, epoch, 10.0 + epoch)
        monitor.output_committed(epoch, at_s=10.3 + epoch)
    assert monitor.usual_s == pytest.approx(0.3)
    return monitor


def predict(monitor, epochs):
    for epoch in epochs:
        commit_inputs(monitor, epoch, 10.0 + epoch)
        monitor.output_committed(epoch, at_s=10.0 + epoch, predicted=True)


def test_epochs_after_the_first_late_one_are_predicted_at_once():
    monitor = settled_monitor()
    commit_inputs(monitor, 8, 18.0)
    assert monitor.next_s() == pytest.approx(19.5)
    monitor.output_committed(8, at_s=19.5, predicted=True)
    commit_inputs(monitor, 9, 19.6)
    assert monitor.next_s() == pytest.approx(19.6)
    (late,) = monitor.overdue(19.6)
    assert late.due_s == pytest.approx(21.6)


def test_failed_pe_gets_its_usual_time_every_fourth_epoch():
    monitor, waits = settled_monitor(LatenessTerms(deadline_s=2.0, epoch_s=1.0, lead_s=0.5)), []
    for epoch in range(8, 18):
        commit_inputs(monitor, epoch, 10.0 + epoch)
        waits.append(monitor.next_s() - 10.0 - epoch)
        monitor.output_committed(epoch, at_s=monitor.next_s(), predicted=True)
    assert waits == pytest.approx([1.5, 0.0, 0.0, 0.0, 0.3, 0.0, 0.0, 0.0, 0.3, 0.0])


def test_correcting_pe_gets_its_usual_time_until_all_is_corrected():
    monitor = settled_monitor()
    predict(monitor, [8, 9])
    monitor.output_committed(8, at_s=20.0)
    assert monitor.behind
    commit_inputs(monitor, 10, 20.0)
    assert monitor.next_s() == pytest.approx(20.3)
    monitor.output_committed(9, at_s=20.1)
    assert not monitor.behind
    assert monitor.next_s() == pytest.approx(21.5)


def test_pe_that_commits_a_first_record_is_back():
    monitor = settled_monitor()
    predict(monitor, [8, 9])
    commit_inputs(monitor, 10, 20.0)
    monitor.output_committed(10, at_s=20.2)
    commit_inputs(monitor, 11, 21.0)
    assert monitor.next_s() == pytest.approx(22.5)


def test_pe_always_gets_its_usual_time_if_late_output_is_dropped():
    monitor = settled_monitor(LatenessTerms(deadline_s=2.0, epoch_s=1.0, lead_s=0.5, late="drop"))
    for epoch in range(8, 14):
        commit_inputs(monitor, epoch, 10.0 + epoch)
        assert monitor.next_s() == pytest.approx(10.0 + epoch + (1.5 if epoch == 8 else 0.3))
        monitor.output_committed(epoch, at_s=monitor.next_s(), predicted=True)


def test_nothing_is_due_after_the_hand_over():
    monitor = settled_monitor()
    predict(monitor, [8, 9, 10])
    commit_inputs(monitor, 11, 21.0)
    assert monitor.hand_over
    assert monitor.next_s() is None


def test_pe_with_unknown_usual_time_gets_its_deadline_every_fourth_epoch():
    monitor, waits = new_monitor(LatenessTerms(deadline_s=2.0, epoch_s=1.0, lead_s=0.5)), []
    for epoch in range(6):
        commit_inputs(monitor, epoch, 10.0 + epoch)
        waits.append(monitor.next_s() - 10.0 - epoch)
        monitor.output_committed(epoch, at_s=monitor.next_s(), predicted=True)
    assert monitor.usual_s is None
    assert waits == pytest.approx([1.5, 0.0, 0.0, 0.0, 1.5, 0.0])


def test_usual_time_covers_nine_outputs_in_ten():
    monitor = new_monitor(LatenessTerms(deadline_s=2.0, epoch_s=1.0, lead_s=0.5))
    for epoch in range(20):
        commit_inputs(monitor, epoch, 10.0 + epoch)
        monitor.output_committed(epoch, at_s=10.0 + epoch + (0.1 if epoch % 2 else 0.6))
    predict(monitor, range(20, 24))
    commit_inputs(monitor, 24, 34.0)
    assert monitor.next_s() == pytest.approx(34.6)


def test_one_stall_hardly_changes_the_usual_time():
    monitor = new_monitor(LatenessTerms(deadline_s=20.0, epoch_s=1.0))
    for epoch in range(20):
        commit_inputs(monitor, epoch, 10.0 + epoch)
        monitor.output_committed(epoch, at_s=10.0 + epoch + (8.0 if epoch == 11 else 0.3))
    assert monitor.usual_s == pytest.approx(0.3)
