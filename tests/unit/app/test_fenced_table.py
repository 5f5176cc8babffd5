"""A fenced table on SQLite: the rows of an epoch are those of its newest token."""

import pyarrow as pa
import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import OperationalError

from holdfast import FencedTable, WriteToken


@pytest.fixture
def database(tmp_path):
    engine = create_engine(f"sqlite:///{tmp_path / 'results.db'}")
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE results (epoch BIGINT, seq BIGINT NOT NULL, name TEXT)"))
    yield engine
    engine.dispose()


def rows(*seqs, **columns):
    return pa.table({"seq": pa.array(seqs, pa.int64()), "name": [f"row {seq}" for seq in seqs], **columns})


def first(epoch, claim, run="run"):
    return WriteToken(run, epoch, "first", claim)


def stored(engine):
    with engine.connect() as connection:
        return connection.execute(text("SELECT epoch, seq, name FROM results ORDER BY epoch, seq")).all()


def test_newer_token_replaces_an_epoch_and_an_older_one_is_refused(database):
    table = FencedTable(database, "results")
    assert table.write(rows(1, 2), 7, "tentative", token=first(7, 1))
    assert table.write(rows(5), 7, "exact", token=WriteToken("run", 7, "final", 3))
    assert not table.write(rows(1, 2), 7, "tentative", token=first(7, 2))
    assert table.write(rows(9), 8, "exact", token=first(8, 1))
    assert stored(database) == [(7, 5, "row 5"), (8, 9, "row 9")]


def test_same_token_writes_the_same_rows_again(database):
    for table in (FencedTable(database, "results"), FencedTable(database, "results")):
        assert table.write(rows(1, 2), 7, "exact", token=first(7, 1))
    assert stored(database) == [(7, 1, "row 1"), (7, 2, "row 2")]


def test_empty_epoch_removes_the_rows_of_its_predecessor(database):
    table = FencedTable(database, "results")
    table.write(rows(1), 7, "predicted", token=first(7, 1))
    assert table.write(rows(), 7, "exact", token=first(7, 2))
    assert stored(database) == []


def test_tokens_of_another_log_are_not_compared(database):
    table = FencedTable(database, "results")
    table.write(rows(1), 7, "exact", token=first(7, 5, run="old"))
    assert table.write(rows(2), 7, "exact", token=first(7, 1, run="new"))
    assert stored(database) == [(7, 2, "row 2")]


def test_failed_write_leaves_the_old_rows_and_the_old_token(database):
    table = FencedTable(database, "results")
    table.write(rows(1), 7, "tentative", token=first(7, 1))
    with pytest.raises(OperationalError, match="no column named odd"):
        table.write(rows(2, odd=[1]), 7, "exact", token=first(7, 3))
    assert stored(database) == [(7, 1, "row 1")]
    assert table.write(rows(3), 7, "tentative", token=first(7, 2))


def test_epoch_column_of_the_rows_is_replaced(database):
    FencedTable(database, "results").write(rows(1, epoch=[99]), 7, "exact", token=first(7, 1))
    assert stored(database) == [(7, 1, "row 1")]


def test_many_rows_are_inserted_in_batches(database, monkeypatch):
    monkeypatch.setattr("holdfast.app.fenced_table.INSERT_ROWS", 10)
    FencedTable(database, "results").write(rows(*range(25)), 7, "exact", token=first(7, 1))
    assert [seq for _, seq, _ in stored(database)] == list(range(25))
