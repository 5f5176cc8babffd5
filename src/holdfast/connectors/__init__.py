"""Connectors to systems outside: readers of data that can be read again, for sources, and writers for sinks.

`replayable.py` says what a reader does; `kafka_reader.py`, `files_reader.py` and `table_reader.py` are readers. A client library is
imported when its first connector is opened, so an application loads without it.
"""

import pyarrow as pa

from holdfast.app import Source
from holdfast.connectors.replayable import RangeReader
from holdfast.connectors.table_reader import TableHistory, TableReader
from holdfast.documents.source_inputs import DeltaInput, FilesInput, IcebergInput, KafkaInput
from holdfast.errors import HoldfastError


def open_reader(source: Source, schema: pa.Schema, *, task: int) -> RangeReader:
    """Return the reader of one task of a replayable source."""
    match source.input:
        case KafkaInput():
            from holdfast.connectors.kafka_reader import KafkaReader

            return KafkaReader(source.input, schema, source=source.name, task=task, tasks=source.parallelism)
        case FilesInput():
            from holdfast.connectors.files_reader import FilesReader

            return FilesReader(source.input, schema, source=source.name, task=task, tasks=source.parallelism)
        case DeltaInput():
            from holdfast.connectors.delta_history import DeltaHistory

            history: TableHistory = DeltaHistory(source.input, source=source.name)
        case IcebergInput():
            from holdfast.connectors.iceberg_history import IcebergHistory

            history = IcebergHistory(source.input, source=source.name)
        case None:
            raise HoldfastError(f"source '{source.name}' ({source.origin}) has no input that can be read again")
    return TableReader(source.input, history, schema, source=source.name, task=task, tasks=source.parallelism)
