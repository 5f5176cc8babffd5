"""Reads ranges of a table that is a history of commits: the data files that were added between two positions in the history."""

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from holdfast.connectors.replayable import RangeReader
from holdfast.documents.source_inputs import TableInput
from holdfast.errors import HoldfastError
from holdfast.log.range_claims import Positions, Range


@dataclass(frozen=True)
class TableFile:
    """A data file of a table. `read` returns its rows, and raises FileNotFoundError if the file was removed."""

    path: str
    rows: int
    read: Callable[[], pa.Table]


@dataclass(frozen=True)
class TableCommit:
    """A commit: its version, the version before it, its time, and the files of the rows that it appends.

    `changes_rows` is whether it deletes or updates rows. Such a commit has no files, because they also contain rows of older
    commits.
    """

    version: int
    previous: int
    time_s: float
    files: Sequence[TableFile] = ()
    changes_rows: bool = False


class TableHistory(Protocol):
    """The commits of a table. Its methods raise HoldfastError for a table that does not exist or cannot be reached."""

    name: str
    """How errors name the table."""

    def newest(self) -> int:
        """Return the newest version."""
        ...

    def columns(self) -> list[str]:
        """Return the names of the table's columns in the newest version."""
        ...

    def files_at(self, version: int) -> Sequence[TableFile]:
        """Return the files of all rows in a version. Raises FileNotFoundError if the version was removed."""
        ...

    def commits(self, after: int) -> Iterator[TableCommit]:
        """Yield the commits after a version, oldest first.

        The first one has another `previous` if the version after the given one was removed. Raises HoldfastError if the table
        no longer continues that version, because it was rolled back or created again.
        """
        ...


@dataclass(frozen=True)
class _Step:
    """A step through the history: the position after it, and what it passes: a file, changed rows, or versions that are lost."""

    end: Positions
    time_s: float = 0.0
    file: TableFile | None = None
    skips: bool = False
    loses: int = 0


class TableReader(RangeReader):
    """Implements RangeReader for tables. A checksum of a file's path selects which of the `tasks` tasks reads it.

    A position {"version": v, "files": n} follows version v and the first n files of the next commit. While a source reads the
    rows that the table had at its start, the position is {"snapshot": v, "files": n}: it follows the first n files of version v.
    """

    has_own_positions = False

    def __init__(
        self, options: TableInput, history: TableHistory, schema: pa.Schema, *, source: str, task: int, tasks: int
    ) -> None:
        self._options, self._history, self._task, self._tasks = options, history, task, tasks
        self._what = f"source '{source}'"
        self._schema = pa.schema([field for field in schema if field.name not in ("seq", "epoch")])
        self._whole: tuple[int, Sequence[TableFile]] = (-1, ())
        self.bad_messages = self.lost_rows = 0

    def first(self) -> Positions:
        return {"snapshot" if self._options.starting == "earliest" else "version": self._history.newest(), "files": 0}

    def newest(self, start: Positions, *, before_s: float | None) -> Positions:
        end, files = start, 0
        for step in self._steps(start):
            if files == self._options.files_per_epoch or (before_s is not None and step.time_s >= before_s):
                break
            if step.skips and self._options.on_changed_rows == "fail":
                if end != start:
                    break
                raise HoldfastError(
                    f"{self._what} cannot read version {step.end['version']} of {self._history.name}, which deletes or updates "
                    "rows; append only, or give the source 'on_changed_rows': 'skip'"
                )
            end, files = step.end, files + (step.file is not None)
        return end

    def read(self, rows: Range) -> pa.Table:
        tables = [self._schema.empty_table()]
        if rows.start != rows.end:
            for step in self._steps(rows.start):
                self.bad_messages += step.skips
                self.lost_rows += step.loses
                if step.file is not None and zlib.crc32(step.file.path.encode()) % self._tasks == self._task:
                    tables.append(self._read_file(step.file))
                if step.end == rows.end:
                    break
        return pa.concat_tables(tables)

    def _steps(self, start: Positions) -> Iterator[_Step]:
        """Yield the steps that follow a position, in order."""
        version, count = int(start.get("snapshot", start.get("version", 0))), int(start["files"])
        if "snapshot" in start:
            try:
                if self._whole[0] != version:
                    self._whole = version, self._history.files_at(version)
            except FileNotFoundError:
                self._check_loss(f"version {version}")
                yield _Step({"version": version, "files": 0}, loses=1)
            else:
                for number, file in enumerate(self._whole[1][count:], count + 1):
                    yield _Step({"snapshot": version, "files": number}, file=file)
                yield _Step({"version": version, "files": 0})
            count = 0
        for commit in self._history.commits(version):
            if commit.previous != version:
                self._check_loss(f"the versions after {version}")
                yield _Step({"version": commit.previous, "files": 0}, loses=commit.previous - version)
                count = 0
            for number, file in enumerate(commit.files[count:], count + 1):
                yield _Step({"version": commit.previous, "files": number}, commit.time_s, file)
            yield _Step({"version": commit.version, "files": 0}, commit.time_s, skips=commit.changes_rows)
            version, count = commit.version, 0

    def _check_loss(self, what: str) -> None:
        """Raise HoldfastError unless the source's options allow the loss of data that was removed before it was read."""
        if self._options.on_lost_rows == "fail":
            raise HoldfastError(
                f"{self._what} cannot read {what} of {self._history.name}, which the table does not have any more; start the "
                "job with a new log, or give the source 'on_lost_rows': 'report'"
            )

    def _read_file(self, file: TableFile) -> pa.Table:
        """Return a file's rows with the source's columns. A column that was added after the file is null in its rows."""
        try:
            table = file.read()
        except FileNotFoundError:
            self._check_loss(f"the file '{file.path}'")
            self.lost_rows += file.rows
            return self._schema.empty_table()
        columns = {}
        known = self._history.columns()
        for field in self._schema:
            if field.name in known or field.name == "time":
                column = table[field.name] if field.name in table.column_names else pa.nulls(table.num_rows)
                try:
                    columns[field.name] = column.cast(field.type)
                except pa.ArrowException as error:
                    reason = str(error).strip().splitlines()[0]
                    raise self._schema_error(f"'{field.name}' as {field.type}, but its values differ: {reason}") from error
            else:
                raise self._schema_error(f"'{field.name}', but the table's columns are: {', '.join(known)}")
        return pa.table(columns)

    def _schema_error(self, reason: str) -> HoldfastError:
        return HoldfastError(
            f"{self._what} reads {self._history.name} with the column {reason}; if the table was altered, change the schema of "
            "the source"
        )
