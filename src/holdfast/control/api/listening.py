"""Opens the socket of the orchestrator. This module imports little, so that the socket is open long before the rest is loaded.

A node or user that calls in the meantime is connected and waits for the answer, instead of being refused and trying again.
"""

from __future__ import annotations

import contextlib
import errno
import resource
import socket
import time
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from holdfast.errors import HoldfastError

ADDRESS = "address"
"""The file in the work folder that contains the URL of the orchestrator."""
PORT_WAIT_S = 2.0
"""How long to wait for a port that is in use. The port of a killed orchestrator is free once its process has ended."""


@dataclass(frozen=True, slots=True)
class Listening:
    """Where to listen. Port 0 takes the port of the last start in the same work folder if it is free, else any free port.

    Without TLS, only `insecure` allows an address that other machines can reach.
    """

    host: str = "127.0.0.1"
    port: int = 0
    certificate: Path | None = None
    key: Path | None = None
    insecure: bool = False

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.key is None):
            raise HoldfastError("TLS needs both --certificate and --key; give both or neither")
        if self.certificate is not None and self.key is not None:
            _check_pair(self.certificate, self.key)
        elif not (self.insecure or _is_loopback(self.host)):
            raise HoldfastError(
                f"--listen {self.host}: without TLS, everyone on the network can read the tokens; give --certificate and --key, or "
                "--insecure if the network is trusted"
            )


def _is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address.

    >>> [_is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "10.0.0.1", "")]
    [True, True, True, False, False, False]
    """
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def bind(work: Path, listening: Listening) -> socket.socket:
    """Return a listening socket. Waits up to PORT_WAIT_S for a port that is in use. Raises HoldfastError if none can be used."""
    ports = [listening.port] if listening.port else [*_last_port(work), 0]
    for port in ports:
        try:
            return _listen(listening.host, port)
        except OSError as error:
            if port == ports[-1]:
                raise HoldfastError(f"cannot listen at {listening.host}:{port}: {error.strerror}; {_advice(error)}") from error
    raise AssertionError("the last port was either bound or raised an error")


def _listen(host: str, port: int) -> socket.socket:
    ends_s = time.monotonic() + PORT_WAIT_S
    while True:
        listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
            listener.listen(4096)
            listener.set_inheritable(False)
            return listener
        except OSError as error:
            listener.close()
            if error.errno != errno.EADDRINUSE or time.monotonic() > ends_s:
                raise
            time.sleep(0.02)


def allow_connections() -> None:
    """Raise the limit of open files as far as the system allows. Each node holds two connections, and the usual limit is 1000."""
    _, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):  # some systems have a lower limit than they report
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard_limit, hard_limit))


def _advice(error: OSError) -> str:
    """Return what to do about an address that cannot be bound."""
    if error.errno == errno.EADDRINUSE:
        return "another process uses it: stop that process, or give another --port (0 for any that is free)"
    if error.errno == errno.EACCES:
        return "give another --port: those below 1024 are for the system's administrator"
    return "give another --listen: an address of this machine, such as 127.0.0.1 or 0.0.0.0"


def _check_pair(certificate: Path, key: Path) -> None:
    """Raise HoldfastError unless certificate and key are valid. This is checked before a healthy orchestrator is replaced."""
    import ssl

    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password="")
    except (OSError, ssl.SSLError) as error:
        raise HoldfastError(
            f"certificate '{certificate}' and key '{key}' cannot be used: {error}; "
            "give PEM files that belong together, the key without a password"
        ) from error


def _last_port(work: Path) -> list[int]:
    try:
        port = urlsplit((work / ADDRESS).read_text().strip()).port
    except (OSError, ValueError):
        return []
    return [port] if port else []
