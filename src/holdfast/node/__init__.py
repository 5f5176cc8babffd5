"""The node controller and the processes that it supervises. Read `controller.py` first.

`pe_host_watch.py` notices that the PE host died or hangs, reports the replicas that failed and starts it again. `process.py` runs a
node, `pe_hosts.py` starts and stops its PE host, and `host_health.py` decides whether it is hung and when it may start again.
`replica_changes.py` and `reports.py` turn changes of replicas into durable reports. `agent_processes.py` supervises prediction
agents.
"""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from holdfast.node.controller import NodeController, NodeOffer
    from holdfast.node.light_host import STARTS, LightPes
    from holdfast.node.pe_hosts import living_host
    from holdfast.node.reports import Reports
else:
    __getattr__ = lazy_exports(__name__)
