"""How a node controller calls the orchestrator: register, beat, fetch the assignment; and the errors of these calls."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from pydantic import BaseModel, ValidationError

from holdfast.errors import HoldfastError
from holdfast.protocol.http_client import HttpClient, HttpResponse, NoResponse
from holdfast.protocol.messages import NODE_HEADER, NOT_LEADER, Assignment, Beat, BeatAnswer, Registration, RegistrationAnswer
from holdfast.protocol.node_token import own_token
from holdfast.protocol.presence import Presence, presence_path, write_presence

POLL_S = 20.0
"""How long the orchestrator may hold a request for an assignment open."""
CALL_S = 10.0

M = TypeVar("M", bound=BaseModel)


class LinkError(HoldfastError):
    """A call to the orchestrator that failed."""


class OrchestratorUnreachable(LinkError):
    """The orchestrator did not answer, or it or a proxy before it answered with a server error (5xx)."""


class NoLeader(OrchestratorUnreachable):
    """Every orchestrator that answered is a standby. One of them becomes the leader soon."""


class OrchestratorBusy(LinkError):
    """The orchestrator takes no reports now: it is recovering, or this node calls too often. Try again."""


class RegistrationOutdated(LinkError):
    """The orchestrator does not know this node, or not in this term. The node must register again."""


class NodeNameTaken(LinkError):
    """Another controller has registered under this name. It may be this one's predecessor, which is not yet counted as lost."""


class CallRefused(LinkError):
    """The orchestrator refuses the call: the token is wrong, or it does not understand the message."""


class OrchestratorSuperseded(LinkError):
    """The orchestrator that answers has a lower term than one that this node has already obeyed."""


@dataclass(frozen=True, slots=True)
class OrchestratorAddress:
    """The URLs of an orchestrator and its standbys, and the token to call them with."""

    urls: tuple[str, ...]
    token: str


def locate_orchestrator(where: str, token: Path | None) -> Callable[[], OrchestratorAddress]:
    """Return a function that returns an orchestrator's addresses, given its URLs (separated by commas) or its local work folder.

    The function reads the address and token files at every call, because the orchestrator may return at another address.
    It raises OrchestratorUnreachable while they have no usable content.
    """
    folder = None if "://" in where else Path(where)
    if folder is None and token is None:
        raise HoldfastError(f"orchestrator '{where}' needs a token: give --token-file with its node.token")

    if folder is None:
        split_urls(where)
    if token is not None and token.is_file():
        read_token(token)

    def locate() -> OrchestratorAddress:
        urls = split_urls(where if folder is None else _read_file(folder / "address", read_address))
        return OrchestratorAddress(urls, _read_file(token or Path(where) / "node.token", read_token))

    return locate


def split_urls(text: str) -> tuple[str, ...]:
    """Return the URLs in a text, which are separated by commas. Raises HoldfastError unless each can be one of an orchestrator.

    >>> split_urls("http://a:8470/, https://b:8470")
    ('http://a:8470', 'https://b:8470')
    """
    urls = tuple(url.strip().rstrip("/") for url in text.split(","))
    for url in urls:
        if not _is_address(url):
            raise HoldfastError(
                f"orchestrator '{url}': wanted http://HOST:PORT, https://HOST:PORT, several of these separated by commas, "
                "or its --work folder"
            )
    return urls


def read_address(path: Path) -> str:
    """Return the URL in a file. Raises HoldfastError if it contains none, and OSError if it cannot be read."""
    url = path.read_bytes().decode("ascii", errors="replace").strip()
    if not _is_address(url):
        raise HoldfastError(f"'{path}': wanted the orchestrator's address, got {url[:60]!r}; start the orchestrator again")
    return url


def _is_address(url: str) -> bool:
    try:
        split = urlsplit(url)
        is_complete = split.hostname and split.port != 0 and not (split.query or split.fragment)
    except ValueError:
        return False
    return split.scheme in ("http", "https") and bool(is_complete)


def read_token(path: Path) -> str:
    """Return the token in a file. Raises HoldfastError if it contains none, and OSError if it cannot be read."""
    return parse_token(path.read_bytes().decode("ascii", errors="replace"), source=f"'{path}'")


def parse_token(text: str, *, source: str) -> str:
    """Return the token in a text. Raises HoldfastError, which does not show the text, if it cannot be a token."""
    token = text.strip()
    if not (token and token.isascii() and token.isprintable()):
        content = "something else" if token else "nothing"
        raise HoldfastError(
            f"{source}: wanted a token, which is one line of ASCII, got {content}; copy it again from the orchestrator"
        )
    return token


def _read_file(path: Path, read: Callable[[Path], str]) -> str:
    """Read a file of the orchestrator. Every error is OrchestratorUnreachable, because the orchestrator may yet write the file."""
    try:
        return read(path)
    except OSError as error:
        raise OrchestratorUnreachable(
            f"'{path}' cannot be read ({error.strerror}); is the orchestrator's --work folder right?"
        ) from error
    except HoldfastError as error:
        raise OrchestratorUnreachable(str(error)) from error


class NodeLink:
    """The calls of one node. Each raises a LinkError."""

    def __init__(self, name: str, locate: Callable[[], OrchestratorAddress], http: HttpClient) -> None:
        self.name, self._locate, self._http = name, locate, http
        self._address: OrchestratorAddress | None = None
        self._leader = 0

    async def register(self, registration: Registration) -> RegistrationAnswer:
        """Register the node with the first orchestrator that answers as the leader. Looks up the addresses again."""
        self._address = self._locate()
        errors: list[LinkError] = []
        for remaining in reversed(range(len(self._address.urls))):
            try:
                answer = _parse(await self._call("POST", "/v1/nodes", registration), RegistrationAnswer)
                if answer.term < registration.heard:
                    raise OrchestratorSuperseded(
                        f"the orchestrator that answered has term {answer.term}, but this node has already obeyed term "
                        f"{registration.heard}; if its database is a restored backup, start it with --restored"
                    )
                return answer
            except RegistrationOutdated as error:
                raise NodeNameTaken(str(error)) from error
            except (OrchestratorUnreachable, OrchestratorSuperseded) as error:
                self._leader += 1
                errors.append(error)
                if not remaining:
                    specific = (each for kind in (OrchestratorSuperseded, NoLeader) for each in errors if isinstance(each, kind))
                    raise next(specific, error) from None
        raise AssertionError("there is at least one address")

    async def beat(self, beat: Beat) -> BeatAnswer:
        """Send a beat with its reports."""
        return _parse(await self._call("POST", f"/v1/nodes/{self.name}/beat", beat), BeatAnswer)

    async def assignment(self, term: int, generation: int, *, controller: str) -> Assignment | None:
        """Wait for an assignment newer than this term and generation. Returns None if there is none within POLL_S."""
        path = f"/v1/nodes/{self.name}/assignment?term={term}&generation={generation}&controller={controller}"
        response = await self._call("GET", path, None, limit_s=POLL_S + CALL_S)
        return None if response.status == 204 else _parse(response, Assignment)

    async def hold_presence(self) -> None:
        """Keep a request open until the orchestrator stops."""
        await self._call("GET", presence_path(self.name, holder="controller"), None, limit_s=None)

    def write_presence(self, work: Path, *, certificate: Path | None) -> None:
        """Write the address and the token with which the PE host in a work folder opens its own request."""
        address = self._address = self._address or self._locate()
        url = address.urls[self._leader % len(address.urls)]
        authority = None if certificate is None else str(certificate.absolute())
        write_presence(work, Presence(url=url, node=self.name, token=own_token(address.token, self.name), certificate=authority))

    async def close(self) -> None:
        await self._http.close()

    async def _call(self, method: str, path: str, body: BaseModel | None, *, limit_s: float | None = CALL_S) -> HttpResponse:
        address = self._address = self._address or self._locate()
        url = address.urls[self._leader % len(address.urls)]
        try:
            response = await self._http.call(
                method,
                url + path,
                headers={
                    "authorization": f"Bearer {own_token(address.token, self.name)}",
                    "content-type": "application/json",
                    NODE_HEADER: self.name,
                },
                body=None if body is None else body.model_dump_json(exclude_defaults=True).encode(),
                limit_s=limit_s,
            )
        except NoResponse as error:
            raise OrchestratorUnreachable(f"orchestrator at {url} is unreachable: {error}") from error
        if response.status < 300:
            return response
        raise _error_class(response.status)(f"orchestrator at {url} answered {response.status}: {error_text(response.content)}")


def _error_class(status: int) -> type[LinkError]:
    if status == 409:
        return RegistrationOutdated
    if status in (429, 503):
        return OrchestratorBusy
    if status == NOT_LEADER:
        return NoLeader
    return OrchestratorUnreachable if status >= 500 else CallRefused


def error_text(content: bytes) -> str:
    """Return the error text in the body of an API response."""
    try:
        return str(json.loads(content)["error"])
    except (ValueError, KeyError, TypeError):
        return content[:200].decode(errors="replace") or "an empty body"


def _parse(response: HttpResponse, model: type[M]) -> M:
    try:
        return model.model_validate_json(response.content)
    except ValidationError as error:
        raise CallRefused(f"the orchestrator's answer is not a {model.__name__}: {error}") from error
