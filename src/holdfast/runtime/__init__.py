"""The data path: the processes and threads that run an application's sources, PEs and sinks on a node.

Read `replica.py` first, then `pe_replica.py`. A PE host (`pe_host.py`) runs one loop (`replica_loop.py`) per replica, and
`replica_factory.py` creates the replicas. A PE replica reads the log through `input_reader.py` and writes it through
`output_writer.py`, which decides whose record counts. `tentative_output.py` states when output is tentative. `sources/` holds the
replicas of sources, `sinks/` those of sinks.
"""
