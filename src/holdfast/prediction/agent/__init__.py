"""The prediction agent (ISORC'16, section IV-B): watches one task through the log and predicts its late epochs.

`process` is the program, `prediction_agent` the agent itself; read that first. `task_inputs` and `watched_stream` are what it reads
from the log, `prediction_scores` is the accuracy of the predictions it committed.
"""
