"""An orchestrator that is started again by itself when it dies: a parent that has everything loaded, and forks.

The parent holds no state, runs no thread and opens nothing but the socket that orchestrators listen on, so that a fork of it is a
fresh orchestrator in a few milliseconds, and whoever calls while there is none is answered by the next; a new process would first
spend most of a second on loading code. It ends when the orchestrator ends of its own accord: told to stop, fenced by another, or
with a mistake that starting again does not mend.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from types import FrameType

from holdfast.control.plugins import plugin_class, plugin_names
from holdfast.documents.document import Part
from holdfast.errors import HoldfastError

ENDS = (signal.SIGTERM, signal.SIGINT)
NEEDED = ("holdfast.control.server", "uvicorn.protocols.http.h11_impl", "uvicorn.lifespan.off", "sqlalchemy.dialects.sqlite")
LATER = ("holdfast.ui.live_scene", "holdfast.ui.feed", "holdfast.ui.what_if")
"""What an orchestrator loads only when it has recovered."""
BACKOFF_S, BACKOFF_MAX_S = 0.1, 10.0
SETTLED_S = 5.0
"""How long an orchestrator has the machine to itself."""
STEADY_S = 30.0
"""An orchestrator that lived for so long is started again at once."""


def preload(plugins: Mapping[str, str]) -> None:
    """Load all that an orchestrator needs."""
    for module in NEEDED:
        import_module(module)
    for name in plugin_names(plugins):
        plugin_class(name, plugins)


def preload_rest() -> None:
    """Load and build what an orchestrator comes to need by and by: all that its successors need not do again."""
    for module in LATER:
        import_module(module)
    models = [Part]
    for model in models:
        models.extend(model.__subclasses__())
        model.model_rebuild()
    gc.freeze()  # shared with the forks for as long as no collection touches it


def revived(
    run: Callable[[], None],
    *,
    say: Callable[[str], None],
    meanwhile: Callable[[], None] | None = None,
) -> int:
    """Run something in a child process, again and again for as long as it is killed; its exit code when it ends by itself.

    `meanwhile` is done here once, beside a child that has lived for a while, so as not to hold up its beginning. SIGTERM and SIGINT
    are passed on to the child. If this process is killed, the child goes on.
    """
    child = 0
    stopping = False

    def pass_on(number: int, frame: FrameType | None) -> None:
        nonlocal stopping
        stopping = True
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, number)

    signal.pthread_sigmask(signal.SIG_BLOCK, ENDS)  # but for while there is a child to pass them on to
    for number in ENDS:
        signal.signal(number, pass_on)
    wait_s = 0.0
    while True:
        began = time.monotonic()
        child = _forked(run)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDS)
        if meanwhile is not None and _lives(child, SETTLED_S):
            meanwhile()
            meanwhile = None
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDS)
        if status >= 0 or stopping:
            return max(0, status)
        steady = time.monotonic() - began >= STEADY_S
        wait_s = 0.0 if steady else wait_s
        say(f"the orchestrator was killed by {signal.Signals(-status).name}; starting it again in {wait_s:g} s")
        if signal.sigtimedwait(ENDS, wait_s) is not None:
            return 0
        wait_s = min(max(BACKOFF_S, 2 * wait_s), BACKOFF_MAX_S)


def _lives(child: int, seconds: float) -> bool:
    """Whether a child is still there after so many seconds; waits no longer than it lives."""
    ended = os.pidfd_open(child)
    try:
        return not select.select([ended], [], [], seconds)[0]
    finally:
        os.close(ended)


def _forked(run: Callable[[], None]) -> int:
    """Run something in a child, which ends with it: 0, or 2 for a mistake that is told in words."""
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        for number in ENDS:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDS)
        run()
        code = 0
    except HoldfastError as error:
        print(f"holdfast: {error}", file=sys.stderr)
        code = 2
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # the parent's own cleaning up is not the child's to do
