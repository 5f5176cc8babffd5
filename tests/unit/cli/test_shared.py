"""What the commands have in common."""

import logging
import signal
import subprocess
import sys

import pytest
import rich.progress

from holdfast.cli.shared import interrupts_untold, progress_bar


def test_an_interrupted_call_to_the_jvm_leaves_no_traceback_and_other_errors_are_logged(caplog):
    with interrupts_untold():
        logging.exception("KeyboardInterrupt while sending command.")
        logging.exception("Exception while sending command.")
        logging.error("the disk is full")
    logging.error("Exception while sending command.")
    assert caplog.messages == ["the disk is full", "Exception while sending command."]


def test_a_bar_tells_the_time_left_also_where_a_step_takes_minutes(monkeypatch):
    bars, now = [], [0.0]

    class Seen(rich.progress.Progress):
        def __init__(self, *columns, **options):
            super().__init__(*columns, **options)
            bars.append(self)

    monkeypatch.setattr(rich.progress, "Progress", Seen)
    monkeypatch.setattr("rich.console.monotonic", lambda: now[0])
    with progress_bar("runs") as progress:
        for done in range(4):
            progress(done, 10)
            now[0] += 120.0
        ((task,),) = [bar.tasks for bar in bars]
        assert task.time_remaining == 7 * 120


ENDING = """
import sys, time
from holdfast.cli.shared import end_in_order
end_in_order()
try:
    print("there", flush=True)
    time.sleep(600)
finally:
    print("all ended", flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_command_that_is_told_to_end_ends_what_it_has_started(number):
    with subprocess.Popen([sys.executable, "-c", ENDING], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "there\n"
        process.send_signal(number)
        assert process.stdout.read() == "all ended\n"
    assert process.returncode == 128 + number
