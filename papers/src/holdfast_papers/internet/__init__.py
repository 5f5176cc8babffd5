"""A study of our own, not of a paper: a day of a data center with 10,000 PEs under five plans, simulated."""
