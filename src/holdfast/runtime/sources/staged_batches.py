"""The micro-batches of a source with a reader, on the log's storage from the moment they come until a record names them."""

from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.documents.job import Task
from holdfast.log import Store
from holdfast.log.row_files import encode_parquet

ROOM_BYTES = 2**16


class StagedBatches:
    """The staged batches of one task of a source. Its incarnations share them; a batch that comes once more replaces itself."""

    def __init__(self, store: Store, task: Task) -> None:
        self._store, self._folder = store, f"staged/{quote(task.pe, safe='')}/{task.task}"

    def put(self, number: int, rows: pa.Table) -> None:
        """Keep a batch, unless it is empty."""
        if rows.num_rows:
            self._store.replace(self._name(number), encode_parquet(rows))

    def require_room(self) -> None:
        """Raise LogError where nothing can be kept now."""
        name = f"{self._folder}/room"
        self._store.replace(name, bytes(ROOM_BYTES))
        self._store.remove([name])

    def waiting(self, *, after: int) -> list[int]:
        """The batches past `after`, in order. It and those before it are in a record: what is left of them is removed."""
        names = [name for name in self._store.names(f"{self._folder}/") if name.endswith(".parquet")]
        numbers = sorted(int(name.rsplit("/", 1)[1].split(".")[0]) for name in names)
        self._store.remove([self._name(number) for number in numbers if number <= after])
        return [number for number in numbers if number > after]

    def read(self, numbers: list[int]) -> list[pa.Table] | None:
        """The rows of batches; None where one is gone: another incarnation has taken it."""
        contents = [self._store.read(self._name(number)) for number in numbers]
        there = [content for content in contents if content is not None]
        return [pq.read_table(pa.BufferReader(content)) for content in there] if len(there) == len(numbers) else None

    def _name(self, number: int) -> str:
        return f"{self._folder}/{number:020d}.parquet"
