"""The control plane: one orchestrator accepts jobs, places their replicas on nodes and keeps them running.

Read `orchestrator.py` first: it owns all state and executes the actions that the state machines in `jobs/` name. Each action is a
method of a plug-in, listed in `plugins.py`: `jobs/` (parsing, dataflow, persistence), `nodes/` (nodes, replicas, assignments),
`placement/`, `recovery/` (restarts of replicas, recovery of the orchestrator), `observers/` (code that watches running jobs),
`faults/` (fault injection), `storage/` (the database) and `api/` (HTTP).
"""
