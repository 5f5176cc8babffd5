"""What the commands have in common."""

import logging

from holdfast.cli.shared import interrupts_untold


def test_an_interrupted_call_to_the_jvm_leaves_no_traceback_and_other_errors_are_logged(caplog):
    with interrupts_untold():
        logging.exception("KeyboardInterrupt while sending command.")
        logging.exception("Exception while sending command.")
        logging.error("the disk is full")
    logging.error("Exception while sending command.")
    assert caplog.messages == ["the disk is full", "Exception while sending command."]
