"""Progress of a command."""

import sys

import holdfast.progress_display as display
from holdfast.progress_display import LINE_EVERY_S, Bars, Lines
from holdfast.terminal import progress_bar


def test_progress_bar_shows_remaining_time_when_a_step_takes_minutes(monkeypatch):
    bars, now = [], [0.0]

    class RecordedBars(Bars):
        def __init__(self, bar, clock):
            super().__init__(bar, lambda: now[0])
            bars.append(bar)

    monkeypatch.setattr(display, "Bars", RecordedBars)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with progress_bar("runs") as progress:
        for done in range(4):
            progress(done, 10)
            now[0] += 120.0
        ((task,),) = [bar.tasks for bar in bars]
        assert task.fields["ends_s"] - 3 * 120 == 7 * 120


def test_progress_without_a_terminal_waits_before_the_first_line(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False)
    with progress_bar("rows") as progress:
        progress(5, 10)
        progress(10, 10)
    assert capsys.readouterr().err == ""


def test_long_work_prints_the_time_left():
    message, times = [], iter([0.0, 0.0, 1.0, LINE_EVERY_S, LINE_EVERY_S + 1, 2 * LINE_EVERY_S, 4 * LINE_EVERY_S - 1])
    lines = Lines(lambda: next(times), message.append, announce=False)
    lines("rows", 0, None)
    for rows in (10, 100, 110, 500, 1000):
        lines("rows", rows, 1000)
    assert message == ["rows: 100 of 1,000, about 90 s left", "rows: 500 of 1,000, about 20 s left", "rows: 1,000 of 1,000"]
