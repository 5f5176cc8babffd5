"""Applications, graphs of operators and of tasks, descriptors and topologies. Knows nothing of Spark."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.model.app import App
    from holdfast.model.definition import Operator, Origin, Partitioning, Score, Sink, Source
    from holdfast.model.graph import Graph
    from holdfast.model.keep import Keep, LastEpochs, LastRows, StateTable, last_epochs, last_rows, state_table

__all__ = [
    "App",
    "Graph",
    "Keep",
    "LastEpochs",
    "LastRows",
    "Operator",
    "Origin",
    "Partitioning",
    "Score",
    "Sink",
    "Source",
    "StateTable",
    "last_epochs",
    "last_rows",
    "state_table",
]

_MODULES = {"App": "app", "Graph": "graph"} | dict.fromkeys(
    ("Operator", "Origin", "Partitioning", "Score", "Sink", "Source"), "definition"
)


def __getattr__(name: str) -> Any:
    """What the modules define, loaded when asked for: an orchestrator needs documents of jobs and no graph."""
    if name in __all__:
        return getattr(import_module(f"{__name__}.{_MODULES.get(name, 'keep')}"), name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
