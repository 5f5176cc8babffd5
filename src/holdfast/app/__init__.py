"""Applications, graphs of operators and of tasks, descriptors and topologies. Knows nothing of Spark."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.app.app import App
    from holdfast.app.definition import Operator, Origin, Score, Sink, Source
    from holdfast.app.examples import example_path
    from holdfast.app.graph import Graph
    from holdfast.app.keep import Keep, LastEpochs, LastRows, StateTable, last_epochs, last_rows, state_table
    from holdfast.app.load import load_app
    from holdfast.app.task_topology import topology_of

__all__ = [
    "App",
    "Graph",
    "Keep",
    "LastEpochs",
    "LastRows",
    "Operator",
    "Origin",
    "Score",
    "Sink",
    "Source",
    "StateTable",
    "example_path",
    "last_epochs",
    "last_rows",
    "load_app",
    "state_table",
    "topology_of",
]

_MODULES = {"App": "app", "Graph": "graph", "example_path": "examples", "load_app": "load", "topology_of": "task_topology"}
_MODULES |= dict.fromkeys(("Operator", "Origin", "Score", "Sink", "Source"), "definition")


def __getattr__(name: str) -> Any:
    """What the modules define, loaded when asked for: an orchestrator needs documents of jobs and no graph."""
    if name in __all__:
        return getattr(import_module(f"{__name__}.{_MODULES.get(name, 'keep')}"), name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
