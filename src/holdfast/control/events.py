"""What happened, as a bounded and numbered list that can be waited on: for watching, for histories and for the dashboard."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

KEPT = 20_000
TERM_NUMBERS = 1_000_000_000
"""Numbers go on over orchestrators: each begins at its term times this."""


@dataclass(frozen=True, slots=True)
class OrchestratorEvent:
    """One thing that happened. `kind` is one of: job, node, replica, decision, control."""

    number: int
    at_s: float
    kind: str
    text: str
    job: int | None = None
    node: str | None = None
    replica: str | None = None
    data: Mapping[str, Any] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        return {
            "number": self.number,
            "at_s": self.at_s,
            "kind": self.kind,
            "text": self.text,
            "job": self.job,
            "node": self.node,
            "replica": self.replica,
            "data": dict(self.data),
        }


class Events:
    """The newest events of an orchestrator."""

    def __init__(self, now_s: Callable[[], float], *, kept: int = KEPT) -> None:
        self._now_s = now_s
        self._list: deque[OrchestratorEvent] = deque(maxlen=kept)
        self._number = 0
        self._news = asyncio.Event()

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
        """Add an event and wake those who wait for one."""
        self._number += 1
        self._list.append(OrchestratorEvent(self._number, self._now_s(), kind, text, job, node, replica, data or {}))
        self.wake()

    def wake(self) -> None:
        """Let everybody who waits look again."""
        self._news.set()
        self._news = asyncio.Event()

    def after(self, number: int, *, limit: int = 1000) -> list[OrchestratorEvent]:
        """The events after a number, oldest first; at most `limit`."""
        found: list[OrchestratorEvent] = []
        for happened in reversed(self._list):
            if happened.number <= number:
                break
            found.append(happened)
        found.reverse()
        return found[:limit]

    async def wait(self, number: int, *, for_s: float) -> list[OrchestratorEvent]:
        """The events after a number, as soon as there is one; none after `for_s`."""
        found = self.after(number)
        if found or for_s <= 0:
            return found
        try:
            async with asyncio.timeout(for_s):
                await self._news.wait()
        except TimeoutError:
            return []
        return self.after(number)
