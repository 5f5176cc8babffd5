"""The micro-batches of a reader source, kept on the log's storage from their arrival until a record names them."""

import pyarrow as pa

from holdfast.documents.job import Task
from holdfast.errors import LogError
from holdfast.log import Store
from holdfast.log.object_names import quoted
from holdfast.log.row_files import decode_parquet, encode_parquet

ROOM_BYTES = 2**16


class StagedBatches:
    """The staged batches of one task of a source. All its incarnations share them. A batch that arrives again replaces itself."""

    def __init__(self, store: Store, task: Task) -> None:
        self._store, self._folder = store, f"staged/{quoted(task.pe)}/{task.task}"
        self.log_has_failed = False
        """Whether the log could not be used since this was last reset. The failure ends Spark's query."""

    def put(self, number: int, rows: pa.Table) -> None:
        """Store a batch, unless it is empty. Spark calls this in a thread of the query."""
        if rows.num_rows:
            try:
                self._store.replace(self._name(number), encode_parquet(rows))
            except LogError:
                self.log_has_failed = True
                raise

    def require_room(self) -> None:
        """Raise LogError if nothing can be stored now."""
        name = f"{self._folder}/room"
        try:
            self._store.replace(name, bytes(ROOM_BYTES))
            self._store.remove([name])
        except LogError:
            self.log_has_failed = True
            raise

    def list_after(self, number: int) -> list[int]:
        """Return the numbers of the batches after `number`, in order. Remove the others, because a record contains their rows."""
        names = [name for name in self._store.names(f"{self._folder}/") if name.endswith(".parquet")]
        numbers = sorted(int(name.rsplit("/", 1)[1].split(".")[0]) for name in names)
        self._store.remove([self._name(each) for each in numbers if each <= number])
        return [each for each in numbers if each > number]

    def read(self, numbers: list[int]) -> list[pa.Table] | None:
        """Return the rows of batches; None if one is missing because another incarnation has committed it."""
        contents = [self._store.read(self._name(number)) for number in numbers]
        tables = [decode_parquet(content) for content in contents if content is not None]
        return tables if len(tables) == len(numbers) else None

    def _name(self, number: int) -> str:
        return f"{self._folder}/{number:020d}.parquet"
