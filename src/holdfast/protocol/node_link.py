"""A node's side of the line to the orchestrator: three calls, and what can become of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from pydantic import BaseModel, ValidationError

from holdfast.errors import HoldfastError
from holdfast.protocol.messages import NODE_HEADER, Assignment, Beat, BeatAnswer, Registered, Registration
from holdfast.protocol.wire import Caller, WireAnswer, WireError

POLL_S = 20.0
"""How long the orchestrator may hold a call for an assignment open."""
CALL_S = 10.0

M = TypeVar("M", bound=BaseModel)


class LinkError(HoldfastError):
    """A call that did not do what it was for."""


class Away(LinkError):
    """The orchestrator could not be reached, broke off, or is not well; so may whatever stands between it and this node be."""


class Busy(LinkError):
    """The orchestrator takes no reports now: it is recovering, or has had too many calls of this node. Ask again."""


class Outdated(LinkError):
    """The orchestrator does not know this node, or not in this term: it must register again."""


class Taken(LinkError):
    """Another controller is this node: it was given the same name, or is this one's predecessor and not yet missed."""


class Refused(LinkError):
    """The orchestrator will not have it: a wrong token, a message that it does not understand."""


class Superseded(LinkError):
    """The orchestrator that answers is older than one that this node has heard from."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where an orchestrator is, and the token to call it with."""

    url: str
    token: str


def place_at(where: str, token: Path | None) -> Callable[[], Place]:
    """How to find the orchestrator: at a URL with a token from a file, or by the work folder of one on this machine.

    The files are read at every call of what this returns, since an orchestrator may come back at another address.
    """
    folder = None if "://" in where else Path(where)
    if folder is None and token is None:
        raise HoldfastError(f"orchestrator '{where}' needs a token: give --token-file with its node.token")

    if folder is None:
        check_url(where)
    if token is not None and token.is_file():
        read_token(token)

    def find() -> Place:
        url = where if folder is None else _found(folder / "address", read_address)
        return Place(url.rstrip("/"), _found(token or Path(where) / "node.token", read_token))

    return find


def check_url(url: str) -> None:
    """Raise HoldfastError for what can be no orchestrator's address."""
    if not _is_address(url):
        raise HoldfastError(f"orchestrator '{url}': wanted http://HOST:PORT, https://HOST:PORT or its --work folder")


def read_address(path: Path) -> str:
    """The address in a file. Raises HoldfastError where it holds none, and OSError where it cannot be read."""
    url = path.read_bytes().decode("ascii", errors="replace").strip()
    if not _is_address(url):
        raise HoldfastError(f"'{path}': wanted the orchestrator's address, got {url[:60]!r}; start the orchestrator again")
    return url


def _is_address(url: str) -> bool:
    try:
        split = urlsplit(url)
        sound = split.hostname and split.port != 0 and not (split.query or split.fragment)
    except ValueError:
        return False
    return split.scheme in ("http", "https") and bool(sound)


def read_token(path: Path) -> str:
    """The token in a file. Raises HoldfastError where it holds none, and OSError where it cannot be read."""
    return sendable_token(path.read_bytes().decode("ascii", errors="replace"), of=f"'{path}'")


def sendable_token(text: str, *, of: str) -> str:
    """A token as it is sent. Raises HoldfastError, which never shows it, where it cannot be one."""
    token = text.strip()
    if not (token and token.isascii() and token.isprintable()):
        got = "something else" if token else "nothing"
        raise HoldfastError(f"{of}: wanted a token, which is one line of ASCII, got {got}; copy it again from the orchestrator")
    return token


def _found(path: Path, read: Callable[[Path], str]) -> str:
    """What a file of the orchestrator says; Away while it says nothing of use, because the orchestrator may yet write it."""
    try:
        return read(path)
    except OSError as error:
        raise Away(f"'{path}' cannot be read ({error.strerror}); is the orchestrator's --work folder right?") from error
    except HoldfastError as error:
        raise Away(str(error)) from error


class Link:
    """Calls of one node."""

    def __init__(self, name: str, find: Callable[[], Place], wire: Caller) -> None:
        self.name, self._find, self._wire = name, find, wire
        self._place: Place | None = None

    async def register(self, registration: Registration) -> Registered:
        self._place = self._find()
        try:
            answer = await self._call("POST", "/v1/nodes", registration)
        except Outdated as error:
            raise Taken(str(error)) from error
        return _read(answer, Registered)

    async def beat(self, beat: Beat) -> BeatAnswer:
        return _read(await self._call("POST", f"/v1/nodes/{self.name}/beat", beat), BeatAnswer)

    async def assignment(self, term: int, generation: int, *, controller: str) -> Assignment | None:
        """The newest assignment once it is newer than this, or None after a while of nothing newer."""
        path = f"/v1/nodes/{self.name}/assignment?term={term}&generation={generation}&controller={controller}"
        answer = await self._call("GET", path, None, limit_s=POLL_S + CALL_S)
        return None if answer.status == 204 else _read(answer, Assignment)

    async def close(self) -> None:
        await self._wire.close()

    async def _call(self, method: str, path: str, body: BaseModel | None, *, limit_s: float = CALL_S) -> WireAnswer:
        place = self._place = self._place or self._find()
        try:
            answer = await self._wire.call(
                method,
                place.url + path,
                headers={
                    "authorization": f"Bearer {place.token}",
                    "content-type": "application/json",
                    NODE_HEADER: self.name,
                },
                body=None if body is None else body.model_dump_json(exclude_defaults=True).encode(),
                limit_s=limit_s,
            )
        except WireError as error:
            raise Away(f"orchestrator at {place.url} is away: {error}") from error
        if answer.status < 300:
            return answer
        kind = {409: Outdated, 429: Busy, 503: Busy}.get(answer.status, Away if answer.status >= 500 else Refused)
        raise kind(f"orchestrator at {place.url} answered {answer.status}: {error_text(answer.content)}")


def error_text(content: bytes) -> str:
    """What the orchestrator said of its refusal."""
    try:
        return str(json.loads(content)["error"])
    except (ValueError, KeyError, TypeError):
        return content[:200].decode(errors="replace") or "nothing more"


def _read(answer: WireAnswer, model: type[M]) -> M:
    try:
        return model.model_validate_json(answer.content)
    except ValidationError as error:
        raise Refused(f"the orchestrator answered something else than a {model.__name__}: {error}") from error
