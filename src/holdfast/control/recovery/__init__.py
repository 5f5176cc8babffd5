"""What happens after a failure.

Restarts of replicas: `restart_decision.py` decides, as a pure function; `restart_policy.py` collects the facts and carries the
decision out. Restarts of the orchestrator: `orchestrator_recovery.py`.
"""
