"""Events and threads of simulated machines."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .scheduler import Actor, Scheduler

if TYPE_CHECKING:
    from .node import Host


class SimEvent:
    """Stands for threading.Event."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._is_set = False
        self._waiting: list[Actor] = []

    def set(self) -> None:
        self._is_set = True
        for actor in self._waiting:
            self._scheduler.wake(actor)

    def clear(self) -> None:
        self._is_set = False

    def is_set(self) -> bool:
        return self._is_set

    def wait(self, timeout: float) -> bool:
        if not self._is_set:
            actor = self._scheduler.current
            assert actor is not None
            self._waiting.append(actor)
            try:
                self._scheduler.park(timeout)
            finally:
                self._waiting.remove(actor)
        return self._is_set


class SimThread:
    """A thread of a PE host."""

    def __init__(self, scheduler: Scheduler, host: Host, run: Callable[[], None], name: str) -> None:
        self._scheduler = scheduler
        self.actor = scheduler.spawn(name, run, host.process)
        host.thread_started(name, self.actor)

    def interrupt(self, exception: type[BaseException]) -> None:
        if self.actor is self._scheduler.current:
            self.actor.exception = exception
        else:
            self._scheduler.interrupt(self.actor, exception)

    def join(self, wait_s: float) -> bool:
        end_s = self._scheduler.now_s + wait_s
        while not self.actor.done and self._scheduler.now_s < end_s:
            self._scheduler.park(0.1)
        return self.actor.done
