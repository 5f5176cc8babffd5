"""The open requests by which an orchestrator notices at once that a node has died.

The node controller and its PE host each keep a request open, which the orchestrator does not answer. The system closes the
connections of a process that is killed. When both are closed and neither returns, the node has died, and the orchestrator need not
wait until beats are missing.
"""

from __future__ import annotations

import http.client
import select
import ssl
import threading
from contextlib import closing, suppress
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import BaseModel, ValidationError

from holdfast.documents.whole_files import replace_file

PRESENCE = "presence.json"
RETRY_S = 1.0
"""How long a PE host waits before it opens its request again."""


class Presence(BaseModel):
    """Where a PE host opens its request, and with which token. `certificate` is the authority to trust, unless that is public."""

    url: str
    node: str
    token: str
    certificate: str | None = None


def presence_path(node: str, *, holder: str) -> str:
    """Return the path of the request of a node's `controller` or `host`."""
    return f"/v1/nodes/{node}/presence?holder={holder}"


def write_presence(work: Path, presence: Presence) -> None:
    """Write the file that the PE host in a work folder reads. Only its user may read it, because it contains the node's token.

    If it cannot be written, for example on a full disk, the orchestrator notices the death of the node by missing beats only.
    """
    path, text = work / PRESENCE, presence.model_dump_json()
    with suppress(OSError):
        if not path.exists() or path.read_text() != text:
            replace_file(path, text, mode=0o600)


def hold_presence(work: Path, stopping: threading.Event) -> None:
    """Keep the PE host's request open until the process stops. It opens a new one when the old one or the address has changed."""
    while not stopping.is_set():
        with suppress(OSError, ValueError, ValidationError, http.client.HTTPException):
            _hold(work / PRESENCE, stopping)
        stopping.wait(RETRY_S)


def _hold(path: Path, stopping: threading.Event) -> None:
    modified_ns = path.stat().st_mtime_ns
    presence = Presence.model_validate_json(path.read_bytes())
    with closing(_connect(presence)) as connection:
        headers = {"Authorization": f"Bearer {presence.token}"}
        connection.request("GET", presence_path(presence.node, holder="host"), headers=headers)
        while not stopping.is_set() and path.stat().st_mtime_ns == modified_ns:
            if select.select([connection.sock], [], [], RETRY_S)[0]:
                return  # the orchestrator has closed the request, or refused it


def _connect(presence: Presence) -> http.client.HTTPConnection:
    server = urlsplit(presence.url)
    assert server.hostname is not None
    if server.scheme == "https":
        trust = ssl.create_default_context(cafile=presence.certificate)
        return http.client.HTTPSConnection(server.hostname, server.port, timeout=RETRY_S, context=trust)
    return http.client.HTTPConnection(server.hostname, server.port, timeout=RETRY_S)
