"""The calls of the HTTP API. A `Call` describes one: its path, token, body and answers.

The router (`endpoint`), the checks of requests and the OpenAPI document (`openapi.py`) all follow from these descriptions.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from pydantic import BaseModel, ValidationError
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from holdfast.documents.document import MAX_ERRORS, FieldError, InvalidFieldsError, validate_document
from holdfast.errors import DocumentError, HoldfastError
from holdfast.protocol.node_token import named_node, node_token

Token = Literal["user", "node", "none"]

MAX_BODY_BYTES = 8 * 1024 * 1024
LONG_BYTES = 64 * 1024
"""Longer documents of users are checked in a thread, because that takes too long for the event loop."""
MAX_VALUES = 150_000
"""The most values in a document whose errors are all reported: to list hundreds of thousands of errors would block the server."""
DISCARD_BYTES, DISCARD_S = 256 * 1024 * 1024, 10.0
"""How much of a body that is too long is read and discarded, and for how long, so that its sender gets to read the answer."""


class Refusal(HoldfastError):
    """An error answer with its status. `unread`: the client is still sending the body. `errors` are the errors of a document, each
    with its place."""

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
    """A query parameter of a call: an integer or a number in a range, or text."""

    name: str
    kind: Literal["integer", "number", "string"] = "integer"
    minimum: float = 0
    maximum: float = 2**53
    default: Any = None
    description: str = ""


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """A request as its handler gets it: the query and the body's document are checked. `node` is the node that calls, and
    `until_disconnected` waits until the caller has closed its connection."""

    path: Mapping[str, str]
    query: Mapping[str, Any]
    body: Any = None
    node: str = ""
    until_disconnected: Callable[[], Coroutine[Any, Any, None]] | None = None


@dataclass(frozen=True, slots=True)
class ApiAnswer:
    """The answer of a handler: a document, or nothing (status 204)."""

    document: Mapping[str, Any] | BaseModel | None
    status: int = 200


@dataclass(frozen=True, slots=True)
class StreamedAnswer:
    """An answer without an end: parts are sent as they come, until the client disconnects."""

    parts: AsyncIterator[bytes]
    media: str


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the API.

    `status` is the status of success, `statuses` are the others. `strict` bodies come from users: all their errors are reported,
    including those that `also` finds in the plain values. Other bodies come from nodes: they are read as fast as possible, and one
    error is reported. `media` is the type of the answer.
    """

    method: str
    path: str
    summary: str
    handler: Callable[[ApiRequest], Awaitable[ApiAnswer | StreamedAnswer]]
    token: Token = "user"
    body: type[BaseModel] | None = None
    strict: bool = False
    also: Callable[[object], Iterable[FieldError]] = lambda data: ()
    query: tuple[QueryParameter, ...] = ()
    answer: type[BaseModel] | None = None
    status: int = 200
    statuses: tuple[int, ...] = ()
    max_bytes: int = MAX_BODY_BYTES
    tag: str = field(default="jobs")
    media: str = "application/json"


@dataclass(frozen=True, slots=True)
class Tokens:
    """The token of users, and the key from which the token of each node follows (`protocol/node_token.py`)."""

    user: str
    node: str

    def check(self, required: Token, header: str | None) -> str:
        """Raise Refusal unless the Authorization header carries the required token. Return the node to which it belongs, if any."""
        if required == "none":
            return ""
        scheme, _, token = (header or "").partition(" ")
        if scheme.lower() != "bearer" or not token:
            raise Refusal(401, f"a {required} token is missing; send it as 'Authorization: Bearer ...'", headers=_CHALLENGE)
        node = named_node(token)
        is_user, is_node = _same(token, self.user), _same(token, node_token(self.node, node))
        if is_user if required == "user" else is_node:
            return node
        if is_user or is_node:
            raise Refusal(403, f"this call requires a {required} token, got the other one")
        where = "is in 'user.token' of its work folder" if required == "user" else "'holdfast node-token NAME' prints it"
        raise Refusal(401, f"the token is not this orchestrator's {required} token; {where}", headers=_CHALLENGE)


_CHALLENGE = {"WWW-Authenticate": "Bearer"}


def _same(token: str, expected: str) -> bool:
    return hmac.compare_digest(token.encode(errors="replace"), expected.encode())


async def read_body(request: Request, max_bytes: int) -> bytes:
    """Return the body of a request. Raises Refusal if it is longer than `max_bytes`."""
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > max_bytes:
        raise _too_long(max_bytes, unread=True)
    body = bytearray()
    more = True
    while more:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise Refusal(400, "the body is incomplete")
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > max_bytes:
            raise _too_long(max_bytes, unread=more)
    return bytes(body)


class DiscardingResponse(Response):
    """An answer to a request whose body is too long. It is sent first, and then the rest of the body is read and discarded.

    If the server closed the connection with a part of the body unread, the client would see a reset instead of the answer.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await send({"type": "http.response.body", "body": self.body, "more_body": True})
        remaining_bytes = DISCARD_BYTES
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DISCARD_S):
                while remaining_bytes > 0:
                    message = await receive()
                    remaining_bytes -= len(message.get("body", b""))
                    if not message.get("more_body", False):
                        break
        await send({"type": "http.response.body", "body": b""})


def read_document(call: Call, body: bytes) -> Any:
    """Return the document in a body. Raises Refusal with its errors."""
    assert call.body is not None
    if not call.strict:
        try:
            return call.body.model_validate_json(body)
        except ValidationError as error:
            if error.error_count() > MAX_ERRORS:  # even listing them takes long
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
    """Return the query parameters with their defaults. Raises Refusal with all errors."""
    values: dict[str, Any] = {query.name: query.default for query in call.query}
    known = {query.name: query for query in call.query}
    errors = []
    for name, text in request.query_params.multi_items():
        query = known.get(name)
        if query is None:
            errors.append(f"there is no parameter '{name}'; parameters are: {', '.join(sorted(known)) or 'none'}")
            continue
        if query.kind == "string":
            values[name] = text
            continue
        try:
            value = int(text) if query.kind == "integer" else float(text)
        except ValueError:
            value = float("nan")
        if not query.minimum <= value <= query.maximum:
            errors.append(f"parameter '{name}': wanted {_range_text(query)}, got '{text[:60]}'")
        values[name] = value
    if errors:
        raise Refusal(422, "; ".join(errors))
    return values


def endpoint(call: Call, tokens: Tokens) -> Callable[[Request], Awaitable[Response]]:
    """Return the function that the router calls for a call. It checks the token first, then the size, then the content."""

    async def answer(request: Request) -> Response:
        try:
            node = tokens.check(call.token, request.headers.get("authorization"))
            if call.token == "node" and (name := request.path_params.get("name", node)) != node:
                raise Refusal(403, f"this is the token of node '{node}', which may not call for node '{name[:100]}'")
            query = read_query(call, request)
            document = None
            if call.body is not None:
                body = await read_body(request, call.max_bytes)
                in_thread = call.strict and len(body) > LONG_BYTES
                document = await asyncio.to_thread(read_document, call, body) if in_thread else read_document(call, body)
            api_request = ApiRequest(request.path_params, query, document, node, partial(_until_disconnected, request))
            return answer_response(await call.handler(api_request))
        except Refusal as refusal:
            response = DiscardingResponse if refusal.unread else Response
            return error_response(refusal.status, str(refusal), headers=refusal.headers, errors=refusal.errors, response=response)
        except asyncio.CancelledError:
            raise
        except HoldfastError as error:
            status = getattr(error, "http_status", 422)
            return error_response(status, str(error), headers={"Retry-After": "2"} if status == 503 else None)

    return answer


async def _until_disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def answer_response(answer: ApiAnswer | StreamedAnswer) -> Response:
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


def error_response(
    status: int,
    text: str,
    *,
    headers: Mapping[str, str] | None = None,
    errors: Sequence[FieldError] = (),
    response: type[Response] = Response,
) -> Response:
    """Return an answer with an error text and the errors of a document."""
    fields = {"errors": [{"place": error.place, "text": error.text} for error in errors]} if errors else {}
    return response(
        json.dumps({"error": text, **fields}, ensure_ascii=True),
        status_code=status,
        media_type="application/json",
        headers=dict(headers or {}),
    )


def _too_long(max_bytes: int, *, unread: bool) -> Refusal:
    text = f"the body is too long; wanted at most {max_bytes} bytes"
    return Refusal(413, text, headers={"Connection": "close"}, unread=unread)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the pairs as a dict. Raises Refusal if a key occurs twice, because it is unclear which value is meant."""
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        repeated = sorted(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise Refusal(
            422, f"the body has {', '.join(repr(key[:60]) for key in repeated[:10])} more than once in one mapping; keep one"
        )
    return mapping


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _range_text(query: QueryParameter) -> str:
    if query.kind == "integer":
        return f"a whole number from {int(query.minimum)} to {int(query.maximum)}"
    return f"a number from {query.minimum:g} to {query.maximum:g}"
