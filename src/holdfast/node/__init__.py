"""The node controller and the processes that it supervises. Read `controller.py` first.

`process.py` runs a node, `pe_hosts.py` starts and stops its PE host, `host_health.py` judges it, `replica_changes.py` and
`reports.py` turn changes of replicas into durable reports, and `agent_processes.py` supervises prediction agents.
"""
