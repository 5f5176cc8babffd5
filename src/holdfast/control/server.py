"""Runs an orchestrator as a server: its work folder, tokens, address file and HTTP server."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import gc
import os
import secrets
import signal
import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from holdfast.control.api.calls import ApiAnswer, Tokens, answer_response
from holdfast.control.api.guard import refuse_as_standby
from holdfast.control.api.listening import ADDRESS, Listening, allow_connections
from holdfast.control.orchestrator import Orchestrator
from holdfast.control.settings import OrchestratorSettings
from holdfast.control.storage.database import DatabaseUnreachable, Fenced, LeaseExpired
from holdfast.documents.whole_files import replace_file
from holdfast.errors import HoldfastError

LOCK = "serve.lock"
"""The file in the work folder that a running orchestrator locks. It contains the folder's name for the lease."""


async def serve(
    settings: OrchestratorSettings,
    listening: Listening,
    *,
    bound: socket.socket,
    say: Callable[[str], None],
    stop: asyncio.Event | None = None,
) -> None:
    """Serve on a listening socket until SIGTERM, SIGINT or `stop`, and close it.

    An orchestrator that cannot renew its lease steps down and starts again from the database. Raises LeaseHeld or Fenced when
    another orchestrator is the leader, unless this one is a standby: it waits for the end of that leader's lease.
    """
    stop = stop or asyncio.Event()
    try:
        tokens = prepare_work(settings.work)
        with lock_work(settings.work) as name, _signals(stop.set):
            url = _url(bound, secure=listening.certificate is not None)
            settings = replace(settings, name=name, address=url)
            gc.freeze()  # loaded code is never garbage, and the collector would inspect it again and again
            gc.enable()
            allow_connections()
            front = _Front(bound, listening)
            if settings.standby:
                front.start()  # callers learn at once that this is not the leader; otherwise they wait for the start
            try:
                while not stop.is_set():
                    await _lead(settings, front, tokens, say=say, stop=stop)
                    settings = replace(settings, restored=False)
            finally:
                await front.close()
    finally:
        bound.close()


async def _lead(
    settings: OrchestratorSettings, front: _Front, tokens: Tokens, *, say: Callable[[str], None], stop: asyncio.Event
) -> None:
    """Become the leader, and serve until this is stopped or steps down."""
    orchestrator = Orchestrator(settings, say=say)
    stopping = asyncio.create_task(stop.wait())
    stopping.add_done_callback(lambda _: orchestrator.persistence.database.stop_waiting() if stop.is_set() else None)
    running: asyncio.Task[None] | None = None
    try:
        try:
            await orchestrator.begin()
        except BaseException as error:
            await asyncio.to_thread(orchestrator.persistence.database.close)  # ends threads that wait for an unreachable database
            if isinstance(error, DatabaseUnreachable) and stop.is_set():
                return
            raise
        front.application = orchestrator.api.application(tokens)
        write_address(settings.work, settings.address)
        text = f"serving at {settings.address} (term {orchestrator.term}); tokens are in {settings.work}"
        say(f"{text}; for the web page: holdfast ui --orchestrator {settings.work}")
        running = asyncio.create_task(orchestrator.run())
        await asyncio.wait([front.start(), running, stopping], return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()
        if running is not None:
            orchestrator.stop()
            if stop.is_set():
                await front.close()  # calls that are being carried out are answered
            front.application = None
            await asyncio.wait([running])
    try:
        running.result()
    except LeaseExpired as error:
        say(f"{error}; it tries to become the leader again")
    except Fenced as error:
        if not settings.standby:
            raise
        say(str(error))
    front.check()


class _Front:
    """The HTTP server of this process. While there is no `application`, it answers that this is not the leader."""

    def __init__(self, bound: socket.socket, listening: Listening) -> None:
        self.application: ASGIApp | None = None
        self._bound = bound
        self._serving: asyncio.Task[None] | None = None
        self._server = _Server(
            uvicorn.Config(
                self._answer,
                interface="asgi3",
                log_config=None,
                log_level="critical",
                access_log=False,
                lifespan="off",
                ws="none",
                proxy_headers=False,
                timeout_keep_alive=75,
                timeout_graceful_shutdown=1,
                ssl_certfile=listening.certificate,
                ssl_keyfile=listening.key,
            )
        )

    def start(self) -> asyncio.Task[None]:
        """Start the server if it does not run yet. Return its task."""
        if self._serving is None:
            self._serving = asyncio.create_task(self._server.serve(sockets=[self._bound]))
        return self._serving

    def check(self) -> None:
        """Raise the error of a server that failed."""
        if self._serving is not None and self._serving.done():
            self._serving.result()

    async def close(self) -> None:
        self._server.should_exit = True
        if self._serving is not None:
            await asyncio.wait([self._serving])

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.application is not None:
            await self.application(scope, receive, send)
        elif scope["path"] == "/v1/health":
            await answer_response(ApiAnswer({"state": "standby"}))(scope, receive, send)
        else:
            await refuse_as_standby(scope, receive, send)


class _Server(uvicorn.Server):
    """A server that leaves the handling of signals to the orchestrator."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextlib.contextmanager
def _signals(stop: Callable[[], None]) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    handled = []
    for number in (signal.SIGTERM, signal.SIGINT):
        with contextlib.suppress(ValueError, RuntimeError):  # only the main thread can handle signals; others pass `stop`
            loop.add_signal_handler(number, stop)
            handled.append(number)
    try:
        yield
    finally:
        for number in handled:
            loop.remove_signal_handler(number)


def prepare_work(work: Path) -> Tokens:
    """Create the work folder and its tokens if they do not exist, and return the tokens."""
    try:
        work.mkdir(parents=True, exist_ok=True)
        return Tokens(user=_token(work / "user.token"), node=_token(work / "node.token"))
    except OSError as error:
        raise HoldfastError(f"work folder '{work}' cannot be used: {error.strerror}; give another --work") from error


@contextlib.contextmanager
def lock_work(work: Path) -> Iterator[str]:
    """Hold the work folder during the block, and yield its name for the lease. Raises HoldfastError if another process holds it.

    The system releases the lock when the process ends. Who gets it may therefore replace the folder's last leader at once. A copy
    of the folder, as for a standby, has another name, because its file has another number.
    """
    path = work / LOCK
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise HoldfastError(f"'{path}' cannot be opened: {error.strerror}; give another --work") from error
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise HoldfastError(
                f"an orchestrator already runs with the work folder '{work}'; use that one, stop it first, or give another --work"
            ) from None
        name = os.read(file, 100).decode(errors="replace").strip()
        if not name:
            name = secrets.token_hex(8)
            os.write(file, f"{name}\n".encode())
            os.fsync(file)
        yield f"{name}.{os.fstat(file).st_ino}@{socket.gethostname()}"
    finally:
        os.close(file)


def write_address(work: Path, url: str) -> None:
    """Write the orchestrator's URL to the work folder. If it has not changed, nothing is written, so a full disk does no harm."""
    path, text = work / ADDRESS, url + "\n"
    try:
        if not path.exists() or path.read_bytes() != text.encode():
            replace_file(path, text)
    except OSError as error:
        raise HoldfastError(f"'{path}' cannot be written: {error.strerror}; make room, or give another --work") from error


def _token(path: Path) -> str:
    if not path.exists():
        replace_file(path, secrets.token_urlsafe(32) + "\n", mode=0o600)
    text = path.read_bytes().decode("ascii", errors="replace").strip()
    if not (text and text.isascii() and text.isprintable()):
        raise HoldfastError(f"token file '{path}' has no token, which is one line of ASCII; remove the file to create a new one")
    return text


def _url(bound: socket.socket, *, secure: bool) -> str:
    host, port = bound.getsockname()[:2]
    return f"{'https' if secure else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"
