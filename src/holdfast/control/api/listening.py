"""Where an orchestrator listens. Loads next to nothing: the socket is there long before the rest of the orchestrator is.

Who calls meanwhile is connected, and is answered when there is somebody to answer: nodes that come back to an orchestrator that
was killed need not try again and again.
"""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from holdfast.errors import HoldfastError

ADDRESS = "address"
"""The file in the work folder that says where the orchestrator listens."""


FREED_S = 2.0
"""How long a port that is taken is waited for: that of an orchestrator that was just killed is free when its process is gone."""


@dataclass(frozen=True, slots=True)
class Listening:
    """Where to listen. Port 0: a free one, and on the next start in the same folder the same again if it can be had."""

    host: str = "127.0.0.1"
    port: int = 0
    certificate: Path | None = None
    key: Path | None = None

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.key is None):
            raise HoldfastError("TLS needs both --certificate and --key; give both or neither")
        if self.certificate is not None and self.key is not None:
            _check_pair(self.certificate, self.key)


def bind(work: Path, listening: Listening) -> socket.socket:
    """A socket that listens. A port that is taken is waited for, for a moment. Raises HoldfastError where it stays so."""
    wanted = [listening.port] if listening.port else [*_last_port(work), 0]
    for port in wanted:
        try:
            return _bound(listening.host, port)
        except OSError as error:
            if port == wanted[-1]:
                raise HoldfastError(f"cannot listen at {listening.host}:{port}: {error.strerror}; {_advice(error)}") from error
    raise AssertionError("the last port either served or raised")


def _bound(host: str, port: int) -> socket.socket:
    ends_s = time.monotonic() + FREED_S
    while True:
        bound = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind((host, port))
            bound.listen(4096)
            bound.set_inheritable(False)
            return bound
        except OSError as error:
            bound.close()
            if error.errno != errno.EADDRINUSE or time.monotonic() > ends_s:
                raise
            time.sleep(0.02)


def allow_connections() -> None:
    """Let this process have as many open files as it may: each node holds two connections, and the usual limit is a thousand."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):  # a system may have a limit of its own that it does not tell
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _advice(error: OSError) -> str:
    """What to do about an address that cannot be listened at."""
    if error.errno == errno.EADDRINUSE:
        return "another process has it: stop that one, or give another --port (0 for any that is free)"
    if error.errno == errno.EACCES:
        return "give another --port: those below 1024 are for the system's administrator"
    return "give another --listen: an address of this machine, such as 127.0.0.1 or 0.0.0.0"


def _check_pair(certificate: Path, key: Path) -> None:
    """Raise HoldfastError unless these can be served with. A mistake must not take the term from an orchestrator that is well."""
    import ssl

    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password="")
    except (OSError, ssl.SSLError) as error:
        raise HoldfastError(
            f"certificate '{certificate}' and key '{key}' cannot be used: {error}; "
            "give PEM files that belong together, the key without a password"
        ) from error


def write_whole(path: Path, text: str, *, mode: int = 0o644) -> None:
    """Write a small file whole or not at all."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise


def _last_port(work: Path) -> list[int]:
    try:
        port = urlsplit((work / ADDRESS).read_text().strip()).port
    except (OSError, ValueError):
        return []
    return [port] if port else []
