"""What a user writes: an `App` with its sources, operators, sinks and keep rules, and the checked `Graph` of it.

Read `app.py` first, then `definition.py` (the recorded values), `graph.py` and `validation.py` (every error that can be
detected without Spark). Nothing in this package imports Spark.
"""

from holdfast.app.app import App
from holdfast.app.definition import Node, Operator, Origin, Score, Sink, Source
from holdfast.app.examples import example_path
from holdfast.app.graph import Graph
from holdfast.app.keep import Keep, LastEpochs, LastRows, StateTable, last_epochs, last_rows, state_table
from holdfast.app.load import load_app
from holdfast.app.task_topology import topology_of
