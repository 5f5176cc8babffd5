"""What the commands have in common."""

import logging
import signal
import subprocess
import sys

import pytest

from holdfast.cli.shared import interrupts_untold


def test_an_interrupted_call_to_the_jvm_leaves_no_traceback_and_other_errors_are_logged(caplog):
    with interrupts_untold():
        logging.exception("KeyboardInterrupt while sending command.")
        logging.exception("Exception while sending command.")
        logging.error("the disk is full")
    logging.error("Exception while sending command.")
    assert caplog.messages == ["the disk is full", "Exception while sending command."]


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
