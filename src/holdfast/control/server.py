"""Runs an orchestrator as a server: its work folder, tokens, address file and HTTP server."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import secrets
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import uvicorn

from holdfast.control.api.calls import Tokens
from holdfast.control.api.listening import ADDRESS, Listening, allow_connections, write_whole
from holdfast.control.orchestrator import Orchestrator
from holdfast.control.settings import OrchestratorSettings
from holdfast.errors import HoldfastError


async def serve(
    settings: OrchestratorSettings,
    listening: Listening,
    *,
    bound: socket.socket,
    say: Callable[[str], None],
    stop: asyncio.Event | None = None,
) -> None:
    """Serve on a listening socket until SIGTERM, SIGINT or `stop`, and close it.

    Raises Fenced when another orchestrator has taken over.
    """
    try:
        tokens = prepare_work(settings.work)
        orchestrator = Orchestrator(settings, say=say)
        gc.freeze()  # loaded code is never garbage, and the collector would inspect it again and again
        gc.enable()
        allow_connections()
        try:
            await orchestrator.begin()
        except BaseException:
            orchestrator.persistence.database.close()  # ends threads that wait for an unreachable database
            raise
        await _serve(orchestrator, bound, listening, tokens, say=say, stop=stop)
    finally:
        bound.close()


async def _serve(
    orchestrator: Orchestrator,
    bound: socket.socket,
    listening: Listening,
    tokens: Tokens,
    *,
    say: Callable[[str], None],
    stop: asyncio.Event | None,
) -> None:
    server = _Server(
        uvicorn.Config(
            orchestrator.api.application(tokens),
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
    work = orchestrator.settings.work
    url = _url(bound, secure=listening.certificate is not None)
    serving = asyncio.create_task(server.serve(sockets=[bound]))
    write_address(work, url)
    say(f"serving at {url} (term {orchestrator.term}); tokens are in {work}; for the web page: holdfast ui --orchestrator {work}")
    with _signals(orchestrator.stop):
        running = asyncio.create_task(orchestrator.run())
        stopping = [asyncio.create_task(stop.wait())] if stop is not None else []
        try:
            await asyncio.wait([serving, running, *stopping], return_when=asyncio.FIRST_COMPLETED)
        finally:
            orchestrator.stop()
            server.should_exit = True
            for task in stopping:
                task.cancel()
            await asyncio.gather(serving, return_exceptions=True)
    await running
    serving.result()  # raises the error of a server that failed


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


def write_address(work: Path, url: str) -> None:
    """Write the orchestrator's URL to the work folder. If it has not changed, nothing is written, so a full disk does no harm."""
    path, text = work / ADDRESS, url + "\n"
    try:
        if not path.exists() or path.read_bytes() != text.encode():
            write_whole(path, text)
    except OSError as error:
        raise HoldfastError(f"'{path}' cannot be written: {error.strerror}; make room, or give another --work") from error


def _token(path: Path) -> str:
    if not path.exists():
        write_whole(path, secrets.token_urlsafe(32) + "\n", mode=0o600)
    text = path.read_bytes().decode("ascii", errors="replace").strip()
    if not (text and text.isascii() and text.isprintable()):
        raise HoldfastError(f"token file '{path}' has no token, which is one line of ASCII; remove the file to create a new one")
    return text


def _url(bound: socket.socket, *, secure: bool) -> str:
    host, port = bound.getsockname()[:2]
    return f"{'https' if secure else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"
