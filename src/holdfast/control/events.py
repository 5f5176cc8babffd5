"""The orchestrator's events: a bounded, numbered list that callers can wait on. The API, histories and the web page read it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

MAX_EVENTS = 20_000
TERM_NUMBERS = 1_000_000_000
"""Event numbers ascend over terms: those of a term start at the term times this number."""


@dataclass(frozen=True, slots=True)
class OrchestratorEvent:
    """One event. `kind` is one of: job, node, replica, decision, control, fault."""

    number: int
    at_s: float
    kind: str
    text: str
    job: int | None = None
    node: str | None = None
    replica: str | None = None
    data: Mapping[str, Any] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__} | {"data": dict(self.data)}


class Events:
    """The newest events of an orchestrator."""

    def __init__(self, now_s: Callable[[], float], *, most: int = MAX_EVENTS) -> None:
        self._now_s = now_s
        self._events: deque[OrchestratorEvent] = deque(maxlen=most)
        self._number = 0
        self._wakeup = asyncio.Event()

    def begin(self, term: int) -> None:
        self._number = term * TERM_NUMBERS

    @property
    def last(self) -> int:
        """The number of the newest event."""
        return self._number

    def emit(
        self,
        kind: str,
        text: str,
        *,
        job: int | None = None,
        node: str | None = None,
        replica: str | None = None,
        data: Mapping[str, Any] | None = None,
    ) -> None:
        """Add an event and wake the callers that wait for one."""
        self._number += 1
        self._events.append(OrchestratorEvent(self._number, self._now_s(), kind, text, job, node, replica, data or {}))
        self.wake()

    def wake(self) -> None:
        """Wake every caller that waits in `wait`."""
        self._wakeup.set()
        self._wakeup = asyncio.Event()

    def after(self, number: int, *, limit: int = 1000) -> list[OrchestratorEvent]:
        """Return the events after a number, oldest first, at most `limit`."""
        newer: list[OrchestratorEvent] = []
        for event in reversed(self._events):
            if event.number <= number:
                break
            newer.append(event)
        newer.reverse()
        return newer[:limit]

    async def wait(self, number: int, *, for_s: float) -> list[OrchestratorEvent]:
        """Return the events after a number as soon as there is one, or an empty list after `for_s`."""
        newer = self.after(number)
        if newer or for_s <= 0:
            return newer
        try:
            async with asyncio.timeout(for_s):
                await self._wakeup.wait()
        except TimeoutError:
            return []
        return self.after(number)
