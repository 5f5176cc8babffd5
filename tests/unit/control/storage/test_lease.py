"""The leader's lease: who may take it, when it ends, and what a leader without one may do."""

import asyncio
import threading

import pytest
from sqlalchemy import update

from holdfast.control.storage import stored_jobs
from holdfast.control.storage.database import Candidate, Database, DatabaseRolledBack, Fenced, LeaseExpired, LeaseHeld
from holdfast.control.storage.schema import fence


def candidate(path, name: str, lease_s: float = 60.0) -> Database:
    return Database(f"sqlite:///{path / 'd.db'}", report=lambda text: None, candidate=Candidate(name, f"http://{name}", lease_s))


def test_second_orchestrator_is_refused_while_the_lease_lasts(tmp_path):
    first, second = candidate(tmp_path, "a"), candidate(tmp_path, "b")
    assert first.open() == 1
    with pytest.raises(LeaseHeld, match=r"orchestrator 'a' at http://a \(term 1\); use that one, stop it first, or .* --standby"):
        second.open()
    first.close(release=True)
    assert second.open() == 2
    second.close()


def test_restarted_orchestrator_replaces_itself_at_once(tmp_path):
    killed, restarted = candidate(tmp_path, "a"), candidate(tmp_path, "a")
    assert [killed.open(), restarted.open()] == [1, 2]
    killed.close(release=True)  # it ends its own lease, not that of its successor
    with pytest.raises(LeaseHeld):
        candidate(tmp_path, "b").open()
    restarted.close()


def test_standby_waits_for_the_end_of_the_lease(tmp_path):
    dead, standby = candidate(tmp_path, "a", lease_s=1.0), candidate(tmp_path, "b")
    dead.open()
    assert standby.open(standby=True) == 2
    assert not dead.leads and standby.leads
    with pytest.raises(Fenced):
        dead._renew()
    dead.close()
    standby.close()


async def test_every_write_and_renewal_keeps_the_lease(tmp_path):
    database = candidate(tmp_path, "a", lease_s=1.0)
    database.open()
    first = database.lease_ends_s
    await database.write(stored_jobs.set_draining("n1", True))
    assert database.lease_ends_s > first
    keeping = asyncio.create_task(database.keep_lease())
    for _ in range(3):
        before = database.lease_ends_s
        while database.lease_ends_s == before:
            await asyncio.sleep(0.01)
    with pytest.raises(LeaseHeld):
        candidate(tmp_path, "b").open()
    keeping.cancel()
    database.close()


async def test_leader_without_database_steps_down_before_its_lease_ends(tmp_path):
    database = candidate(tmp_path, "a", lease_s=1.0)
    database.open()
    database.simulate_outage(60.0)
    with pytest.raises(LeaseExpired, match="the lease of term 1 could not be renewed in time, and this leader steps down"):
        await database.keep_lease()
    assert database.leads
    database.close()


def test_busy_event_loop_does_not_cost_the_lease(tmp_path):
    database = candidate(tmp_path, "a", lease_s=1.0)
    database.open()

    async def block() -> None:
        keeping = asyncio.create_task(database.keep_lease())
        await asyncio.sleep(0)
        first = database.lease_ends_s
        while database.lease_ends_s < first + 2.0:  # the loop does nothing else for two leases
            threading.Event().wait(0.01)
        await asyncio.sleep(0)
        assert not keeping.done()
        keeping.cancel()

    asyncio.run(block())
    database.close()


def test_restored_database_skips_terms_and_incarnations(tmp_path):
    database = candidate(tmp_path, "a")
    database.open()
    placed = stored_jobs.StoredPlacement(1, "x/0", 0, "n1", incarnation=2)
    asyncio.run(database.write(stored_jobs.insert_placements([placed])))
    database.close(release=True)
    restored = candidate(tmp_path, "a")
    assert restored.open(restored=True) == 1001
    assert [each.incarnation for each in restored.read_blocking(stored_jobs.all_placements)] == [1002]
    restored.close()


async def test_leader_stops_if_the_database_lost_its_term(tmp_path):
    """After a failover that lost transactions, the next term may be one that nodes have heard from this leader."""
    leader = candidate(tmp_path, "a")
    leader.open()
    leader.close(release=True)
    leader = candidate(tmp_path, "a")
    assert leader.open() == 2
    leader._once(lambda connection: connection.execute(update(fence).values(term=1)), writes=True)
    with pytest.raises(DatabaseRolledBack, match=r"has term 1, and this orchestrator has 2: .* start .* --restored"):
        await leader.write(stored_jobs.set_draining("n1", True))
    with pytest.raises(DatabaseRolledBack):
        leader._renew()
    leader.close()
