"""The timeline: agreed on once, and the epochs that have ended."""

import pytest
from obstore.store import MemoryStore

from holdfast.errors import HoldfastError
from holdfast.log import Store
from holdfast.log.timeline import Timeline, agree_on_timeline, read_timeline


@pytest.fixture
def store():
    return Store(MemoryStore())


def test_first_source_decides_the_timeline(store):
    assert read_timeline(store) is None
    first = Timeline(first=5, last=9, epoch_s=1.0, opened_s=100.0, speed=2.0)
    assert agree_on_timeline(store, first) == first
    assert agree_on_timeline(store, Timeline(first=6, last=9, epoch_s=1.0, opened_s=200.0)) == first == read_timeline(store)


def test_last_closed_epoch_is_never_past_the_end():
    timeline = Timeline(first=5, last=9, epoch_s=1.0, opened_s=100.0, speed=2.0)
    assert [timeline.last_closed_epoch(at) for at in (99.0, 100.4, 100.5, 101.2, 500.0)] == [4, 4, 5, 6, 9]


def test_empty_timeline_is_reported_by_its_name(store):
    store.create("timeline", b"")
    with pytest.raises(HoldfastError, match=r"object 'timeline' of the log at .* is damaged"):
        read_timeline(store)
