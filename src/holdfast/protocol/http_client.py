"""The HTTP client of a node controller."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import httpx

from holdfast.errors import HoldfastError

IDLE_S = 60.0
"""How long an idle connection is kept. The orchestrator closes its side after 75 s."""


class NoResponse(HoldfastError):
    """The server is unreachable, the connection broke, or time ran out before the response was complete."""


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """The status and the body of a response."""

    status: int
    content: bytes


class HttpClient(Protocol):
    """Sends requests. Connections are kept open between requests, and requests may overlap."""

    async def call(
        self, method: str, url: str, *, headers: Mapping[str, str], body: bytes | None = None, limit_s: float | None
    ) -> HttpResponse:
        """Send a request and return the response, with any status. Raises NoResponse, after `limit_s` unless that is None."""

    async def close(self) -> None:
        """Close all connections."""


class HttpxClient:
    """An HttpClient on httpx. It follows no redirects and uses no proxies. `trust` is for servers with a private certificate."""

    def __init__(self, trust: ssl.SSLContext | None = None) -> None:
        self._client = httpx.AsyncClient(
            verify=trust or ssl.create_default_context(),
            timeout=None,  # `call` limits the whole request; httpx would limit each of its steps
            limits=httpx.Limits(keepalive_expiry=IDLE_S),
            trust_env=False,
        )

    async def call(
        self, method: str, url: str, *, headers: Mapping[str, str], body: bytes | None = None, limit_s: float | None
    ) -> HttpResponse:
        try:
            async with asyncio.timeout(limit_s):
                response = await self._client.request(method, url, headers=headers, content=body)
        except TimeoutError:
            raise NoResponse(f"no response within {limit_s:g} s") from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise NoResponse(str(error) or type(error).__name__) from error
        return HttpResponse(response.status_code, response.content)

    async def close(self) -> None:
        await self._client.aclose()
