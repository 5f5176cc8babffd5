"""Calls of the HTTP API: each a row with its token, body and answers. Routes, checks and the OpenAPI document follow from it."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel, ValidationError
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from holdfast.documents.document import MAX_ERRORS, FieldError, InvalidFieldsError, validate_document
from holdfast.errors import DocumentError, HoldfastError

Token = Literal["user", "node", "none"]

MAX_BODY_BYTES = 8 * 1024 * 1024
LONG_BYTES = 64 * 1024
MAX_VALUES = 150_000
"""Values of a document that is read with every error told: hundreds of thousands of errors would keep everybody waiting."""
UNREAD_BYTES, UNREAD_S = 256 * 1024 * 1024, 10.0
"""How much is still taken, and for how long, of a body that is too long: who sends it hears of that only when it is done."""


class Refusal(HoldfastError):
    """An answer that is an error, with its status. `unread`: the rest of the body is still to come. `errors` are what is wrong
    with a document, each with its place there."""

    def __init__(
        self,
        status: int,
        text: str,
        *,
        headers: Mapping[str, str] | None = None,
        unread: bool = False,
        errors: Sequence[FieldError] = (),
    ) -> None:
        self.status, self.headers, self.unread, self.errors = status, dict(headers or {}), unread, tuple(errors)
        super().__init__(text)


@dataclass(frozen=True, slots=True)
class QueryParameter:
    """A parameter of a call's query: a whole or broken number in a range, or text."""

    name: str
    kind: Literal["integer", "number", "string"] = "integer"
    least: float = 0
    most: float = 2**53
    default: Any = None
    about: str = ""


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """A call as its handler sees it: path and query checked, the body's document checked."""

    path: Mapping[str, str]
    query: Mapping[str, Any]
    body: Any = None


@dataclass(frozen=True, slots=True)
class ApiAnswer:
    """What a handler answers: a document, or nothing (204)."""

    document: Mapping[str, Any] | BaseModel | None
    status: int = 200


@dataclass(frozen=True, slots=True)
class StreamedAnswer:
    """What a handler answers that goes on answering: parts, sent as they come until the caller has gone."""

    parts: AsyncIterator[bytes]
    media: str


@dataclass(frozen=True, slots=True)
class Call:
    """One call. `status` is that of success, `statuses` are others. `strict` documents are read as a user's are, with every error
    told, also those that `also` finds in their plain values; others as fast as can be. `media` is the type of what is answered."""

    method: str
    path: str
    about: str
    handler: Callable[[ApiRequest], Awaitable[ApiAnswer | StreamedAnswer]]
    token: Token = "user"
    body: type[BaseModel] | None = None
    strict: bool = False
    also: Callable[[object], Iterable[FieldError]] = lambda data: ()
    query: tuple[QueryParameter, ...] = ()
    answer: type[BaseModel] | None = None
    status: int = 200
    statuses: tuple[int, ...] = ()
    most_bytes: int = MAX_BODY_BYTES
    tag: str = field(default="jobs")
    media: str = "application/json"


@dataclass(frozen=True, slots=True)
class Tokens:
    """The two tokens. A caller with one of them is a user or a node."""

    user: str
    node: str

    def check(self, wanted: Token, header: str | None) -> None:
        """Raise Refusal unless the header carries the wanted token."""
        if wanted == "none":
            return
        scheme, _, given = (header or "").partition(" ")
        if scheme.lower() != "bearer" or not given:
            raise Refusal(401, f"a {wanted} token is missing; send it as 'Authorization: Bearer ...'", headers=_ASKS)
        mine, other = (self.user, self.node) if wanted == "user" else (self.node, self.user)
        if _same(given, mine):
            return
        if _same(given, other):
            raise Refusal(403, f"this call wants the {wanted} token, and got the other one")
        raise Refusal(
            401, f"the token is not this orchestrator's {wanted} token; it is in '{wanted}.token' of its work folder", headers=_ASKS
        )


_ASKS = {"WWW-Authenticate": "Bearer"}


def _same(given: str, mine: str) -> bool:
    return hmac.compare_digest(given.encode(errors="replace"), mine.encode())


async def read_body(request: Request, most_bytes: int) -> bytes:
    """The body of a request, of at most so many bytes. Raises Refusal."""
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > most_bytes:
        raise _too_long(most_bytes, unread=True)
    body = bytearray()
    more = True
    while more:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise Refusal(400, "the body ended before it was whole")
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > most_bytes:
            raise _too_long(most_bytes, unread=more)
    return bytes(body)


class Unread(Response):
    """An answer to a body that is not taken. Closing the line with a part of it unread would reset it, and take the answer along:
    so the answer comes first, and the rest of the body is taken and dropped, within bounds."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await send({"type": "http.response.body", "body": self.body, "more_body": True})
        left = UNREAD_BYTES
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(UNREAD_S):
                while left > 0:
                    message = await receive()
                    left -= len(message.get("body", b""))
                    if not message.get("more_body", False):
                        break
        await send({"type": "http.response.body", "body": b""})


def read_document(call: Call, body: bytes) -> Any:
    """The document in a body, checked. Raises Refusal."""
    assert call.body is not None
    if not call.strict:
        try:
            return call.body.model_validate_json(body)
        except ValidationError as error:
            if error.error_count() > MAX_ERRORS:  # even to list them would take long
                raise Refusal(422, f"wanted a {call.body.__name__}, got something with {error.error_count()} errors") from None
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            if first["type"] == "json_invalid":
                raise Refusal(400, f"the body is not JSON: {first['msg'].removeprefix('Invalid JSON: ')}") from None
            place = ".".join(map(str, first["loc"]))
            raise Refusal(422, f"{call.body.__name__}: {place + ': ' if place else ''}{first['msg']}") from None
    if (values := body.count(b",")) > MAX_VALUES:
        raise Refusal(413, f"the body is too long; wanted at most {MAX_VALUES} values, got {values}")
    try:
        data = json.loads(body or b"{}", parse_constant=_no_constant, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise Refusal(400, f"the body is not JSON: {error}") from None
    try:
        return validate_document(data, call.body, also=call.also)
    except InvalidFieldsError as error:
        text = str(DocumentError(call.body.__name__.lower(), list(map(str, error.errors))))
        raise Refusal(422, text, errors=error.errors) from None


def read_query(call: Call, request: Request) -> dict[str, Any]:
    """The query of a call, with defaults. Raises Refusal with everything wrong with it."""
    found: dict[str, Any] = {query.name: query.default for query in call.query}
    known = {query.name: query for query in call.query}
    errors = []
    for name, text in request.query_params.multi_items():
        query = known.get(name)
        if query is None:
            errors.append(f"there is no parameter '{name}'; parameters are: {', '.join(sorted(known)) or 'none'}")
            continue
        if query.kind == "string":
            found[name] = text
            continue
        try:
            value = int(text) if query.kind == "integer" else float(text)
        except ValueError:
            value = float("nan")
        if not query.least <= value <= query.most:
            errors.append(f"parameter '{name}': wanted {_wanted(query)}, got '{text[:60]}'")
        found[name] = value
    if errors:
        raise Refusal(422, "; ".join(errors))
    return found


def endpoint(call: Call, tokens: Tokens) -> Callable[[Request], Awaitable[Response]]:
    """What the router calls: token first, then size, then meaning."""

    async def answer(request: Request) -> Response:
        try:
            tokens.check(call.token, request.headers.get("authorization"))
            query = read_query(call, request)
            document = None
            if call.body is not None:
                body = await read_body(request, call.most_bytes)
                long = call.strict and len(body) > LONG_BYTES  # finding all that is wrong with it takes long too: not in the loop
                document = await asyncio.to_thread(read_document, call, body) if long else read_document(call, body)
            return answered(await call.handler(ApiRequest(request.path_params, query, document)))
        except Refusal as refusal:
            made = Unread if refusal.unread else Response
            return refused(refusal.status, str(refusal), headers=refusal.headers, errors=refusal.errors, made=made)
        except asyncio.CancelledError:
            raise
        except HoldfastError as error:
            return refused(422, str(error))

    return answer


def answered(answer: ApiAnswer | StreamedAnswer) -> Response:
    if isinstance(answer, StreamedAnswer):
        return StreamingResponse(
            answer.parts, media_type=answer.media, headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        )
    if answer.document is None:
        return Response(status_code=204)
    if isinstance(answer.document, BaseModel):
        content = answer.document.model_dump_json(exclude_none=True)
    else:
        content = json.dumps(answer.document, separators=(",", ":"), ensure_ascii=False)
    return Response(content, status_code=answer.status, media_type="application/json")


def refused(
    status: int,
    text: str,
    *,
    headers: Mapping[str, str] | None = None,
    errors: Sequence[FieldError] = (),
    made: type[Response] = Response,
) -> Response:
    told = {"problems": [{"place": error.place, "text": error.text} for error in errors]} if errors else {}
    return made(
        json.dumps({"error": text, **told}, ensure_ascii=True),
        status_code=status,
        media_type="application/json",
        headers=dict(headers or {}),
    )


def _too_long(most_bytes: int, *, unread: bool) -> Refusal:
    text = f"the body is too long; wanted at most {most_bytes} bytes"
    return Refusal(413, text, headers={"Connection": "close"}, unread=unread)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A mapping in which every key stands once: of two, which one was meant cannot be known. Raises Refusal."""
    made = dict(pairs)
    if len(made) < len(pairs):
        twice = sorted(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise Refusal(
            422, f"the body has {', '.join(repr(key[:60]) for key in twice[:10])} more than once in one mapping; keep one"
        )
    return made


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")


def _wanted(query: QueryParameter) -> str:
    if query.kind == "integer":
        return f"a whole number from {int(query.least)} to {int(query.most)}"
    return f"a number from {query.least:g} to {query.most:g}"
