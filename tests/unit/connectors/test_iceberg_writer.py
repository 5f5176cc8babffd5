import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog

from holdfast.app.writers import WriteToken
from holdfast.connectors.iceberg_writer import IcebergWriter
from holdfast.errors import HoldfastError


def token(epoch, kind="first", claim=1, run="run"):
    return WriteToken(run, epoch, kind, claim)


def rows(*values):
    return pa.table({"value": pa.array(values, pa.int64())})


@pytest.fixture
def properties(tmp_path):
    options = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/warehouse"}
    load_catalog("holdfast", **options).create_namespace("shop")
    return options


def open_table(properties):
    return load_catalog("holdfast", **properties).load_table("shop.results")


def content(properties):
    table = open_table(properties).scan().to_arrow()
    return sorted(zip(table["epoch"].to_pylist(), table["value"].to_pylist(), strict=True))


def test_correction_replaces_exactly_its_epoch_in_one_commit(properties):
    write = IcebergWriter(properties, "shop.results")
    write(rows(1, 2), 5, "tentative", token=token(5))
    write(rows(3), 6, "exact", token=token(6))
    before = open_table(properties).metadata_location
    write(rows(7), 5, "exact", token=token(5, "final", 2))
    table = open_table(properties)
    assert content(properties) == [(5, 7), (6, 3)]
    assert table.metadata.metadata_log[-1].metadata_file == before
    about = table.current_snapshot().summary.additional_properties
    assert {name: about[f"holdfast.{name}"] for name in ("epoch", "kind", "quality")} == {
        "epoch": "5",
        "kind": "final",
        "quality": "exact",
    }


def test_epoch_is_written_once_by_several_replicas(properties):
    for _ in range(2):
        IcebergWriter(properties, "shop.results")(rows(1), 5, "exact", token=token(5))
    assert content(properties) == [(5, 1)]


def test_empty_epochs_and_corrections_are_remembered(properties):
    write = IcebergWriter(properties, "shop.results")
    write(rows(), 4, "exact", token=token(4))
    write(rows(1), 5, "tentative", token=token(5))
    write(rows(), 5, "exact", token=token(5, "final", 2))
    write(rows(), 6, "exact", token=token(6, "final", 2))
    write(rows(9), 6, "tentative", token=token(4))
    assert content(properties) == []


def test_removed_snapshots_do_not_let_an_old_writer_in(properties):
    write = IcebergWriter(properties, "shop.results")
    write(rows(1), 5, "exact", token=token(5))
    table = open_table(properties)
    table.append(pa.table({"value": pa.array([8]), "epoch": pa.array([0])}))  # by somebody else, such as a compaction
    table = open_table(properties)
    table.maintenance.expire_snapshots().by_ids([table.snapshots()[0].snapshot_id]).commit()
    IcebergWriter(properties, "shop.results")(rows(2), 5, "exact", token=token(5, claim=2))
    assert content(properties) == [(0, 8), (5, 1)]


def test_commits_of_others_do_not_stop_the_writer(properties, monkeypatch):
    IcebergWriter(properties, "shop.results")(rows(1), 5, "exact", token=token(5))
    write = IcebergWriter(properties, "shop.results")
    write(rows(2), 6, "exact", token=token(6))
    commit = write._catalog.commit_table
    others = [1, 2]

    def commit_after_another(*arguments):
        if others:
            open_table(properties).append(pa.table({"value": pa.array([others.pop()]), "epoch": pa.array([0])}))
        return commit(*arguments)

    monkeypatch.setattr(write._catalog, "commit_table", commit_after_another)
    write(rows(3), 7, "exact", token=token(7))
    assert content(properties) == [(0, 1), (0, 2), (5, 1), (6, 2), (7, 3)]
    others.extend(range(30))
    with pytest.raises(HoldfastError, match=r"'shop.results' was changed by others during all 20 attempts to write epoch 8"):
        write(rows(4), 8, "exact", token=token(8))


def test_stalled_writer_cannot_add_its_rows_after_its_successor(properties, monkeypatch):
    write = IcebergWriter(properties, "shop.results")
    write(rows(0), 4, "exact", token=token(4))
    commit, stalls = write._catalog.commit_table, [True]

    def stall_and_commit(*arguments):
        if stalls.pop() if stalls else False:  # the successor writes the epoch and its correction while this one is stopped
            successor = IcebergWriter(properties, "shop.results")
            successor(rows(2), 5, "tentative", token=token(5, claim=2))
            successor(rows(3), 5, "exact", token=token(5, "final", 3))
        return commit(*arguments)

    monkeypatch.setattr(write._catalog, "commit_table", stall_and_commit)
    write(rows(1), 5, "tentative", token=token(5))
    assert content(properties) == [(4, 0), (5, 3)]


def test_columns_of_the_table_may_have_another_order_and_type(properties):
    schema = pa.schema([("epoch", pa.int64()), ("note", pa.string()), ("value", pa.int32())])
    load_catalog("holdfast", **properties).create_table("shop.results", schema=schema)
    IcebergWriter(properties, "shop.results")(rows(1), 5, "exact", token=token(5))
    assert content(properties) == [(5, 1)]


def test_other_columns_are_an_error_that_names_the_table(properties):
    write = IcebergWriter(properties, "shop.results")
    write(rows(1), 5, "exact", token=token(5))
    with pytest.raises(
        HoldfastError, match=r"the Iceberg table 'shop.results' has other columns than the sink: value, epoch instead"
    ):
        write(pa.table({"other": ["x"]}), 6, "exact", token=token(6))
    with pytest.raises(HoldfastError, match=r"other columns than the sink: .* \(Failed to parse string: 'x'"):
        write(pa.table({"value": ["x"]}), 6, "exact", token=token(6))


def test_missing_namespace_is_named(properties):
    with pytest.raises(HoldfastError, match=r"the writer to 'sales.results': the Iceberg table 'sales.results' does not exist"):
        IcebergWriter(properties, "sales.results")(rows(1), 5, "exact", token=token(5))


def test_writer_whose_table_was_taken_over_fails(properties):
    write = IcebergWriter(properties, "shop.results")
    write(rows(1), 5, "exact", token=token(5))
    IcebergWriter(properties, "shop.results")(rows(2), 6, "exact", token=token(6, run="other"))
    with pytest.raises(HoldfastError, match=r"is also written by another sink or job, which has taken it over; give each its own"):
        write(rows(3), 7, "exact", token=token(7))
    assert content(properties) == [(5, 1), (6, 2)]
