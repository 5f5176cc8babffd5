"""The SQL writer on a real PostgreSQL server, where transactions of several connections overlap."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pyarrow as pa
import pytest
from sqlalchemy import create_engine, event, text

from holdfast import SqlWriter, WriteToken
from holdfast.errors import HoldfastError

LIMIT_S = 30


@pytest.fixture
def url(server, tmp_path):
    database = server.database(tmp_path.name)
    url = database.replace("postgresql://", "postgresql+psycopg://")
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE results (epoch BIGINT, seq BIGINT)"))
    yield url
    engine.dispose()


def table_on(engines, url):
    engines.append(create_engine(url, connect_args={"options": f"-c statement_timeout={LIMIT_S}s"}))
    return SqlWriter(engines[-1], "results")


@pytest.fixture
def engines():
    opened = []
    yield opened
    for engine in opened:
        engine.dispose()


def seqs(url):
    engine = create_engine(url)
    with engine.connect() as connection:
        result = connection.execute(text("SELECT seq FROM results ORDER BY seq")).scalars().all()
    engine.dispose()
    return result


def test_missing_permission_and_changed_schema_are_named(url, engines):
    administrator = create_engine(url)
    with administrator.begin() as connection:
        connection.execute(text("CREATE ROLE reader LOGIN"))
        connection.execute(text("GRANT SELECT ON results TO reader"))
    administrator.dispose()
    with pytest.raises(
        HoldfastError, match=r"'results' cannot be written in epoch 7: permission denied.*to create 'results_fence'"
    ):
        write(table_on(engines, url.replace("holdfast@", "reader@")), 1, 1)
    table = table_on(engines, url)
    write(table, 1, 1)
    with engines[-1].begin() as connection:
        connection.execute(text("ALTER TABLE results RENAME COLUMN seq TO number"))
    with pytest.raises(
        HoldfastError, match=r'column "seq" of relation "results" does not exist; the table must exist, with the col'
    ):
        write(table, 2, 2)


def write(table, seq, claim):
    return table(pa.table({"seq": [seq]}), 7, "exact", token=WriteToken("run", 7, "first", claim))


@pytest.mark.parametrize("stalls_at", ["UPDATE", "DELETE", "INSERT INTO results"])
def test_stalled_transaction_does_not_replace_a_newer_write(url, engines, stalls_at):
    stalled, other = table_on(engines, url), table_on(engines, url)
    write(other, 0, 1)
    reached, resumed = Event(), Event()

    @event.listens_for(engines[0], "before_cursor_execute")
    def stall(connection, cursor, statement, *more):
        if statement.startswith(stalls_at):
            reached.set()
            resumed.wait(LIMIT_S)

    with ThreadPoolExecutor() as pool:
        old = pool.submit(write, stalled, 1, 2)
        assert reached.wait(LIMIT_S)
        new = pool.submit(write, other, 2, 3)
        if stalls_at == "UPDATE":
            assert new.result(LIMIT_S)  # nothing is locked yet; the stalled write comes too late
        resumed.set()
        assert new.result(LIMIT_S)
        assert old.result(LIMIT_S) == (stalls_at != "UPDATE")
    assert seqs(url) == [2]


def test_simultaneous_first_writes_leave_the_newest_rows(url, engines):
    tables = [table_on(engines, url) for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda claim: write(tables[claim - 1], claim, claim), range(1, 9)))
    assert seqs(url) == [8]
