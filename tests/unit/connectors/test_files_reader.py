import json
import shutil

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdfast.connectors.delta_history import DeltaHistory
from holdfast.connectors.files_reader import FilesReader
from holdfast.connectors.table_reader import TableReader
from holdfast.documents.source_inputs import DeltaInput, FilesInput
from holdfast.errors import HoldfastError
from holdfast.log.range_claims import Range

SCHEMA = pa.schema([("seq", pa.int64()), ("user", pa.string()), ("amount", pa.float64())])


@pytest.fixture
def folder(tmp_path):
    pq.write_table(pa.table({"user": ["ann"], "amount": [1.0]}), tmp_path / "1.parquet")
    (tmp_path / "2.jsonl").write_text(json.dumps({"user": "bob", "amount": 2, "extra": 1}) + "\n")
    (tmp_path / "3.csv").write_text("user,amount\neve,3.5\n")
    (tmp_path / "_hidden.csv").write_text("user,amount\nmallory,0\n")
    return tmp_path


def reader(folder, *, task=0, tasks=1, **options):
    return FilesReader(FilesInput(path=str(folder), **options), SCHEMA, source="s", task=task, tasks=tasks)


def test_every_format_is_read_once_in_the_order_of_names(folder):
    files = reader(folder, files_per_epoch=2)
    first = files.first()
    middle = files.newest(first, before_s=None)
    end = files.newest(middle, before_s=None)
    assert files.read(Range(first, middle))["user"].to_pylist() == ["ann", "bob"]
    assert files.read(Range(middle, end))["user"].to_pylist() == ["eve"]
    assert files.newest(end, before_s=None) == end
    assert files.read(Range(end, end)).num_rows == 0


def test_tasks_divide_the_files_without_overlap(folder):
    users = []
    for task in range(2):
        files = reader(folder, task=task, tasks=2)
        users += files.read(Range(files.first(), files.newest(files.first(), before_s=None)))["user"].to_pylist()
    assert sorted(users) == ["ann", "bob", "eve"]


def test_latest_skips_the_files_that_are_there(folder):
    files = reader(folder, starting="latest")
    assert files.newest(files.first(), before_s=None) == {"after": "3.csv"}


def test_files_and_tables_may_lack_the_time(folder):
    schema = SCHEMA.append(pa.field("time", pa.timestamp("us", "UTC")))
    deltalake.write_deltalake(str(folder / "table"), pq.read_table(folder / "1.parquet"))
    shutil.move(folder / "table", folder / "_table")
    table = DeltaInput(path=str(folder / "_table"))
    readers = (
        FilesReader(FilesInput(path=str(folder)), schema, source="s", task=0, tasks=1),
        TableReader(table, DeltaHistory(table, source="s"), schema, source="s", task=0, tasks=1),
    )
    for reader in readers:
        rows = reader.read(Range(reader.first(), reader.newest(reader.first(), before_s=None)))
        assert "ann" in rows["user"].to_pylist()
        assert rows["time"].null_count == rows.num_rows


def test_unreadable_file_is_named(folder):
    (folder / "4.csv").write_text("user,amount\nann,many\n")
    files = reader(folder)
    with pytest.raises(HoldfastError, match=r"source 's' cannot read file '4.csv'"):
        files.read(Range(files.first(), files.newest(files.first(), before_s=None)))


def test_file_that_was_removed_is_named(folder):
    files = reader(folder)
    claimed = Range(files.first(), files.newest(files.first(), before_s=None))
    (folder / "3.csv").unlink()
    with pytest.raises(HoldfastError, match=r"needs the file '3.csv'.*removed; restore it"):
        files.read(claimed)
