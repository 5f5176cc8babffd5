"""The clock plug-in. The control plane reads time only through it, so that a test can replace it."""

from __future__ import annotations

import asyncio
import time


class Clock:
    """The system's clocks. `now_s` is the time of day, for histories; `monotonic_s` is for measuring durations."""

    def __init__(self, orchestrator: object = None) -> None:
        del orchestrator  # every plug-in receives it; the clock does not need it

    def now_s(self) -> float:
        return time.time()

    def monotonic_s(self) -> float:
        return time.monotonic()

    async def sleep(self, for_s: float) -> None:
        await asyncio.sleep(for_s)
