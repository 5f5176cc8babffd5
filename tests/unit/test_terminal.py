"""Messages and progress bars of a command."""

import rich.progress

from holdfast.terminal import progress_bar


def test_progress_bar_shows_remaining_time_when_a_step_takes_minutes(monkeypatch):
    bars, now = [], [0.0]

    class RecordedProgress(rich.progress.Progress):
        def __init__(self, *columns, **options):
            super().__init__(*columns, **options)
            bars.append(self)

    monkeypatch.setattr(rich.progress, "Progress", RecordedProgress)
    monkeypatch.setattr("rich.console.monotonic", lambda: now[0])
    with progress_bar("runs") as progress:
        for done in range(4):
            progress(done, 10)
            now[0] += 120.0
        ((task,),) = [bar.tasks for bar in bars]
        assert task.time_remaining == 7 * 120
