"""What stands before the API: calls per caller are bounded, and injected faults strike the messages that come and go."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.types import ASGIApp, Receive, Scope, Send

from holdfast.control.api.calls import refused
from holdfast.protocol.messages import NODE_HEADER

if TYPE_CHECKING:
    from holdfast.control.faults.fault_plugin import Faults

RATE = 200.0
BURST = 400.0
CALLERS = 20_000


@dataclass(slots=True)
class Bucket:
    """How many calls a caller may make at once now."""

    left: float
    at_s: float

    def take(self, now_s: float, *, rate: float, burst: float) -> bool:
        """Whether one more call is allowed.

        >>> bucket = Bucket(1.0, 0.0)
        >>> [bucket.take(now, rate=2, burst=1) for now in (0.0, 0.1, 0.6)]
        [True, False, True]
        """
        self.left = min(burst, self.left + (now_s - self.at_s) * rate)
        self.at_s = now_s
        if self.left < 1:
            return False
        self.left -= 1
        return True


class Guard:
    """Refuses what comes too often from one node, before anything of it is read.

    Every node is counted by the name that it calls with and the token it gives: one that floods is told to wait, and nobody else
    notices, nor does a node in whose name a stranger calls.
    """

    def __init__(self, app: ASGIApp, *, faults: Faults, clock: Callable[[], float] = time.monotonic) -> None:
        self.app, self.faults, self._clock = app, faults, clock
        self._buckets: OrderedDict[tuple[str, bytes], Bucket] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        node = _node(scope["path"])
        caller = _registering(scope) if node is None else node
        if caller is not None and not self._allows((caller, _header(scope, b"authorization"))):
            await refused(429, f"node '{caller[:100]}' calls too often; wait", headers={"Retry-After": "1"})(scope, receive, send)
            return
        await self.faults.pass_on(node, self.app, scope, receive, send)

    def _allows(self, caller: tuple[str, bytes]) -> bool:
        now_s = self._clock()
        bucket = self._buckets.get(caller)
        if bucket is None:
            bucket = self._buckets[caller] = Bucket(BURST, now_s)
            if len(self._buckets) > CALLERS:
                self._buckets.popitem(last=False)
        else:
            self._buckets.move_to_end(caller)
        return bucket.take(now_s, rate=RATE, burst=BURST)


def _node(path: str) -> str | None:
    parts = path.split("/")
    return parts[3] if len(parts) == 5 and parts[1:3] == ["v1", "nodes"] and parts[4] in ("beat", "assignment") else None


def _registering(scope: Scope) -> str | None:
    """The node that registers, as it says in a header; those that do not say it count as one."""
    if scope["path"] != "/v1/nodes" or scope["method"] != "POST":
        return None
    return _header(scope, NODE_HEADER.encode()).decode(errors="replace")


def _header(scope: Scope, wanted: bytes) -> bytes:
    """What a caller gives as a header, such as its token, not yet checked."""
    return next((value[:200] for name, value in scope.get("headers", ()) if name == wanted), b"")
