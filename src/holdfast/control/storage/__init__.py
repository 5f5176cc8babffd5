"""The orchestrator's database.

`database.py` runs transactions and lets only one orchestrator write, `schema.py` has the tables and their versions, and
`stored_jobs.py` has the statements and queries about jobs, placements and nodes.
"""
