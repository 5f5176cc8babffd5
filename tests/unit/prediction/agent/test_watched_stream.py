"""Predicting a stream from the input of its late epoch."""

import json

import pytest

from holdfast.log import Quality
from holdfast.prediction.agent import task_inputs, watched_stream

from .watched_task import TIMELINE, EchoingTask


def test_late_epoch_is_predicted_from_its_input():
    task = EchoingTask()
    task.run(range(1, 16))
    task.run(range(16, 19), commits=False)
    for epoch in (16, 17, 18):
        assert task.predicted(epoch) == pytest.approx(task.rows(epoch)["cpu"].to_pylist())
    document = task.agent.view()()["streams"]["racks"]
    assert document["last_used"] == {"echo": 3}
    assert document["from_input"]["cpu"]["is"] == "mean of src.cpu"
    assert task.agent.view()() == json.loads(json.dumps(task.agent.view()()))


@pytest.mark.parametrize(("slow", "looks"), [([15], True), ([11, 12, 13, 14, 15], False)])
def test_input_is_read_only_if_enough_time_is_left(monkeypatch, slow, looks):
    task, read = EchoingTask(), watched_stream.input_rows

    def held_up(inputs, epoch, *, final):
        task.now_s += 0.5 if epoch in slow else 0.0
        return read(inputs, epoch, final=final)

    monkeypatch.setattr(watched_stream, "input_rows", held_up)
    task.run(range(1, 16))
    task.run([16], commits=False)
    assert (task.predicted(16) == pytest.approx(task.rows(16)["cpu"].to_pylist())) is looks


def test_predicted_input_is_used_to_predict():
    task = EchoingTask()
    task.run(range(1, 16))
    task.now_s = TIMELINE.closes_s(16)
    task.commit_input(16, Quality.PREDICTED)
    task.agent.step()
    task.now_s += 0.95
    task.agent.step()
    assert task.predicted(16) == pytest.approx(task.rows(16)["cpu"].to_pylist())
    task.commit_input(16)
    task.commit_output(16)
    task.run(range(17, 20))
    assert task.agent.corrected == 1


@pytest.mark.parametrize("reason", ["the contract", "absent rows", "many rows", "a lost file", "a broken file"])
def test_history_is_used_if_the_input_cannot_be_read(reason, monkeypatch):
    task = EchoingTask(from_input=reason != "the contract")
    task.run(range(1, 16))
    task.now_s = TIMELINE.closes_s(16)
    if reason == "many rows":
        monkeypatch.setattr(task_inputs, "MOST_ROWS", 2)
    if reason == "absent rows":
        task.commit("src", 16, task.rows(16).slice(0, 0), Quality.ABSENT)
    else:
        task.commit_input(16)
    task.agent.step()
    (file,) = task.log.first("src", 0, epoch=16).files or [None]
    if reason in ("a lost file", "a broken file"):
        task.store.remove([file])
    if reason == "a broken file":
        task.store.create(file, b"no Parquet")
    task.now_s += 0.95
    task.agent.step()
    task.predicted(16)
    assert "echo" not in task.agent.view()()["streams"]["racks"]["last_used"]
