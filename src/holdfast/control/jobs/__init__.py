"""The jobs of the orchestrator: their state machines, their states, how they are parsed and how they are connected.

Read `state_machine.py` first (the pure step function), then `machine_document.py` (the documents in `machines/`).
`job_state.py` is a job in memory, `persistence.py` writes its transitions to the database, `parser.py` turns an application into
tasks, `dataflow.py` connects jobs that read each other's streams, `job_paths.py` checks the paths that a job names.
"""
