"""Time, as a plug-in: what the control plane reads instead of the system's clocks."""

from __future__ import annotations

import asyncio
import time


class Clock:
    """The system's clocks. `now_s` is the time of day for stories, `monotonic_s` is for measuring."""

    def __init__(self, orchestrator: object = None) -> None:
        del orchestrator  # every plug-in is given it; this one needs nothing of it

    def now_s(self) -> float:
        return time.time()

    def monotonic_s(self) -> float:
        return time.monotonic()

    async def sleep(self, for_s: float) -> None:
        await asyncio.sleep(for_s)
