"""Playing a finished run back."""

from dataclasses import replace

import pytest

from holdfast.ui.past_run import read_run
from holdfast.ui.playback import Playback


def at(run, at_s):
    return Playback(run, at_s=at_s, speed=0.0)


def row(run, at_s, index):
    return at(run, at_s).tasks(7)[index]


def test_task_rows_follow_the_history(past):
    run = read_run(past)
    assert row(run, 7.0, 2)[:4] == ("running", "exact", 5, 5)
    assert row(run, 8.5, 2)[:2] == ("down", "absent")
    assert row(run, 10.0, 3)[:4] == ("running", "absent", 8, 7), "the sink continued without index and awaits the correction"
    assert row(run, 24.0, 3)[:4] == ("running", "exact", 20, 20)
    assert row(run, 24.0, 2)[7][0][1] == "n1", "index was moved to n1"


def test_corrections_of_absent_epochs_count_as_progress(past):
    run = read_run(past)
    shortened = [event for event in run.events if event.kind != "commit" or event.about["epoch"] < 109]
    assert row(replace(run, events=shortened), 12.5, 2)[2] == 7
    assert row(replace(run, events=shortened), 14.0, 2)[2:4] == (9, 9)


def test_playback_runs_at_its_speed_and_ends_with_the_run(past):
    now = [0.0]
    playback = Playback(read_run(past), at_s=2.0, speed=4.0, clock=lambda: now[0])
    start_s = playback.now_s()
    now[0] = 2.0
    assert playback.now_s() == pytest.approx(start_s + 8.0)
    assert playback.tasks(7)[2][0] == "placed"
    now[0] = 500.0
    assert playback.now_s() == playback.run.to_s
    assert len(playback.events(0)[0]) == len(playback.run.page_events)


def test_samples_cover_the_run_up_to_the_moment_shown(past):
    samples = at(read_run(past), 12.0).samples(7, 0.0)
    assert len(samples) == 12
    assert {sample[5] for sample in samples} == {None, "exact", "absent"}
    assert samples[-1][4] == 0.5


def test_number_of_samples_is_bounded(past, monkeypatch):
    monkeypatch.setattr("holdfast.ui.playback.MAX_SAMPLES", 5)
    samples = at(read_run(past), 12.0).samples(7, 0.0)
    assert [round(sample[0] - samples[-1][0]) for sample in samples] == [-4, -3, -2, -1, 0]


def test_cpu_is_that_of_the_moment_shown(past):
    playback = at(read_run(past), 12.0)
    assert {node["name"]: (node["cpu"], node["memory_bytes"]) for node in playback.nodes()} == {
        "n1": (0.75, 2**29),
        "n2": (0.75, 2**29),
    }
    assert [sample[-1] for sample in playback.samples(7, 0.0)][-1] == {"n1": 0.75, "n2": 0.75}
