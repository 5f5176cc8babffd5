"""The database: terms, commits, versions, outages and queries."""

import asyncio
import os
import socket
import sqlite3
import threading
import time
from contextlib import closing
from dataclasses import asdict

import pytest
from sqlalchemy import insert, select, text

from holdfast.control.jobs.state_machine import StateChange
from holdfast.control.storage import schema, stored_jobs
from holdfast.control.storage.database import Change, Database, DatabaseUnreachable, Fenced
from holdfast.control.storage.schema import VERSIONS, NewerDatabase
from holdfast.control.storage.stored_jobs import StoredJob, StoredPlacement
from holdfast.errors import HoldfastError, MachineError


def opened(path, reports=None) -> Database:
    database = Database(f"sqlite:///{path}", report=(reports if reports is not None else []).append)
    database.open()
    return database


def kept(number: int, state: str = "submitted", *, ended: bool = False) -> StoredJob:
    return StoredJob(number, f"job-{number}", "streaming", "light", state, ended, "", "{}", None, {}, 1.0, 1.0)


def submitted(number: int, **more) -> list[Change]:
    return stored_jobs.insert_job(kept(number, **more), StateChange("submitted", 1.0, "submit"))


async def test_only_the_newest_term_can_write(tmp_path):
    first, second = opened(tmp_path / "d.db"), opened(tmp_path / "d.db")
    assert (first.term, second.term) == (1, 2)

    await second.write(submitted(1))
    with pytest.raises(Fenced, match=r"another orchestrator has taken over \(term 2, this one has 1\)"):
        await first.write(submitted(2))
    assert [job.id for job in second.read_blocking(stored_jobs.unended_jobs)] == [1]
    first.close()
    second.close()


def test_concurrent_orchestrators_get_different_terms(tmp_path):
    opened(tmp_path / "d.db").close()
    terms = []

    def take():
        database = opened(tmp_path / "d.db")
        terms.append(database.term)
        database.close()

    threads = [threading.Thread(target=take) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(terms) == [2, 3, 4, 5, 6, 7]


async def test_invalid_write_does_not_fail_others_in_its_commit(tmp_path):
    database = opened(tmp_path / "d.db")

    await database.write(submitted(1))
    outcomes = await asyncio.gather(*(database.write(submitted(n)) for n in (2, 1, 3)), return_exceptions=True)
    assert [type(outcome).__name__ for outcome in outcomes] == ["NoneType", "NotStorable", "NoneType"]
    assert [job.id for job in database.read_blocking(stored_jobs.unended_jobs)] == [1, 2, 3]
    database.close()


async def test_writes_wait_for_the_database_and_report_it_once(tmp_path):
    reports = []
    database = opened(tmp_path / "d.db", reports)

    database.simulate_outage(0.5)
    await asyncio.gather(database.write(submitted(1)), database.write(submitted(2)))
    assert len(reports) == 2
    assert reports[0].endswith("is unreachable: a fault was injected; waiting for it")
    assert reports[1].endswith("answers again")
    assert len(database.read_blocking(stored_jobs.unended_jobs)) == 2
    database.close()


async def test_batch_with_lost_answer_is_not_applied_twice(tmp_path):
    reports = []
    database = opened(tmp_path / "d.db", reports)
    lost = [DatabaseUnreachable("the answer was lost")]
    once = database._once

    def loses_an_answer(question, writes=False, alone=False):
        answer = once(question, writes=writes, alone=alone)
        if writes and lost:
            raise lost.pop()
        return answer

    await database.write(submitted(1))
    database._once = loses_an_answer
    await asyncio.gather(*(database.write(submitted(n)) for n in (2, 3)))
    await database.write(submitted(4))
    assert [job.id for job in database.read_blocking(stored_jobs.unended_jobs)] == [1, 2, 3, 4]
    assert reports[0] == "the answer was lost; waiting for it"
    database.close()
    later = opened(tmp_path / "d.db")
    await later.write(submitted(5))  # batch numbers restart with each term, and the first must not count as applied already
    assert [job.id for job in later.read_blocking(stored_jobs.unended_jobs)] == [1, 2, 3, 4, 5]
    later.close()


def test_older_database_is_migrated_with_its_rows(tmp_path):
    path = tmp_path / "old.db"
    with sqlite3.connect(path) as old:
        old.execute("CREATE TABLE holdfast_schema (version INTEGER NOT NULL)")
        old.execute("INSERT INTO holdfast_schema VALUES (1)")
        for statement in VERSIONS[0]:
            old.execute(statement)
        old.execute(
            "INSERT INTO jobs VALUES (7, 'a', 'streaming', 'light', 'running', 0, '', '{\"host\":\"light\"}', NULL, '{}', 1, 2)"
        )
        old.execute("INSERT INTO placement VALUES (7, 'x/0', 0, 'n1', 2, 1, 3, 1)")
    old.close()
    database = opened(path)
    [job] = database.read_blocking(stored_jobs.unended_jobs)
    assert (job.id, job.host_kind, job.document) == (7, "light", '{"host_kind":"light"}')
    assert database.read_blocking(stored_jobs.all_placements) == [
        StoredPlacement(7, "x/0", 0, "n1", incarnation=2, failures=3, abandoned=True)
    ]
    assert database.read_blocking(stored_jobs.draining_nodes) == []
    assert database.read_blocking(
        lambda connection: connection.execute(text("SELECT version FROM holdfast_schema")).scalar()
    ) == len(VERSIONS)
    database.close()


def test_newer_database_is_refused(tmp_path):
    path = tmp_path / "new.db"
    opened(path).close()
    with sqlite3.connect(path) as new:
        new.execute("UPDATE holdfast_schema SET version = 99")
    new.close()
    with pytest.raises(
        NewerDatabase, match="the database has version 99 and this holdfast knows versions up to 7; start the newer"
    ):
        opened(path)
    with sqlite3.connect(path) as new:
        assert new.execute("SELECT term FROM fence").fetchone() == (1,)
    new.close()


@pytest.mark.parametrize(
    ("url", "error", "words"),
    [
        ("nonsense", HoldfastError, "database 'nonsense': wanted a URL such as sqlite:///jobs.db"),
        (
            "postgresql://me:secret@db:high/jobs",
            HoldfastError,
            r"database '...@db:high/jobs': wanted a URL such as sqlite:///jobs.db",
        ),
        ("mysql://db/jobs", HoldfastError, "database 'mysql': wanted SQLite or PostgreSQL; give one such as sqlite:///jobs.db"),
        ("sqlite://", HoldfastError, "is in memory, and jobs must outlive this process; give a file, such as sqlite:///jobs.db"),
        ("sqlite:///:memory:", HoldfastError, "is in memory"),
        ("sqlite+odd:///jobs.db", MachineError, "needs a driver: .*; leave the driver out of the URL"),
        ("postgresql+odd://db/jobs", MachineError, r"needs a driver: .*; pip install 'holdfast\[postgresql\]'"),
    ],
)
def test_unusable_database_url_is_explained(url, error, words):
    with pytest.raises(error, match=words):
        Database(url, report=print)


async def test_removed_database_file_is_noticed_before_a_write_is_lost(tmp_path):
    path, reports = tmp_path / "d.db", []
    database = opened(path, reports)

    await database.write(submitted(1))
    path.rename(tmp_path / "aside.db")
    writing = asyncio.create_task(database.write(submitted(2)))
    while not reports:
        await asyncio.sleep(0.01)
    with pytest.raises(DatabaseUnreachable, match="its file was removed or replaced; put it back"):
        await database.read(stored_jobs.last_job)
    assert not writing.done()
    (tmp_path / "aside.db").rename(path)
    await writing
    assert await database.read(stored_jobs.last_job) == 2
    database.close()
    assert "its file was removed or replaced; put it back; waiting for it" in reports[0] and reports[1].endswith("answers again")


def test_missing_folder_is_reported_and_awaited(tmp_path):
    reports = []
    path = tmp_path / "none" / "d.db"
    database = Database(f"sqlite:///{path}", report=reports.append)
    opening = threading.Thread(target=database.open)
    opening.start()
    while not reports:
        time.sleep(0.01)
    path.parent.mkdir()
    opening.join()
    database.close()
    assert f"is unreachable: there is no folder '{path.parent}'; waiting for it" in reports[0] and database.term == 1


def test_queries_use_indexes(tmp_path):
    database = opened(tmp_path / "d.db")
    rows = [{**asdict(kept(n, "completed" if n % 100 else "running", ended=n % 100 != 0)), "refs": "{}"} for n in range(1, 10_001)]
    asyncio.run(database.write([Change(insert(schema.jobs), rows)]))
    first = database.read_blocking(lambda c: stored_jobs.jobs_page(c, state="running", limit=10, after=None))
    second = database.read_blocking(lambda c: stored_jobs.jobs_page(c, state="running", limit=10, after=first[-1]["id"]))
    assert [row["id"] for row in first + second] == list(range(10_000, 8_000, -100))
    assert len(database.read_blocking(stored_jobs.unended_jobs)) == 100

    def plan(statement):
        compiled = statement.compile(compile_kwargs={"literal_binds": True})
        return database.read_blocking(lambda c: " ".join(row[3] for row in c.execute(text(f"EXPLAIN QUERY PLAN {compiled}"))))

    jobs = schema.jobs
    for question in (
        select(jobs.c.id).where(jobs.c.state == "running", jobs.c.id < 500).order_by(jobs.c.id.desc()).limit(10),
        select(jobs.c.id).where(jobs.c.ended == 0).order_by(jobs.c.id),
        select(jobs.c.id).where(jobs.c.id == 7),
    ):
        assert "SCAN jobs" not in plan(question).replace("SCAN jobs USING INDEX jobs_unended", "").replace(
            "SCAN jobs USING COVERING INDEX jobs_unended", ""
        )
        assert "TEMP B-TREE" not in plan(question)
    database.close()


async def test_placements_are_replaced_and_deleted_by_task(tmp_path):
    database = opened(tmp_path / "d.db")

    await database.write(
        stored_jobs.insert_placements(
            [StoredPlacement(1, "x/0", 0, "n1"), StoredPlacement(1, "x/0", 1, "n2"), StoredPlacement(1, "y/0", 0, "n1")]
        )
    )
    await database.write(
        stored_jobs.replace_placements([StoredPlacement(1, "x/0", 0, "n3", incarnation=2, active=False, failures=1)])
    )
    await database.write(stored_jobs.delete_placements(1, ["y/0"]))
    for number in (0, 1):
        await database.write(stored_jobs.mark_finished(StoredPlacement(1, "x/0", number, "n2", incarnation=1)))
    assert database.read_blocking(stored_jobs.all_placements) == [
        StoredPlacement(1, "x/0", 0, "n3", incarnation=2, active=False, failures=1),  # its first incarnation had finished too late
        StoredPlacement(1, "x/0", 1, "n2", finished=True),
    ]
    database.close()


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("CREATE TABLE jobs (id)", "the database is not holdfast's: it has the tables jobs and no 'holdfast_schema'; give another"),
        ("CREATE TABLE songs (id)", "the database is not holdfast's: it has the tables songs"),
        (None, "cannot be used: file is not a database; fix that, or give another --database"),
    ],
)
def test_foreign_database_file_is_refused_and_unchanged(tmp_path, statement, words):
    path = tmp_path / "d.db"
    if statement is None:
        path.write_bytes(b"Dear diary, " * 100)
    else:
        with closing(sqlite3.connect(path)) as other:
            other.execute(statement)
    reports = []
    with pytest.raises(HoldfastError, match=words):
        opened(path, reports)
    assert reports == []
    if statement is not None:
        with closing(sqlite3.connect(path)) as other:
            assert other.execute("SELECT count(*) FROM sqlite_master").fetchone() == (1,)


async def test_read_only_database_fails_at_start_but_is_awaited_later(tmp_path):
    opened(tmp_path / "d.db").close()
    reports = []
    with pytest.raises(HoldfastError, match="cannot be used: attempt to write a readonly database; fix that, or give another"):
        opened(f"file:{tmp_path / 'd.db'}?mode=ro&uri=true", reports)
    assert reports == []
    database = opened(tmp_path / "d.db", reports)

    with database._engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA query_only=ON")
        connection.commit()
    writing = asyncio.create_task(database.write(submitted(1)))
    while not reports:
        await asyncio.sleep(0.01)
    assert "is unreachable: attempt to write a readonly database; waiting for it" in reports[0]
    with closing(database._engine.raw_connection()) as raw:
        raw.execute("PRAGMA query_only=OFF")
    await writing
    database.close()


def test_read_only_folder_fails_at_start(tmp_path, monkeypatch):
    opened(tmp_path / "d.db").close()
    may = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path and may(path, mode))  # the test may run as root
    reports = []
    with pytest.raises(HoldfastError, match=rf"cannot be used: folder '{tmp_path}' cannot be written; fix that, or give another"):
        opened(tmp_path / "d.db", reports)
    assert reports == []


def test_silent_server_counts_as_unreachable(monkeypatch):
    pytest.importorskip("psycopg")
    monkeypatch.setattr("holdfast.control.storage.engines.TIMEOUTS", {"connect_timeout": 2})
    reports, ended = [], []
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        database = Database(f"postgresql://me@127.0.0.1:{silent.getsockname()[1]}/jobs", report=reports.append)

        def waits():
            with pytest.raises(DatabaseUnreachable):
                database.open()
            ended.append(True)

        waiting = threading.Thread(target=waits, daemon=True)
        waiting.start()
        ends_s = time.monotonic() + 10
        while not reports and time.monotonic() < ends_s:
            time.sleep(0.02)
        database._closing.set()
    waiting.join(20)
    assert ended
    database.close()
    assert "is unreachable" in reports[0] and "timeout" in reports[0]


def test_url_overrides_connection_timeout():
    pytest.importorskip("psycopg")
    database = Database("postgresql://me@127.0.0.1:1/jobs?connect_timeout=3", report=lambda text: None)
    _, given = database._engine.dialect.create_connect_args(database.url)
    assert given["connect_timeout"] == "3"
    database.close()


def test_folder_as_database_file_is_refused(tmp_path):
    with pytest.raises(HoldfastError, match=r"is a folder; give a file in it, such as jobs\.db"):
        opened(tmp_path)
