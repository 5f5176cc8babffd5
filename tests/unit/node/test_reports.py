"""The durable list of reports."""

import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import HoldfastError
from holdfast.node.reports import KnownReplica, ReplicaChange, Reports
from holdfast.protocol.messages import AssignedReplica, Assignment

A = AssignedReplica(job=1, pe="a", task=0, replica=0)


def opened(tmp_path: Path, **settings) -> Reports:
    return Reports(tmp_path / "reports.db", clock=lambda: 1000.0, **settings)


def numbers(reports: Reports) -> list[int]:
    return [report.number for report in reports.waiting(10**6)]


def test_reports_survive_the_process_in_order(tmp_path):
    reports = opened(tmp_path)
    reports.record([ReplicaChange("1:a/0.0", 1, "starting"), ReplicaChange("1:b/0.0", 1, "starting")])
    reports.record([ReplicaChange("1:a/0.0", 1, "failed", "broken")])
    reports.close()
    again = opened(tmp_path)
    assert [(r.key, r.state, r.error) for r in again.waiting(9)] == [
        ("1:a/0.0", "starting", None),
        ("1:b/0.0", "starting", None),
        ("1:a/0.0", "failed", "broken"),
    ]
    assert again.known == {"1:a/0.0": KnownReplica(1, "failed", "broken"), "1:b/0.0": KnownReplica(1, "starting")}


def test_acknowledged_reports_are_dropped_and_numbers_continue(tmp_path):
    reports = opened(tmp_path)
    reports.record([ReplicaChange("1:a/0.0", 1, "starting"), ReplicaChange("1:a/0.0", 1, "running")])
    first, second = numbers(reports)
    reports.acknowledge(first)
    assert numbers(reports) == [second]
    reports.acknowledge(second)
    reports.close()
    again = opened(tmp_path)
    assert len(again) == 0
    again.record([ReplicaChange("1:a/0.0", 1, "finished")])
    assert numbers(again) == [second + 1]


def test_new_file_starts_with_higher_numbers(tmp_path):
    before = Reports(tmp_path / "before.db", clock=lambda: 1000.0)
    before.record([ReplicaChange("1:a/0.0", 1, "starting")] * 500)
    after = Reports(tmp_path / "after.db", clock=lambda: 1001.0)
    after.record([ReplicaChange("1:a/0.0", 1, "starting")])
    assert numbers(after)[0] > numbers(before)[-1]


def test_numbers_continue_above_a_higher_acknowledgement(tmp_path):
    reports = opened(tmp_path)
    reports.acknowledge(10**15)
    reports.record([ReplicaChange("1:a/0.0", 1, "starting")])
    assert numbers(reports) == [10**15 + 1]


def test_only_newest_report_per_replica_is_kept_beyond_the_bound(tmp_path):
    reports = opened(tmp_path, bound=10)
    for incarnation in range(1, 50):
        reports.record([ReplicaChange(f"1:{pe}/0.0", incarnation, "failed") for pe in "abc"])
    kept = reports.waiting(99)
    assert len(kept) <= 10
    assert [(r.key, r.incarnation) for r in kept[-3:]] == [("1:a/0.0", 49), ("1:b/0.0", 49), ("1:c/0.0", 49)]
    assert numbers(reports) == sorted(numbers(reports))


def test_accepted_assignment_keeps_known_states(tmp_path):
    reports = opened(tmp_path)
    reports.expect(Assignment(term=1, generation=1, replicas=(A,)))
    reports.record([ReplicaChange(A.key, 1, "failed", "broken")])
    reports.expect(Assignment(term=1, generation=2, replicas=(A,)))
    assert reports.known == {A.key: KnownReplica(1, "failed", "broken")}
    reports.expect(Assignment(term=2, generation=1, replicas=(A.model_copy(update={"incarnation": 2}),)))
    reports.close()
    again = opened(tmp_path)
    assert again.known == {A.key: KnownReplica(2, "assigned")}
    assert (again.assignment.term, again.assignment.replicas[0].incarnation) == (2, 2)


def test_stopped_replica_is_forgotten(tmp_path):
    reports = opened(tmp_path)
    reports.expect(Assignment(term=1, generation=1, replicas=(A,)))
    reports.record([ReplicaChange(A.key, 1, "stopped")])
    assert reports.known == {}


def test_newer_file_format_is_refused(tmp_path):
    with sqlite3.connect(tmp_path / "reports.db") as db:
        db.execute("PRAGMA user_version=99")
    with pytest.raises(HoldfastError, match=r"written by a newer holdfast \(format 99, this one reads up to 2\).*new --work"):
        opened(tmp_path)


def test_invalid_stored_assignment_is_refused(tmp_path):
    path = tmp_path / "reports.db"
    Reports(path, clock=time.time).close()
    with closing(sqlite3.connect(path)) as stored:
        stored.execute("""INSERT INTO assignment VALUES ('{"term": "one", "flavour": 2}')""")
        stored.commit()
    with pytest.raises(
        HoldfastError, match=r"the stored assignment is not valid for this version of holdfast \(term: .*give a new --work"
    ):
        Reports(path, clock=time.time)


def test_corrupt_database_is_reported(tmp_path):
    (tmp_path / "reports.db").write_text("no database" * 1000)
    with pytest.raises(HoldfastError, match=r"reports '.*reports.db' cannot be opened: file is not a database; repair it"):
        opened(tmp_path)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["starting", "running", "failed"]), st.booleans()), max_size=30))
def test_reports_are_never_lost_duplicated_or_reordered(tmp_path_factory, steps):
    path = tmp_path_factory.mktemp("reports") / "reports.db"
    reports = Reports(path, clock=lambda: 1.0, synced=False)
    recorded, taken = [], []
    for pe, state, deliver in steps:
        reports.record([ReplicaChange(pe, 1, state)])
        recorded.append((pe, state))
        if deliver:
            batch = reports.waiting(2)
            taken += [(r.key, r.state) for r in batch]
            reports.acknowledge(batch[-1].number)
            reports.close()
            reports = Reports(path, clock=lambda: 1.0, synced=False)
    taken += [(r.key, r.state) for r in reports.waiting(10**6)]
    reports.close()
    assert taken == recorded


WRITER = """
import sys, time
from contextlib import closing
from pathlib import Path
from holdfast.node.reports import ReplicaChange, Reports
reports = Reports(Path(sys.argv[1]), clock=time.time)
number = 0
while True:
    number += 1
    reports.record([ReplicaChange(f"1:{pe}/0.0", number, "failed") for pe in "ab"])
    print(number, flush=True)
"""


def test_killed_writer_leaves_complete_batches(tmp_path):
    path = tmp_path / "reports.db"
    for _ in range(3):
        before = Reports(path, clock=time.time).waiting(10**6) if path.exists() else ()
        process = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        printed_count = [int(process.stdout.readline()) for _ in range(5)][-1]
        process.kill()
        process.stdout.close()
        process.wait()
        reports = Reports(path, clock=time.time)
        new = reports.waiting(10**6)[len(before) :]
        assert [r.incarnation for r in new[::2]] == [r.incarnation for r in new[1::2]] == list(range(1, len(new) // 2 + 1))
        assert len(new) // 2 >= printed_count
        assert [r.number for r in new] == list(range(new[0].number, new[0].number + len(new)))
        reports.close()


def test_older_file_format_is_kept_and_gets_an_owner(tmp_path):
    path = tmp_path / "reports.db"
    reports = Reports(path, clock=lambda: 1.0)
    reports.record([ReplicaChange("1:a/0.0", 1, "running")])
    owner = reports.owner
    reports.close()
    again = Reports(path, clock=lambda: 1.0)
    assert again.owner == owner
    again.close()
    with closing(sqlite3.connect(path)) as old:
        old.executescript("DROP TABLE owner; PRAGMA user_version=1;")
    migrated = Reports(path, clock=lambda: 1.0)
    assert migrated.owner not in ("", owner)
    assert [report.key for report in migrated.waiting(10)] == ["1:a/0.0"]
    migrated.close()
