"""What a job is to the orchestrator: its state machine, its state, its parsing, its place in the dataflow graph.

Read `state_machine.py` first (the pure step function), then `machine_document.py` (the documents in `machines/`).
`job_state.py` is a job in memory, `persistence.py` writes its transitions to the database, `parser.py` turns an application into
tasks, `dataflow.py` connects jobs that read each other's streams, `job_paths.py` checks the paths that a job names.
"""
