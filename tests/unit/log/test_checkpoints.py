"""Checkpoints: stored positions, and how many of them stay."""

import pyarrow as pa
import pytest
from obstore.store import MemoryStore

from holdfast.errors import HoldfastError
from holdfast.log import Store
from holdfast.log.checkpoints import Checkpoints
from holdfast.log.position import Position

ROWS = pa.table({"seq": [1, 2, 3], "ticker": ["a", None, "b"], "gain": [0.1, None, -1.0]})


@pytest.fixture
def store():
    return Store(MemoryStore())


def test_checkpoint_is_read_back_and_only_the_last_two_stay(store):
    checkpoints = Checkpoints(store)
    for epoch in (3, 5, 9):
        checkpoints.save("vwap/0", Position(epoch, {"trades kept by vwap": ROWS}, after=epoch * 10, tainted=None))
    position = checkpoints.latest("vwap/0")
    assert (position.epoch, position.after, position.tainted) == (9, 90, None)
    assert position.kept["trades kept by vwap"].equals(ROWS)
    assert len(list(store.names("checkpoints/"))) == 2
    assert checkpoints.latest("other/0") is None


def test_epoch_reached_by_all_is_the_oldest_of_the_newest_checkpoints(store):
    checkpoints = Checkpoints(store)
    checkpoints.save("a/0", Position(4))
    assert checkpoints.epoch_reached_by_all(["a/0", "b/0"]) is None
    checkpoints.save("b/0", Position(7))
    assert checkpoints.epoch_reached_by_all(["a/0", "b/0"]) == 4


def test_damaged_checkpoint_is_reported(store):
    store.create(f"checkpoints/a%2F0/{4:020d}", b"nonsense")
    with pytest.raises(HoldfastError, match="checkpoint 4 of a/0 cannot be read"):
        Checkpoints(store).latest("a/0")
