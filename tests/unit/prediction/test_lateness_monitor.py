"""Deadlines: which epochs are late, when, and when it is the recovery manager's turn."""

import pytest

from holdfast.errors import CompoundError, HoldfastError
from holdfast.prediction import Cover, Monitor

COVER = Cover(deadline_s=2.0, epoch_s=1.0, lead_s=0.5, most_epochs=3)


def monitor(cover=COVER, inputs=("cpu", "memory")):
    return Monitor(cover, inputs)


def fed(watch, epoch, at_s):
    watch.input_committed("cpu", epoch, at_s=at_s - 0.3)
    watch.input_committed("memory", epoch, at_s=at_s)


def test_the_clock_starts_with_the_last_input():
    watch = monitor()
    watch.input_committed("cpu", 0, at_s=10.0)
    assert watch.overdue(100.0) == ()
    assert watch.next_s() is None
    watch.input_committed("memory", 0, at_s=11.0)
    assert watch.next_s() == 12.5
    assert watch.overdue(12.4) == ()
    late = watch.overdue(12.6)
    assert [one.epoch for one in late] == [0]
    assert late[0].left_s(12.6) == pytest.approx(0.4)
    assert late[0].left_s(14.0) == 0.0


def test_an_output_in_time_leaves_nothing_to_do():
    watch = monitor()
    fed(watch, 0, 10.0)
    watch.output_committed(0, at_s=10.7)
    assert watch.overdue(100.0) == ()
    assert (watch.made, watch.misses) == (1, 0)
    assert watch.slowest_s == pytest.approx(0.7)


def test_late_epochs_come_oldest_first():
    watch = monitor()
    for epoch in (2, 0, 1):
        fed(watch, epoch, 10.0 + epoch)
    assert [one.epoch for one in watch.overdue(13.6)] == [0, 1, 2]
    assert [one.epoch for one in watch.overdue(12.6)] == [0, 1]


def test_a_commit_told_twice_counts_once():
    watch = monitor()
    fed(watch, 0, 10.0)
    fed(watch, 0, 50.0)
    assert watch.next_s() == 11.5
    watch.output_committed(0, at_s=10.5)
    watch.output_committed(0, at_s=99.0)
    fed(watch, 0, 60.0)
    assert watch.next_s() is None
    assert (watch.made, watch.misses) == (1, 0)


def test_prediction_is_bounded_and_then_handed_over():
    watch = monitor()
    for epoch in range(3):
        fed(watch, epoch, 10.0 + epoch)
        assert not watch.hand_over
        watch.output_committed(epoch, at_s=12.0 + epoch, predicted=True)
    fed(watch, 3, 13.0)
    assert watch.hand_over
    assert watch.overdue(100.0) == ()
    assert watch.misses == 3


def test_what_has_piled_up_is_predicted_no_further_than_the_bound():
    watch = monitor()
    for epoch in range(10):
        fed(watch, epoch, 10.0 + epoch)
    assert [one.epoch for one in watch.overdue(100.0)] == [0, 1, 2]
    watch.output_committed(0, at_s=100.0, predicted=True)
    assert [one.epoch for one in watch.overdue(100.0)] == [1, 2]


def test_a_late_output_of_the_pe_itself_ends_the_row_of_predictions():
    watch = monitor()
    for epoch in range(3):
        fed(watch, epoch, 10.0 + epoch)
        watch.output_committed(epoch, at_s=12.0 + epoch, predicted=True)
    watch.output_committed(1, at_s=30.0)
    assert not watch.hand_over
    fed(watch, 3, 31.0)
    assert [one.epoch for one in watch.overdue(33.0)] == [3]


def test_an_output_after_the_deadline_is_a_miss():
    watch = monitor()
    fed(watch, 0, 10.0)
    watch.output_committed(0, at_s=12.5)
    assert watch.misses == 1


def test_memory_follows_what_is_under_way():
    watch = monitor()
    for epoch in range(1000):
        fed(watch, epoch, float(epoch))
        watch.output_committed(epoch, at_s=epoch + 0.5)
    assert watch.next_s() is None
    assert len(watch._began) == 0


def test_a_stream_that_is_no_input_is_told():
    with pytest.raises(HoldfastError, match="stream 'disk' is no input of the monitored PE; inputs are: cpu, memory"):
        monitor().input_committed("disk", 0, at_s=1.0)
    with pytest.raises(HoldfastError, match="reads at least one stream"):
        Monitor(COVER, [])


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"deadline_s": None}, "contract of prediction: no deadline set; give deadline_s"),
        ({"deadline_s": 0.5}, "the deadline of 0.5 s is below the epoch length of 1 s; give a longer deadline or shorter epochs"),
        ({"deadline_s": float("inf")}, "deadline_s wants a number of seconds, got inf"),
        ({"lead_s": 3.0}, "lead_s wants 0 or more and less than the deadline of 2 s, got 3"),
        ({"most_epochs": 0}, "most_epochs wants a whole number of at least 1, got 0"),
        ({"late": "ignore"}, "late wants correct or drop, got 'ignore'"),
    ],
)
def test_a_contract_that_cannot_be_kept_is_refused(changes, said):
    with pytest.raises(CompoundError, match=said):
        Cover(**({"deadline_s": 2.0, "epoch_s": 1.0} | changes))


def test_a_deadline_of_an_epoch_is_one_though_its_length_was_divided_by_a_speed():
    assert Cover(deadline_s=0.43, epoch_s=5.0 / (5.0 / 0.43)).due_s == 0.43


def test_all_problems_of_a_contract_come_at_once():
    with pytest.raises(CompoundError, match="has 3 errors"):
        Cover(deadline_s=None, epoch_s=1.0, most_epochs=0, late="x")


def known(cover=COVER):
    """A monitor that has seen eight epochs go in every second and come out 0.3 s later."""
    watch = monitor(cover)
    for epoch in range(8):
        fed(watch, epoch, 10.0 + epoch)
        watch.output_committed(epoch, at_s=10.3 + epoch)
    assert watch.usual_s == pytest.approx(0.3)
    return watch


def missed(watch, epochs):
    for epoch in epochs:
        fed(watch, epoch, 10.0 + epoch)
        watch.output_committed(epoch, at_s=10.0 + epoch, predicted=True)


def test_the_first_late_epoch_is_given_its_whole_deadline_and_while_the_pe_is_away_the_next_are_predicted_at_once():
    watch = known()
    fed(watch, 8, 18.0)
    assert watch.next_s() == pytest.approx(19.5)
    watch.output_committed(8, at_s=19.5, predicted=True)
    fed(watch, 9, 19.6)
    assert watch.next_s() == pytest.approx(19.6)
    (late,) = watch.overdue(19.6)
    assert late.due_s == pytest.approx(21.6)


def test_every_fourth_epoch_is_left_to_a_pe_that_is_away_for_as_long_as_it_usually_takes():
    watch, waits = known(Cover(deadline_s=2.0, epoch_s=1.0, lead_s=0.5)), []
    for epoch in range(8, 18):
        fed(watch, epoch, 10.0 + epoch)
        waits.append(watch.next_s() - 10.0 - epoch)
        watch.output_committed(epoch, at_s=watch.next_s(), predicted=True)
    assert waits == pytest.approx([1.5, 0.0, 0.0, 0.0, 0.3, 0.0, 0.0, 0.0, 0.3, 0.0])


def test_a_pe_that_corrects_is_back_but_waited_for_no_longer_than_usual_until_it_has_corrected_all():
    watch = known()
    missed(watch, [8, 9])
    watch.output_committed(8, at_s=20.0)
    assert watch.behind
    fed(watch, 10, 20.0)
    assert watch.next_s() == pytest.approx(20.3)
    watch.output_committed(9, at_s=20.1)
    assert not watch.behind
    assert watch.next_s() == pytest.approx(21.5)


def test_a_pe_that_makes_an_epoch_itself_is_back_whatever_it_cannot_correct_yet():
    watch = known()
    missed(watch, [8, 9])
    fed(watch, 10, 20.0)
    watch.output_committed(10, at_s=20.2)
    fed(watch, 11, 21.0)
    assert watch.next_s() == pytest.approx(22.5)


def test_where_late_output_is_dropped_every_epoch_is_left_to_the_pe_for_as_long_as_it_usually_takes():
    watch = known(Cover(deadline_s=2.0, epoch_s=1.0, lead_s=0.5, late="drop"))
    for epoch in range(8, 14):
        fed(watch, epoch, 10.0 + epoch)
        assert watch.next_s() == pytest.approx(10.0 + epoch + (1.5 if epoch == 8 else 0.3))
        watch.output_committed(epoch, at_s=watch.next_s(), predicted=True)


def test_nothing_is_due_after_the_hand_over():
    watch = known()
    missed(watch, [8, 9, 10])
    fed(watch, 11, 21.0)
    assert watch.hand_over
    assert watch.next_s() is None


def test_a_pe_of_which_too_little_was_seen_is_away_like_any_other_and_asked_for_as_long_as_its_deadline():
    watch, waits = monitor(Cover(deadline_s=2.0, epoch_s=1.0, lead_s=0.5)), []
    for epoch in range(6):
        fed(watch, epoch, 10.0 + epoch)
        waits.append(watch.next_s() - 10.0 - epoch)
        watch.output_committed(epoch, at_s=watch.next_s(), predicted=True)
    assert watch.usual_s is None
    assert waits == pytest.approx([1.5, 0.0, 0.0, 0.0, 1.5, 0.0])


def test_a_healthy_pe_that_is_asked_is_given_as_long_as_it_takes_nine_times_in_ten():
    watch = monitor(Cover(deadline_s=2.0, epoch_s=1.0, lead_s=0.5))
    for epoch in range(20):
        fed(watch, epoch, 10.0 + epoch)
        watch.output_committed(epoch, at_s=10.0 + epoch + (0.1 if epoch % 2 else 0.6))
    missed(watch, range(20, 24))
    fed(watch, 24, 34.0)
    assert watch.next_s() == pytest.approx(34.6)


def test_one_stall_hardly_moves_what_is_usual():
    watch = monitor(Cover(deadline_s=20.0, epoch_s=1.0))
    for epoch in range(20):
        fed(watch, epoch, 10.0 + epoch)
        watch.output_committed(epoch, at_s=10.0 + epoch + (8.0 if epoch == 11 else 0.3))
    assert watch.usual_s == pytest.approx(0.3)
