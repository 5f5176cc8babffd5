"""What the commands share: handling of interrupts and signals."""

import logging
import signal
import subprocess
import sys

import pytest

from holdfast.cli.shared import hide_py4j_interrupts


def test_only_interrupted_calls_to_the_jvm_are_not_logged(caplog):
    with hide_py4j_interrupts():
        logging.exception("KeyboardInterrupt while sending command.")
        logging.exception("Exception while sending command.")
        logging.error("the disk is full")
    logging.error("Exception while sending command.")
    assert caplog.messages == ["the disk is full", "Exception while sending command."]


ENDING = """
import sys, time
from holdfast.cli.shared import exit_on_signals
exit_on_signals()
try:
    print("started", flush=True)
    time.sleep(600)
finally:
    print("cleaned up", flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signalled_command_runs_its_cleanup(number):
    with subprocess.Popen([sys.executable, "-c", ENDING], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        process.send_signal(number)
        assert process.stdout.read() == "cleaned up\n"
    assert process.returncode == 128 + number
