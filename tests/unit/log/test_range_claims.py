import pytest

from holdfast.errors import HoldfastError
from holdfast.log import Store
from holdfast.log.checkpoints import Checkpoints
from holdfast.log.position import Position
from holdfast.log.range_claims import Range, RangeClaims


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path)


def claims(store):
    return RangeClaims(store, "clicks/0", checkpoints=Checkpoints(store))


def test_first_claim_of_an_epoch_wins(store):
    assert claims(store).claim(4, lambda: Range({"a": 0}, {"a": 7})) == Range({"a": 0}, {"a": 7})
    assert claims(store).claim(4, lambda: Range({"a": 0}, {"a": 9})) == Range({"a": 0}, {"a": 7})


def test_replica_behind_a_checkpoint_gets_no_new_range(store):
    Checkpoints(store).save("clicks/0", Position(5))
    assert claims(store).claim(4, lambda: Range({"a": 0}, {"a": 7})) is None


def test_claim_of_the_checkpoint_is_kept(store):
    for epoch in (3, 4, 5):
        claims(store).claim(epoch, lambda epoch=epoch: Range({"a": epoch}, {"a": epoch + 1}))
    claims(store).remove_until(4)
    assert [claims(store).read(epoch) is None for epoch in (3, 4, 5)] == [True, False, False]


def test_run_id_outlives_the_claims(store):
    claims(store).claim(3, lambda: Range({"a": 3}, {"a": 4}))
    run_id = claims(store).run_id()
    claims(store).remove_until(9)
    assert (claims(store).read(3), claims(store).run_id()) == (None, run_id)


def test_damaged_claim_is_named(store):
    store.create("ranges/clicks%2F0/00000000000000000003", b"{")
    with pytest.raises(HoldfastError, match=r"ranges/clicks%2F0/00000000000000000003.*is damaged"):
        claims(store).read(3)


def test_all_tasks_of_a_source_begin_where_the_first_one_did(store):
    tasks = [RangeClaims(store, f"clicks/{task}", checkpoints=Checkpoints(store)) for task in range(2)]
    starts = [claims.agree_on_start("clicks", lambda number=number: {"version": number}) for number, claims in enumerate(tasks)]
    assert starts == [{"version": 0}, {"version": 0}]
    store.replace("range_starts/clicks", b"{")
    with pytest.raises(HoldfastError, match=r"range_starts/clicks.*is damaged"):
        tasks[0].agree_on_start("clicks", dict)
