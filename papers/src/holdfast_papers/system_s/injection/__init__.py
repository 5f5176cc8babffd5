"""Injects faults at the transitions of the job state machine, against real processes. Read `campaign.py` first, then
`injection_trial.py` and `transition_scenarios.py`."""
