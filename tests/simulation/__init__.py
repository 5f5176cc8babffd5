"""The protocol simulation: the real classes of the data path and of the observers, under a scheduler that controls time, storage,
crashes and the order of all operations.

Read `scheduler.py` first, then `world.py`. `run.py` runs schedules, and `laws.py` states what must hold during and
after each of them.
"""
