"""Checkpoints: stored positions, and how many of them stay."""

import pyarrow as pa
import pytest
from obstore.store import MemoryStore

from holdfast.errors import HoldfastError
from holdfast.log import Store
from holdfast.log.checkpoints import ARROW_END, Checkpoints
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
    assert position.kept_rows["trades kept by vwap"].equals(ROWS)
    assert len(list(store.names("checkpoints/"))) == 2
    assert checkpoints.latest("other/0") is None


def test_newest_epochs_of_all_tasks_are_listed(store):
    checkpoints = Checkpoints(store)
    assert checkpoints.latest_epochs() == {}
    for task, epoch in [("a/0", 4), ("b/0", 7), ("a/0", 9), ("a/1", 3)]:
        checkpoints.save(task, Position(epoch))
    assert checkpoints.latest_epochs() == {"a/0": 9, "a/1": 3, "b/0": 7}


def test_damaged_checkpoint_is_reported_with_advice_that_works(store):
    checkpoints, name = Checkpoints(store), f"checkpoints/a%2F0/{4:020d}"
    checkpoints.save("a/0", Position(3))
    store.create(name, b"nonsense")
    advice = "restore it from a backup, or start the job with a new log"
    with pytest.raises(HoldfastError, match=f"object '{name}' of the log at .* is damaged: .*; {advice}$"):
        checkpoints.latest("a/0")


def test_truncated_checkpoint_is_never_read_as_a_smaller_one(store):
    checkpoints, name = Checkpoints(store), f"checkpoints/a%2F0/{4:020d}"
    checkpoints.save("a/0", Position(4, {"trades": ROWS, "quotes": ROWS}))
    content, complete = store.read(name), checkpoints.latest("a/0")
    errors = 0
    for size in range(len(content)):
        store.replace(name, content[:size])
        try:
            assert checkpoints.latest("a/0") == complete  # only the mark at the end is missing
        except HoldfastError as error:
            assert f"object '{name}' of the log at" in str(error)
            errors += 1
    assert errors >= len(content) - len(ARROW_END)
