"""HTTP as a node controller needs it: a few calls of one orchestrator, over connections that are kept, at little cost.

A fleet makes many calls a second in one process. A general client spends a millisecond on each; this one leaves the protocol
to h11 and the rest out: no redirects, no cookies, no proxies.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import urlsplit

import h11

from holdfast.errors import HoldfastError

READ_BYTES = 64 * 1024
MAX_BODY_BYTES = 64 * 2**20


class WireError(HoldfastError):
    """No answer came: nobody listens, the line broke, or time ran out."""


@dataclass(frozen=True, slots=True)
class WireAnswer:
    """What came back."""

    status: int
    content: bytes


class Caller(Protocol):
    """Makes calls. Raises WireError where no answer came."""

    async def call(
        self, method: str, url: str, *, headers: Mapping[str, str], body: bytes | None = None, limit_s: float
    ) -> WireAnswer: ...

    async def close(self) -> None: ...


class Wire:
    """Connections to servers, kept open between calls. Calls may overlap; each has a connection to itself."""

    def __init__(self, trust: ssl.SSLContext | None = None) -> None:
        self._trust = trust
        self._idle: dict[tuple[str, int], list[_Connection]] = {}

    async def call(
        self, method: str, url: str, *, headers: Mapping[str, str], body: bytes | None = None, limit_s: float
    ) -> WireAnswer:
        """Make one call. A kept connection that turns out dead is replaced once: an idle line may have been closed."""
        try:
            split = urlsplit(url)
            place = (split.hostname or "", split.port or (443 if split.scheme == "https" else 80))
        except ValueError as error:
            raise WireError(f"'{url}' is no address: {error}") from error
        target = f"{split.path or '/'}?{split.query}" if split.query else split.path or "/"
        head = h11.Request(
            method=method,
            target=target,
            headers=[("host", split.netloc), ("content-length", str(len(body or b""))), *headers.items()],
        )
        try:
            async with asyncio.timeout(limit_s):
                idle = self._idle.setdefault(place, [])
                if idle:
                    kept = idle.pop()
                    with contextlib.suppress(_Unheard):
                        return await self._made(kept, head, body, idle)
                fresh = await self._opened(place, secure=split.scheme == "https")
                return await self._made(fresh, head, body, idle)
        except TimeoutError:
            raise WireError(f"no answer within {limit_s:g} s") from None
        except (OSError, _Unheard, h11.ProtocolError) as error:
            raise WireError(str(error) or type(error).__name__) from error

    async def close(self) -> None:
        for idle in self._idle.values():
            for connection in idle:
                connection.close()
        self._idle.clear()

    async def _opened(self, place: tuple[str, int], *, secure: bool) -> _Connection:
        trust = (self._trust or ssl.create_default_context()) if secure else None
        return _Connection(*await asyncio.open_connection(*place, ssl=trust))

    async def _made(self, connection: _Connection, head: h11.Request, body: bytes | None, idle: list[_Connection]) -> WireAnswer:
        try:
            answer = await connection.call(head, body)
        except BaseException:
            connection.close()
            raise
        if connection.again():
            idle.append(connection)
        else:
            connection.close()
        return answer


class _Unheard(ConnectionError):
    """The other side closed the line before it said anything."""


class _Connection:
    """One connection and where its conversation stands."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._talk = h11.Connection(h11.CLIENT)

    async def call(self, head: h11.Request, body: bytes | None) -> WireAnswer:
        try:
            parts = [self._talk.send(head), self._talk.send(h11.Data(body)) if body else b"", self._talk.send(h11.EndOfMessage())]
            self._writer.write(b"".join(part or b"" for part in parts))
            await self._writer.drain()
            answer = await self._next()
        except ConnectionError as error:
            raise _Unheard(str(error) or "the connection was closed") from error
        while isinstance(answer, h11.InformationalResponse):
            answer = await self._next()
        assert isinstance(answer, h11.Response)
        content = bytearray()
        while not isinstance(part := await self._next(), h11.EndOfMessage):
            assert isinstance(part, h11.Data)
            content += part.data
            if len(content) > MAX_BODY_BYTES:
                raise WireError(f"an answer of more than {MAX_BODY_BYTES} bytes")
        return WireAnswer(answer.status_code, bytes(content))

    async def _next(self) -> h11.Event:
        while (event := self._talk.next_event()) is h11.NEED_DATA:
            received = await self._reader.read(READ_BYTES)
            if not received and self._talk.their_state is h11.SEND_RESPONSE:
                raise _Unheard("the connection was closed")
            self._talk.receive_data(received)
        assert not isinstance(event, type)
        return event

    def again(self) -> bool:
        """Whether another call can be made over it."""
        if self._talk.our_state is not h11.DONE or self._talk.their_state is not h11.DONE:
            return False
        self._talk.start_next_cycle()
        return True

    def close(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop may be gone already
            self._writer.close()
