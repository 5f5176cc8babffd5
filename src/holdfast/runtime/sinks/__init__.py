"""Sinks: the replica of a sink, its Parquet files, and the claims that keep two replicas from writing the same epoch."""

from holdfast.log.output_files import read_output
