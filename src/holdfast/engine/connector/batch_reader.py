"""Reads a range of epochs of a stream, or of a sink's output, as a batch DataFrame."""

import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import LongType, StringType, StructType

from holdfast.engine.connector.epoch_reader import FilePartition, read_partition
from holdfast.engine.connector.feeds import EpochFile, RecordKind, files_of, open_log, tasks_of
from holdfast.errors import HoldfastError
from holdfast.log import EpochLog, Store
from holdfast.log.object_names import quoted
from holdfast.log.output_files import list_output_files


@dataclass(frozen=True)
class EpochRange:
    """The epochs from `first` to `last`, both included; None: open."""

    first: int | None = None
    last: int | None = None

    def __contains__(self, epoch: int) -> bool:
        return (self.first is None or epoch >= self.first) and (self.last is None or epoch <= self.last)

    @classmethod
    def parse(cls, text: str | None) -> "EpochRange":
        """Return the range that a text names: '7', '7-9', '7-' or '-9'.

        >>> EpochRange.parse("7-9"), 8 in EpochRange.parse("9-")
        (EpochRange(first=7, last=9), False)
        """
        if text is None:
            return cls()
        low, dash, high = text.partition("-")
        try:
            first, last = (int(part) if part.strip() else None for part in (low, high if dash else low))
        except ValueError:
            first = last = None
        if (first is None and last is None) or (first is not None and last is not None and last < first):
            raise HoldfastError(f"option 'epochs' is '{text}'; give a range such as '7-9', '7-', '-9' or '7'")
        return cls(first, last)


@dataclass
class EpochFinder:
    """Finds the files of a range of epochs, of a log's stream or of a sink's output."""

    root: str
    name: str
    is_sink: bool
    kind: RecordKind
    epochs: EpochRange = field(default_factory=EpochRange)

    def files(self) -> list[EpochFile]:
        """Return the files in the order of epochs."""
        return self._sink_files() if self.is_sink else self._stream_files()

    def schema(self) -> StructType:
        """Return the columns of the rows, with `epoch` and `quality`. Raises HoldfastError if there are no rows yet."""
        files = self.files()
        if not files:
            what = "sink" if self.is_sink else "stream"
            raise HoldfastError(
                f"{what} '{self.name}' at '{self.root}' has no rows in these epochs, so its columns are not known; "
                "give them with .schema(...), or choose other epochs"
            )
        file = files[-1]
        content = Store(self.root).read(file.name)
        if content is None:
            raise HoldfastError(f"file '{file.name}' at '{self.root}' was trimmed while it was read; read newer epochs")
        schema: StructType = from_arrow_schema(pq.read_schema(io.BytesIO(content)))
        for name, kind in (("epoch", LongType()), ("quality", StringType())):
            if name not in schema.names:
                schema = schema.add(name, kind)
        return schema.toNullable()

    def _sink_files(self) -> list[EpochFile]:
        out = open_log(self.root)
        files = list_output_files(out, self.name, which=self.kind)
        if not files:
            sinks = sorted({unquote(name.split("/")[0]) for name in out.names("") if name.endswith(".parquet")})
            if self.name not in sinks:
                known = ", ".join(sinks) or "none yet"
                raise HoldfastError(f"the output at '{self.root}' has no sink '{self.name}'; its sinks are: {known}")
        return [EpochFile(self.root, file.name, file.epoch, file.quality.value) for file in files if file.epoch in self.epochs]

    def _stream_files(self) -> list[EpochFile]:
        store = open_log(self.root)
        log = EpochLog(store)
        files: list[EpochFile] = []
        look_up = {"first": log.first, "exact": log.final, "newest": log.newest}[self.kind]
        for task in tasks_of(store, self.name):
            names = store.names(f"records/{quoted(self.name)}/{task}/")
            for epoch in sorted({int(name.rsplit("/", 1)[1].split(".")[0]) for name in names}):
                record = look_up(self.name, task, epoch=epoch) if epoch in self.epochs else None
                if record is not None:
                    files += files_of([record], self.root).files
        return sorted(files, key=lambda file: file.epoch)


class RangeReader(DataSourceReader):
    """Reads what an EpochFinder finds: one partition per 50 files at most."""

    FILES_PER_PARTITION = 50

    def __init__(self, finder: EpochFinder, schema: StructType) -> None:
        self._finder, self._schema = finder, schema

    def partitions(self) -> list[InputPartition]:
        files = self._finder.files()
        starts = range(0, len(files), self.FILES_PER_PARTITION)
        return [FilePartition(tuple(files[start : start + self.FILES_PER_PARTITION]), False) for start in starts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, FilePartition):  # Spark reads a source without partitions once, without one
            yield from read_partition(partition, self._schema)
