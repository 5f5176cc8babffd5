"""The SQL writer on SQLite: the rows of an epoch are those of its newest token."""

import pyarrow as pa
import pytest
from sqlalchemy import create_engine, text

from holdfast import SqlWriter, WriteToken
from holdfast.errors import ExternalError, HoldfastError


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
    table = SqlWriter(database, "results")
    assert table(rows(1, 2), 7, "tentative", token=first(7, 1))
    assert table(rows(5), 7, "exact", token=WriteToken("run", 7, "final", 3))
    assert not table(rows(1, 2), 7, "tentative", token=first(7, 2))
    assert table(rows(9), 8, "exact", token=first(8, 1))
    assert stored(database) == [(7, 5, "row 5"), (8, 9, "row 9")]


def test_same_token_writes_the_same_rows_again(database):
    for table in (SqlWriter(database, "results"), SqlWriter(database, "results")):
        assert table(rows(1, 2), 7, "exact", token=first(7, 1))
    assert stored(database) == [(7, 1, "row 1"), (7, 2, "row 2")]


def test_empty_epoch_removes_the_rows_of_its_predecessor(database):
    table = SqlWriter(database, "results")
    table(rows(1), 7, "predicted", token=first(7, 1))
    assert table(rows(), 7, "exact", token=first(7, 2))
    assert stored(database) == []


def test_tokens_of_another_log_are_not_compared(database):
    table = SqlWriter(database, "results")
    table(rows(1), 7, "exact", token=first(7, 5, run="old"))
    assert table(rows(2), 7, "exact", token=first(7, 1, run="new"))
    assert stored(database) == [(7, 2, "row 2")]
    with pytest.raises(HoldfastError, match=r"table 'results' is also written by another sink or job, which has taken it over"):
        table(rows(3), 8, "exact", token=first(8, 1, run="old"))
    assert table(rows(4), 8, "exact", token=first(8, 1, run="new"))


def test_failed_write_leaves_the_old_rows_and_the_old_token(database):
    table = SqlWriter(database, "results")
    table(rows(1), 7, "tentative", token=first(7, 1))
    with pytest.raises(HoldfastError, match=r"table 'results' cannot be written in epoch 7: .*no column named odd"):
        table(rows(2, odd=[1]), 7, "exact", token=first(7, 3))
    assert stored(database) == [(7, 1, "row 1")]
    assert table(rows(3), 7, "tentative", token=first(7, 2))


def test_epoch_column_of_the_rows_is_replaced(database):
    SqlWriter(database, "results")(rows(1, epoch=[99]), 7, "exact", token=first(7, 1))
    assert stored(database) == [(7, 1, "row 1")]


def test_many_rows_are_inserted_in_batches(database, monkeypatch):
    monkeypatch.setattr("holdfast.connectors.sql_writer.INSERT_ROWS", 10)
    SqlWriter(database, "results")(rows(*range(25)), 7, "exact", token=first(7, 1))
    assert [seq for _, seq, _ in stored(database)] == list(range(25))


def test_key_keeps_the_row_of_the_newest_epoch(database):
    table = SqlWriter(database, "results", key="name")

    def write(epoch, kind, claim, **seqs):
        values = pa.table({"seq": pa.array(seqs.values(), pa.int64()), "name": list(seqs)})
        table(values, epoch, "exact", token=WriteToken("run", epoch, kind, claim))

    write(7, "first", 1, ann=1, bob=2)
    write(8, "first", 1, ann=3)
    write(7, "final", 2, ann=10, bob=20, eve=30)
    assert sorted(stored(database)) == [(7, 20, "bob"), (7, 30, "eve"), (8, 3, "ann")]


def test_last_row_of_a_key_within_an_epoch_counts(database):
    values = pa.table({"seq": [1, 2], "name": ["ann", "ann"]})
    SqlWriter(database, "results", key="name")(values, 7, "exact", token=first(7, 1))
    assert stored(database) == [(7, 2, "ann")]


def test_missing_table_and_unreachable_database_are_named(database, tmp_path):
    with pytest.raises(
        HoldfastError, match=r"table 'nowhere' cannot be written in epoch 7: .*the table must exist, with the columns: epoch"
    ):
        SqlWriter(database, "nowhere")(rows(1), 7, "exact", token=first(7, 1))
    with pytest.raises(ExternalError, match=r"table 'results' cannot be written in epoch 7: .*is the database running"):
        SqlWriter(f"sqlite:///{tmp_path}/missing/results.db", "results")(rows(1), 7, "exact", token=first(7, 1))
