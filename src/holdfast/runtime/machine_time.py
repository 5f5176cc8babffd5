"""The time of one machine and the threads that wait for it. The protocol simulation replaces both."""

import ctypes
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol


class RunningThread(Protocol):
    """A thread that has been started."""

    def interrupt(self, exception: type[BaseException]) -> None:
        """Raise an exception in the thread, at any point, unless it has ended."""
        ...

    def join(self, wait_s: float) -> bool:
        """Wait until the thread has ended, at most `wait_s` seconds. Return whether it has."""
        ...


class _Thread:
    def __init__(self, run: Callable[[], None], name: str) -> None:
        self._thread = threading.Thread(target=run, name=name, daemon=True)
        self._thread.start()

    def interrupt(self, exception: type[BaseException]) -> None:
        ident = self._thread.ident
        if ident is not None and self._thread.is_alive():
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(ident), ctypes.py_object(exception))

    def join(self, wait_s: float) -> bool:
        self._thread.join(wait_s)
        return not self._thread.is_alive()


class WakeUp(Protocol):
    """The part of threading.Event that a replica loop uses."""

    def set(self) -> None: ...
    def clear(self) -> None: ...
    def is_set(self) -> bool: ...
    def wait(self, timeout: float) -> bool: ...


@dataclass(frozen=True)
class MachineTime:
    """`wall_s` is the time in seconds since 1970, `elapsed_s` one that never jumps. `start` starts a thread with a name."""

    wall_s: Callable[[], float] = time.time
    elapsed_s: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    new_event: Callable[[], WakeUp] = threading.Event
    start: Callable[[Callable[[], None], str], RunningThread] = _Thread


MACHINE_TIME = MachineTime()
