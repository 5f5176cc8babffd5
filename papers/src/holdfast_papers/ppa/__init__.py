"""PPA (ICDE'16), partially active replication.

The `recovery_simulation` modules cover Figures 7 to 10 at the paper's scale, simulated; the `recovery_run` and `checkpoint_runs`
modules the same figures with real processes. The `tentative` modules cover the accuracy of tentative output (Figures 12 and 13),
and `figure14.py` the comparison of planners.
"""
