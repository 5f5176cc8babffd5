"""The epoch log as a Spark data source: `spark.readStream`, `spark.writeStream` and `spark.read` with the format "holdfast".

Read `data_source.py` first. `feeds.py` finds the epochs, `epoch_reader.py` offers them to a streaming query one at a time,
`epoch_writer.py` commits a query's batches as epochs, and `batch_reader.py` reads a range of epochs. Rows are read and written on
the executors; the driver handles file names, counts and checksums. Python workers import this package by name, so holdfast must be
installed where the executors run.
"""

from holdfast.engine.connector.data_source import HoldfastDataSource, register_data_source

__all__ = ["HoldfastDataSource", "register_data_source"]
