"""The data source "holdfast" of a SparkSession, and its options."""

import getpass
import hashlib
import tempfile
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, DataSourceStreamWriter
from pyspark.sql.types import StructType

from holdfast.engine.connector.batch_reader import EpochFinder, EpochRange, RangeReader
from holdfast.engine.connector.epoch_reader import EpochReader
from holdfast.engine.connector.epoch_writer import BatchWriter, LogWriter
from holdfast.engine.connector.feeds import RECORD_KINDS, BatchFeed, LogFeed, RecordKind
from holdfast.errors import HoldfastError
from holdfast.log import Quality

OPTIONS = ("epochs", "first", "group", "log", "out", "producer", "quality", "records", "sink", "stream", "together")
PRIVATE_OPTIONS = ("batches", "folder", "outputs", "sync")
"""Options of a replica's own query."""
SPARK_OPTIONS = ("checkpointlocation", "path", "queryname")
"""Options that Spark adds."""


def register_data_source(session: SparkSession) -> None:
    """Register the data source with a session, and make the session this thread's active one.

    Spark looks a data source up in the thread's active session, also when another session registers or uses it.
    """
    make_active(session)
    session.dataSource.register(HoldfastDataSource)


def make_active(session: SparkSession) -> None:
    """Make a session the active one of this thread."""
    jvm: Any = session._jvm
    jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(session._jsparkSession)


class HoldfastDataSource(DataSource):
    """Reads and writes streams, and reads the output of sinks. docs/queries.md explains the options."""

    @classmethod
    def name(cls) -> str:
        return "holdfast"

    def schema(self) -> StructType:
        return self._finder().schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        return RangeReader(self._finder(), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        self._check_options()
        stream = self._required("stream")
        if "batches" in self.options:
            return EpochReader(
                BatchFeed(self.options["batches"]), stream, schema, group=Path(self.options["group"]), is_new_group=True
            )
        if "sink" in self.options:
            raise HoldfastError(
                "a sink's output cannot be read as a stream, because a correction replaces an epoch; read the stream"
            )
        together = [name.strip() for name in self.options.get("together", stream).split(",")]
        if stream not in together:
            raise HoldfastError(f"option 'together' lists the streams of the query, {', '.join(together)}, without '{stream}'")
        kind = self._kind("exact")
        if kind == "newest":
            raise HoldfastError("a streaming query reads 'exact' or 'first' records, because a newer record cannot be read twice")
        feed = LogFeed(self._required("log"), sorted(together), kind, first=self._number("first"))
        return EpochReader(feed, stream, schema, group=self._group(sorted(together), kind))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        self._check_options()
        log = self._required("log")
        if "outputs" in self.options:
            sync = self.options["sync"] == "true"
            return BatchWriter(log, self.options["folder"], outputs=self.options["outputs"], sync=sync)
        quality = self.options.get("quality", "exact")
        if quality not in ("exact", "tentative"):
            raise HoldfastError(f"option 'quality' is '{quality}'; it must be 'exact' or 'tentative'")
        stream = self._required("stream")
        producer = self.options.get("producer", f"query of {stream}")
        return LogWriter(log, stream, first=self._number("first") or 0, quality=Quality(quality), producer=producer)

    def _finder(self) -> EpochFinder:
        self._check_options()
        epochs = EpochRange.parse(self.options.get("epochs"))
        if "sink" in self.options:
            return EpochFinder(self._required("out"), self.options["sink"], True, self._kind("newest"), epochs)
        return EpochFinder(self._required("log"), self._required("stream"), False, self._kind("newest"), epochs)

    def _kind(self, default: RecordKind) -> RecordKind:
        kind = self.options.get("records", default)
        if kind not in RECORD_KINDS:
            raise HoldfastError(f"option 'records' is '{kind}'; it must be one of {', '.join(RECORD_KINDS)}")
        return kind

    def _required(self, option: str) -> str:
        if not self.options.get(option):
            raise HoldfastError(f"the format 'holdfast' needs the option '{option}'; give it with .option('{option}', ...)")
        return str(self.options[option])

    def _number(self, option: str) -> int | None:
        text = self.options.get(option)
        if text is not None and not str(text).isdigit():
            raise HoldfastError(f"option '{option}' is '{text}'; it must be the number of an epoch")
        return None if text is None else int(text)

    def _check_options(self) -> None:
        known = {*OPTIONS, *PRIVATE_OPTIONS, *SPARK_OPTIONS}
        unknown = sorted(option for option in self.options if option.lower() not in known)
        if unknown:
            raise HoldfastError(f"the format 'holdfast' has no option '{unknown[0]}'; its options are: {', '.join(OPTIONS)}")

    def _group(self, streams: list[str], kind: str) -> Path:
        """Return the folder in which the readers of a query agree. It is on the driver's machine."""
        if "group" in self.options:
            return Path(self.options["group"])
        text = "\n".join([self.options["log"], kind, *streams])
        name = hashlib.sha256(text.encode()).hexdigest()[:16]
        return Path(tempfile.gettempdir()) / f"holdfast-readers-{getpass.getuser()}" / name
