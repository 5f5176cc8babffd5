"""Sources that read Delta and Iceberg tables: the same tests for both."""

import shutil
from pathlib import Path
from types import SimpleNamespace

import deltalake
import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.expressions import EqualTo
from pyiceberg.io.pyarrow import _dataframe_to_data_files
from pyiceberg.table.snapshots import Operation

from holdfast.app.definition import Origin, Source
from holdfast.connectors import open_reader
from holdfast.documents.source_inputs import DeltaInput, IcebergInput
from holdfast.errors import ExternalError, HoldfastError
from holdfast.log.range_claims import Range

SCHEMA = pa.schema([("seq", pa.int64()), ("user", pa.string()), ("n", pa.int64())])


def rows(*numbers, **columns):
    return pa.table(
        {"user": pa.array([f"u {number % 2}" for number in numbers], pa.string()), "n": pa.array(numbers, pa.int64()), **columns}
    )


class DeltaTable:
    """A Delta table, partitioned by user."""

    kind, name, lost = "delta", "the Delta table '.*'", "the versions after 0"

    def __init__(self, folder):
        self.path = str(folder / "table")
        self.options = {"path": self.path}
        deltalake.write_deltalake(self.path, rows(), partition_by=["user"])

    def input(self, **options):
        return DeltaInput(**{**self.options, **options})

    def append(self, *numbers, **columns):
        options = {"schema_mode": "merge"} if columns else {}
        deltalake.write_deltalake(self.path, rows(*numbers, **columns), mode="append", **options)

    def compact(self):
        deltalake.DeltaTable(self.path).optimize.compact()

    def delete(self, number):
        deltalake.DeltaTable(self.path).delete(f"n = {number}")

    def drop_history(self):
        """Remove the commits before the newest one from the log."""
        table = deltalake.DeltaTable(self.path)
        table.create_checkpoint()
        for version in range(table.version()):
            (Path(self.path) / f"_delta_log/{version:020d}.json").unlink()

    def data_files(self):
        return sorted(Path(self.path).rglob("*.parquet"), key=lambda file: file.stat().st_mtime_ns)

    def create_again(self):
        shutil.rmtree(self.path)
        deltalake.write_deltalake(self.path, rows())


class IcebergTable:
    """An Iceberg table in a catalog on SQLite."""

    kind, name, lost = "iceberg", r"the Iceberg table 'shop\.events'", r"the versions after 1"

    def __init__(self, folder):
        properties = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/warehouse"}
        self.folder = folder / "warehouse"
        self.catalog = load_catalog("holdfast", **properties)
        self.catalog.create_namespace("shop")
        self.options = {"catalog": properties, "table": "shop.events"}
        self._create()

    def _create(self):
        self.catalog.create_table("shop.events", schema=rows().schema)
        self.table.append(rows())

    @property
    def table(self):
        return self.catalog.load_table("shop.events")

    def input(self, **options):
        return IcebergInput(**{**self.options, **options})

    def append(self, *numbers, **columns):
        values = rows(*numbers, **columns)
        with self.table.update_schema() as update:
            update.union_by_name(values.schema)
        self.table.append(values)

    def compact(self):
        """Rewrite all data files into one, as the maintenance of a table does. pyiceberg has no operation for that."""
        table = self.table
        files = [task.file for task in table.scan().plan_files()]
        everything = table.scan().to_arrow()
        with table.transaction() as transaction, transaction.update_snapshot().overwrite() as update:
            summary = update._summary
            update._summary = lambda properties={}: summary(properties).model_copy(update={"operation": Operation.REPLACE})
            for file in files:
                update.delete_data_file(file)
            for file in _dataframe_to_data_files(table.metadata, everything, table.io):
                update.append_data_file(file)

    def delete(self, number):
        self.table.delete(EqualTo("n", number))

    def drop_history(self):
        table = self.table
        older = [each.snapshot_id for each in table.snapshots() if each.snapshot_id != table.current_snapshot().snapshot_id]
        table.maintenance.expire_snapshots().by_ids(older).commit()

    def data_files(self):
        return sorted(self.folder.rglob("*.parquet"), key=lambda file: file.stat().st_mtime_ns)

    def create_again(self):
        self.catalog.drop_table("shop.events")
        self._create()


@pytest.fixture(params=[DeltaTable, IcebergTable], ids=lambda kind: kind.kind)
def table(request, tmp_path):
    return request.param(tmp_path)


def reader(table, *, task=0, tasks=1, schema=SCHEMA, **options):
    source = Source("s", "", parallelism=tasks, input=table.input(**options), origin=Origin("app.py", 1))
    return open_reader(source, schema, task=task)


def flat(lists):
    return [number for numbers in lists for number in numbers]


def epochs(readers, start, limit=20):
    """Read up to the table's end, in epochs. Return the numbers in each, and the last position."""
    found = []
    for _ in range(limit):
        end = readers.newest(start, before_s=None)
        if end == start:
            return found, end
        found.append(sorted(readers.read(Range(start, end))["n"].to_pylist()))
        start = end
    raise AssertionError("the table has no end")


def test_rows_of_the_table_and_of_later_commits_are_read_once(table):
    table.append(1)
    table.append(2, 3)
    events = reader(table, files_per_epoch=1)
    start = events.first()
    table.append(4)
    numbers, end = epochs(events, start)
    assert sorted(flat(numbers)) == [1, 2, 3, 4]
    assert max(map(len, numbers)) <= 2
    table.append(5)
    assert epochs(reader(table), end)[0] == [[5]]
    assert events.newest(end, before_s=0.0) == end


def test_any_replica_reads_the_same_rows_in_a_claimed_range(table):
    table.append(1, 2)
    events = reader(table)
    start = events.first()
    table.append(3, 4, 5)
    claimed = Range(start, events.newest(start, before_s=None))
    first = events.read(claimed)
    table.append(6)
    table.compact()
    assert reader(table).read(claimed).equals(first)
    assert first["n"].to_pylist() != [] and first.schema.names == ["user", "n"]


def test_tasks_divide_the_files_without_overlap(table):
    for number in range(8):
        table.append(number)
    start = reader(table).first()
    shares = [flat(epochs(reader(table, task=task, tasks=2), start)[0]) for task in range(2)]
    assert sorted(shares[0] + shares[1]) == list(range(8))
    assert all(shares)


def test_latest_begins_with_the_next_commit(table):
    table.append(1)
    events = reader(table, starting="latest")
    start = events.first()
    table.append(2)
    assert epochs(events, start)[0] == [[2]]


def test_compaction_delivers_nothing_again(table):
    table.append(1, 3)
    events = reader(table, starting="latest")
    start = events.first()
    table.append(5)
    table.compact()
    table.append(7)
    assert flat(epochs(events, start)[0]) == [5, 7]


def test_deleted_rows_stop_the_source_or_are_counted(table):
    start = reader(table).first()
    table.append(1, 3)
    table.append(5)
    table.delete(3)
    table.append(7)
    events = reader(table)
    before = events.newest(start, before_s=None)
    assert sorted(events.read(Range(start, before))["n"].to_pylist()) == [1, 3, 5]
    with pytest.raises(HoldfastError, match=rf"source 's' cannot read version \d+ of {table.name}, which deletes .*'skip'"):
        events.newest(before, before_s=None)
    skipping = reader(table, on_changed_rows="skip")
    assert flat(epochs(skipping, start)[0]) == [1, 3, 5, 7]
    assert skipping.bad_messages == 1


def test_removed_versions_stop_the_source_or_are_reported(table):
    start = reader(table, starting="latest").first()
    for number in (1, 2, 3):
        table.append(number)
    table.drop_history()
    with pytest.raises(HoldfastError, match=rf"source 's' cannot read {table.lost} of {table.name}, which .*'report'"):
        reader(table).newest(start, before_s=None)
    lossy = reader(table, on_lost_rows="report")
    assert epochs(lossy, start)[0] == [[3]]
    assert lossy.lost_rows == 2


def test_history_that_was_read_completely_may_be_removed(table):
    table.append(1)
    events = reader(table)
    end = epochs(events, events.first())[1]
    table.drop_history()
    assert events.newest(end, before_s=None) == end
    table.append(2)
    assert epochs(events, end)[0] == [[2]]


def test_removed_file_stops_the_source_or_is_reported(table):
    start = reader(table, starting="latest").first()
    table.append(1)
    table.append(2)
    table.data_files()[-1].unlink()
    events, lossy = reader(table), reader(table, on_lost_rows="report")
    claimed = Range(start, events.newest(start, before_s=None))
    with pytest.raises(HoldfastError, match=rf"source 's' cannot read the file '.*' of {table.name}, which .* any more"):
        events.read(claimed)
    assert lossy.read(claimed)["n"].to_pylist() == [1]
    assert lossy.lost_rows == 1


def test_table_that_was_created_again_is_an_error(table):
    events = reader(table, on_lost_rows="report")
    table.append(1)
    end = epochs(events, events.first())[1]
    table.create_again()
    with pytest.raises(HoldfastError, match=rf"source 's' has read {table.name} up to .* created again; start the job with a new"):
        reader(table, on_lost_rows="report").newest(end, before_s=None)


def test_column_that_is_younger_than_a_file_is_null_in_it(table):
    table.append(1)
    table.append(2, more=["x"])
    events = reader(table, schema=SCHEMA.append(pa.field("more", pa.string())))
    start = events.first()
    table_rows = events.read(Range(start, events.newest(start, before_s=None)))
    assert dict(zip(table_rows["n"].to_pylist(), table_rows["more"].to_pylist(), strict=True)) == {1: None, 2: "x"}


def test_schema_that_differs_names_the_column(table):
    table.append(1)
    for schema, text in (
        (pa.schema([("missing", pa.int64())]), r"'missing', but the table's columns are: user, n"),
        (pa.schema([("user", pa.int64())]), r"'user' as int64, but its values differ"),
    ):
        events = reader(table, schema=schema)
        start = events.first()
        with pytest.raises(HoldfastError, match=rf"source 's' reads {table.name} with the column {text}.*change the schema of"):
            events.read(Range(start, events.newest(start, before_s=None)))


def test_missing_table_is_named(table):
    table.options |= {"path": f"{table.options['path']}-x"} if table.kind == "delta" else {"table": "shop.nothing"}
    with pytest.raises(HoldfastError, match=r"source 's'.*the (Delta|Iceberg) table '.*(-x|nothing)'.* does not exist; create it"):
        reader(table)


def test_catalog_that_does_not_answer_is_waited_for(tmp_path):
    catalog = {"type": "rest", "uri": "http://127.0.0.1:1"}
    table = SimpleNamespace(input=lambda: IcebergInput(catalog=catalog, table="shop.events"))
    with pytest.raises(ExternalError, match=r"source 's': the Iceberg catalog 'http://127.0.0.1:1' cannot be used now"):
        reader(table)
