"""Progress as bars on a terminal and as lines elsewhere."""

import contextlib
import os

from rich.progress import Progress

from holdfast.progress_display import LINE_EVERY_S, Bars, Lines, TimeLeft, show_progress
from holdfast.terminal import say


def test_progress_lines_show_remaining_time_and_the_end():
    message, times = [], iter([0.0, 1.0, 1.0 + LINE_EVERY_S, 12.0])
    lines = Lines(lambda: next(times), message.append)
    for done in (10, 20, 32, 40):
        lines("trials", done, 40)
    assert message == ["trials: 10 of 40", "trials: 32 of 40, about 4 s left", "trials: 40 of 40"]


def test_remaining_time_counts_down_between_steps():
    now = [0.0]
    remaining = TimeLeft(lambda: now[0])
    bar = Progress()
    shown_lines = Bars(bar, lambda: now[0])

    def shown(at_s):
        now[0] = at_s
        return str(remaining.render(bar.tasks[0]))

    shown_lines("trials", 10, 40)
    assert shown(1.0) == "-:--:-- left"
    now[0] = 100.0
    shown_lines("trials", 20, 40)
    assert [shown(at_s) for at_s in (100.0, 160.0, 400.0)] == ["0:03:20 left", "0:02:20 left", "0:00:00 left"]
    shown_lines("trials", 40, 40)
    assert shown(401.0) == ""


def test_message_during_a_progress_bar_has_its_own_line(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    reader, writer = os.openpty()
    written = b""
    with os.fdopen(writer, "w", encoding="utf-8") as terminal:
        monkeypatch.setattr("sys.stderr", terminal)
        with show_progress() as shown_lines:
            shown_lines("reading", 0, 2)
            say("using sections of 500 seqs")
    with os.fdopen(reader, "rb", buffering=0) as screen, contextlib.suppress(OSError):  # which is how a terminal ends
        while chunk := screen.read(65536):
            written += chunk
    before = written.decode().partition("using sections of 500 seqs")[0]
    assert "0/2" in before and before.endswith("\x1b[2K")  # the line is wiped


def test_new_work_is_shown_immediately():
    message, times = [], iter([0.0, 1.0, 2.0, 2.5])
    lines = Lines(lambda: next(times), message.append)
    for what, done in (("preparing", 0), ("preparing", 3), ("trials", 0), ("trials", 1)):
        lines(what, done, 3)
    assert message == ["preparing: 0 of 3", "preparing: 3 of 3", "trials: 0 of 3"]
