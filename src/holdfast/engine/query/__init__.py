"""Structured Streaming queries as operators: batch n of a query is one epoch, and its state is its checkpoint folder.

Read `query_run.py` first: it gives a running query one epoch at a time. `query_function.py` calls and checks the user's function,
`query_folder.py` copies and packs checkpoints, `watermarks.py` keeps what Spark's checkpoint lacks, and `query_replay.py` runs a
query over a whole trace.
"""
