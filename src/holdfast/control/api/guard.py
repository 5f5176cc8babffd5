"""The middleware before the API: it refuses calls without a lease, limits the calls of each node and applies injected faults."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.types import ASGIApp, Receive, Scope, Send

from holdfast.control.api.calls import error_response
from holdfast.protocol.messages import NODE_HEADER, NOT_LEADER

if TYPE_CHECKING:
    from holdfast.control.orchestrator import Orchestrator

RATE = 200.0
BURST = 400.0
CALLERS = 20_000


@dataclass(slots=True)
class Bucket:
    """A token bucket: how many calls a caller may make now."""

    remaining: float
    at_s: float

    def take(self, now_s: float, *, rate: float, burst: float) -> bool:
        """Take one call from the bucket. Returns whether it is allowed.

        >>> bucket = Bucket(1.0, 0.0)
        >>> [bucket.take(now, rate=2, burst=1) for now in (0.0, 0.1, 0.6)]
        [True, False, True]
        """
        self.remaining = min(burst, self.remaining + (now_s - self.at_s) * rate)
        self.at_s = now_s
        if self.remaining < 1:
            return False
        self.remaining -= 1
        return True


async def refuse_as_standby(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer that this orchestrator is not the leader, so that the caller tries the next address."""
    text = "this orchestrator is not the leader; give the addresses of all orchestrators, separated by commas"
    await error_response(NOT_LEADER, text, headers={"Retry-After": "1"})(scope, receive, send)


class Guard:
    """Refuses the calls of a node that calls too often, before their bodies are read, and all calls when the lease has ended.

    Calls are counted by node name and token. A node that floods the API slows down no other node, and a stranger who uses a
    node's name uses up none of its calls.
    """

    def __init__(self, app: ASGIApp, *, orchestrator: Orchestrator, clock: Callable[[], float] = time.monotonic) -> None:
        self.app, self.orchestrator, self._clock = app, orchestrator, clock
        self._buckets: OrderedDict[tuple[str, bytes], Bucket] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        if not self.orchestrator.persistence.database.leads:  # this process was stopped for a while, for example
            await refuse_as_standby(scope, receive, send)
            return
        node = _calling_node(scope["path"])
        caller = _registering_node(scope) if node is None else node
        if caller is not None and not self._allows((caller, _header(scope, b"authorization"))):
            await error_response(429, f"node '{caller[:100]}' calls too often; wait", headers={"Retry-After": "1"})(
                scope, receive, send
            )
            return
        await self.orchestrator.faults.pass_on(node, self.app, scope, receive, send)

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


def _calling_node(path: str) -> str | None:
    parts = path.split("/")
    return parts[3] if len(parts) == 5 and parts[1:3] == ["v1", "nodes"] and parts[4] in ("beat", "assignment") else None


def _registering_node(scope: Scope) -> str | None:
    """Return the node name in the header of a registration. Nodes without this header are counted together."""
    if scope["path"] != "/v1/nodes" or scope["method"] != "POST":
        return None
    return _header(scope, NODE_HEADER.encode()).decode(errors="replace")


def _header(scope: Scope, key: bytes) -> bytes:
    """Return the value of a header, or no bytes if it is missing."""
    return next((value[:200] for name, value in scope.get("headers", ()) if name == key), b"")
