"""Messages between orchestrator, nodes and commands, and the client of the orchestrator's API. Read `messages.py` first."""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from holdfast.protocol.client import Client, ClientError, OrchestratorUnreachable, WaitFailed
    from holdfast.protocol.http_client import HttpResponse, NoResponse
    from holdfast.protocol.messages import AssignedReplica, Assignment, HostStatus
    from holdfast.protocol.node_files import STATUS, FailureRequest, WatchedFile, request_failure
    from holdfast.protocol.node_link import NodeLink, OrchestratorAddress, locate_orchestrator
else:
    __getattr__ = lazy_exports(__name__)
