"""Applications, graphs of operators and of tasks, descriptors and topologies. Knows nothing of Spark."""

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
