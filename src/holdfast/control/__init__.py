"""The control plane: one orchestrator accepts jobs, places their replicas on nodes and keeps them running.

Read `orchestrator.py` first: it owns all state and executes the actions that the state machines in `jobs/` name. Each action is a
method of a plug-in, listed in `plugins.py`: `jobs/` (parsing, dataflow, persistence), `nodes/` (nodes, replicas, assignments),
`placement/`, `recovery/` (restarts of replicas, recovery of the orchestrator), `observers/` (code that watches running jobs),
`faults/` (fault injection), `storage/` (the database) and `api/` (HTTP).
"""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from holdfast.control.api.listening import Listening, allow_connections, bind
    from holdfast.control.faults.fault_library import all_faults
    from holdfast.control.faults.injection_tests import (
        InjectionTest,
        InjectionTests,
        Moment,
        Trigger,
        read_tests,
    )
    from holdfast.control.jobs.job_paths import AllowedPaths
    from holdfast.control.jobs.machine_diagram import shipped_page
    from holdfast.control.jobs.machine_document import Machine, shipped_machines
    from holdfast.control.observers.absent_epochs import ABSENT, PRODUCER
    from holdfast.control.observers.activation import CONFIGURATION, EXCEEDED
    from holdfast.control.plugins import shipped_actions
    from holdfast.control.server import prepare_work, serve
    from holdfast.control.settings import OrchestratorSettings
else:
    __getattr__ = lazy_exports(__name__)
