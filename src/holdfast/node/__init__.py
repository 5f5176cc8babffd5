"""The node controller and the processes that it supervises. Read `controller.py` first.

`controller.py` notices that the PE host died or hangs, starts it again and reports the replicas that failed. `process.py` runs a
node, `pe_hosts.py` starts and stops its PE host, and `host_health.py` decides whether it is hung and when it may start again.
`replica_changes.py` and `reports.py` turn changes of replicas into durable reports. `agent_processes.py` supervises prediction
agents.
"""
