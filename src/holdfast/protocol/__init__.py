"""Messages between orchestrator, nodes and commands, and the client of the orchestrator's API. Read `messages.py` first."""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

__all__ = [
    "Client",
    "WaitFailed",
]

if TYPE_CHECKING:
    from holdfast.protocol.client import Client, WaitFailed
else:
    __getattr__ = lazy_exports(__name__)
