"""Messages and progress bars of a command."""

import sys

import rich.progress

from holdfast.terminal import LINE_EVERY_S, ProgressLines, progress_bar


def test_progress_bar_shows_remaining_time_when_a_step_takes_minutes(monkeypatch):
    bars, now = [], [0.0]

    class RecordedProgress(rich.progress.Progress):
        def __init__(self, *columns, **options):
            super().__init__(*columns, **options)
            bars.append(self)

    monkeypatch.setattr(rich.progress, "Progress", RecordedProgress)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr("rich.console.monotonic", lambda: now[0])
    with progress_bar("runs") as progress:
        for done in range(4):
            progress(done, 10)
            now[0] += 120.0
        ((task,),) = [bar.tasks for bar in bars]
        assert task.time_remaining == 7 * 120


def test_long_work_prints_the_time_left(capsys):
    times = iter([0.0, 1.0, LINE_EVERY_S, LINE_EVERY_S + 1, 2 * LINE_EVERY_S, 4 * LINE_EVERY_S])
    lines = ProgressLines("rows", lambda: next(times))
    for rows in (10, 100, 110, 500, 1000):
        lines(rows, 1000)
    assert capsys.readouterr().err.splitlines() == [
        "100 of 1,000 rows, about 90 s left",
        "500 of 1,000 rows, about 20 s left",
    ]
