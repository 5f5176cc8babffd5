"""Code that watches running jobs and decides what to do about them.

`job_observers.py` shows every running job to the observer of its host kind and carries out the decisions. `spark_job_observer.py`
is the observer for Spark; it combines one module per concern:

- `absent_epochs.py` commits absent epochs for dead tasks (PPA).
- `activation.py` switches replicas on and off with the load (LAAR).
- `adaptation.py` changes the plan when the rates change (PPA).
- `hung_replicas.py` finds replicas that have work and make no progress.
- `upstream_backup.py` wakes another replica of a late task (ISORC'16).
- `abandoned_tasks.py` fails a job that cannot progress without an abandoned task.
"""
