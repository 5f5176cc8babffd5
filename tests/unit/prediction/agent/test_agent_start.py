"""Where an agent begins and continues: after a kill, and in a trimmed log."""

import pyarrow as pa
import pytest

from holdfast.errors import LogError
from holdfast.log.row_files import read_rows
from holdfast.prediction.agent import watched_stream
from holdfast.prediction.learned_state import decode_learned_state

from .watched_task import TIMELINE, WatchedTask


def test_new_agent_learns_from_the_log():
    task = WatchedTask()
    task.run(range(1, 20))
    task.agent = task.new_agent()
    task.run([20], commits=False)
    assert task.first_quality(20) == "predicted"
    assert task.agent.streams[0].predictor.epochs_observed == 19


def test_new_agent_ranks_its_algorithms_on_the_log(monkeypatch):
    monkeypatch.setattr(watched_stream, "RANKING_S", 60.0)  # however busy the machine is
    task = WatchedTask()
    for epoch in range(1, 31):
        task.now_s = TIMELINE.closes_s(epoch)
        task.commit_input(epoch)
        rising = pa.table({"seq": [100 * epoch + 30], "epoch": [epoch], "rack": ["r1"], "cpu": [10.0 * epoch]})
        task.commit("racks", epoch, rising)
    task.agent = task.new_agent()
    task.run([31], commits=False)
    record = task.log.first("racks", 0, epoch=31)
    assert read_rows(task.store, record.files[0])["cpu"].to_pylist() == pytest.approx([310.0])


def test_killed_agents_predictions_count_towards_most_in_a_row():
    task = WatchedTask(most_epochs=4)
    task.run(range(1, 13))
    task.run(range(13, 16), commits=False)
    task.agent = task.new_agent()
    task.agent.step()
    assert task.agent.state == "predicting"
    task.run(range(16, 19), commits=False)
    assert [task.first_quality(epoch) for epoch in range(16, 19)] == ["predicted", None, None]
    assert task.agent.state == "handed over"
    for epoch in range(13, 19):
        task.commit_output(epoch)
    task.agent.step()
    assert (task.agent.state, task.agent.corrected) == ("watching", 4)


def test_new_agent_knows_the_usual_time_of_its_pe():
    task = WatchedTask()
    task.run(range(1, 13))
    task.agent = task.new_agent()
    task.agent.step()
    assert task.agent.monitor.usual_s == pytest.approx(0.2)


def test_corrected_predictions_of_the_killed_agent_do_not_count():
    task = WatchedTask(most_epochs=3)
    task.run(range(1, 13))
    task.run([13, 14], commits=False)
    for epoch in (13, 14):
        task.commit_output(epoch)
    task.run([15], commits=False)
    task.agent = task.new_agent()
    task.agent.step()
    assert task.agent.monitor.predicted_in_a_row == 1


def test_agent_continues_behind_trimmed_input():
    task = WatchedTask()
    task.run(range(1, 4))
    for epoch in range(4, 30):
        task.now_s = TIMELINE.closes_s(epoch)
        task.commit_input(epoch)
        task.commit_output(epoch)
    task.log.trim("src", 0, after=0, until=25)
    task.agent.step()
    task.run([30], commits=False)
    assert task.first_quality(30) == "predicted"


def test_epoch_trimmed_between_two_steps_is_skipped():
    task = WatchedTask()
    task.run(range(1, 13))
    task.now_s = TIMELINE.closes_s(13)
    task.commit_input(13)
    task.agent.step()
    task.commit_output(13)
    task.log.trim("racks", 0, after=0, until=13)
    task.run(range(14, 17), commits=False)
    assert [task.first_quality(epoch) for epoch in (13, 14, 15, 16)] == [None, "predicted", "predicted", "predicted"]
    assert (task.agent.monitor.outputs, task.agent.monitor.misses) == (16, 3)


def test_agent_continues_behind_a_trimmed_log():
    task = WatchedTask()
    task.run(range(1, 4))
    for epoch in range(4, 30):
        task.now_s = TIMELINE.closes_s(epoch)
        task.commit_input(epoch)
        task.commit_output(epoch)
    for stream in ("src", "racks"):
        task.log.trim(stream, 0, after=0, until=25)
    task.now_s += 5.0
    task.agent.step()
    task.agent.step()
    task.run([30], commits=False)
    assert task.first_quality(30) == "predicted"


def restarted(task):
    """Trim the log as far as the trimmer may, and replace the agent. Return why it does not continue where the other ended."""
    for stream in ("src", "racks"):
        task.log.trim(stream, 0, after=0, until=58)
    task.events.clear()
    task.agent = task.new_agent()
    (reason,) = (about["reason"] for kind, about in task.events if kind == "agent")
    return reason


def test_restarted_agent_keeps_what_it_learned():
    task = WatchedTask()
    task.run(range(1, 71))
    task.agent.save()
    assert restarted(task) == ""
    task.run([71], commits=False)
    assert task.first_quality(71) == "predicted"
    (stream,) = task.agent.streams
    assert (stream.newest_learned, stream.predictor.epochs_observed) == (70, 70)


def test_killed_agent_loses_at_most_what_it_learned_since_it_saved():
    task = WatchedTask()
    task.run(range(1, 71))
    assert restarted(task) == ""
    task.run([71], commits=False)
    assert task.agent.streams[0].predictor.epochs_observed == 70  # saved every 30 s; the rest is still in the log


def test_damaged_or_future_state_is_ignored_with_a_reason():
    task = WatchedTask()
    task.run(range(1, 71))
    task.store.replace("learned/racks/0", b"other bytes")
    assert restarted(task) == "its digest does not fit: it is damaged or truncated"
    task.run([71], commits=False)
    assert (task.first_quality(71), task.agent.streams[0].predictor.epochs_observed) == ("predicted", 12)
    other = WatchedTask()
    other.run(range(1, 100))
    other.agent.save()
    task.store.replace("learned/racks/0", other.store.read("learned/racks/0"))
    assert restarted(task) == "it is of epoch 99, and the task's last epoch is 70"


def test_failed_save_is_reported_and_repeated():
    task = WatchedTask()
    task.run(range(1, 13))
    stream, replace = task.agent.streams[0], task.store.replace

    def failing(name, content):
        raise LogError("no space left")

    task.store.replace = failing
    task.agent.save()
    assert task.agent.view()()["streams"]["racks"]["saving_error"] == "no space left"
    task.store.replace = replace
    task.run(range(13, 60))
    assert task.agent.view()()["streams"]["racks"]["saving_error"] == ""
    assert decode_learned_state(task.store.read("learned/racks/0")).epoch > 30
    assert stream.newest_learned == 59
