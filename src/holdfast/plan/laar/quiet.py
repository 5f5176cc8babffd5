"""Silence for libraries that print where no option stops them."""

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_STDOUT = threading.Lock()


@contextmanager
def stdout_closed() -> Iterator[None]:
    """Send the process's standard output to nowhere: HiGHS prints notes there, between a command's own JSON."""
    with _STDOUT:
        sys.stdout.flush()
        kept, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(nowhere, 1)
            yield
        finally:
            os.dup2(kept, 1)
            os.close(kept)
            os.close(nowhere)
