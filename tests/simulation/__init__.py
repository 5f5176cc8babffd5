"""The protocol simulation: the real classes of the data path and of the observers, under a scheduler that controls time, storage,
crashes and the order of all operations.

Read `scheduler.py` first, then `cluster.py`. `run.py` runs schedules, `laws.py` says what must hold after each of them.
"""
