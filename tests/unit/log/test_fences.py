"""Fences: a canceled job on a node that nobody can reach writes nothing more that counts, at any moment of the race."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from obstore.store import MemoryStore

from holdfast.errors import FencedOffError
from holdfast.log import EpochLog, Quality, Record, Store
from holdfast.log.fences import LOAD_AFTER_READS, fence_owner, require_not_fenced


def record(epoch: int, *, by: str, quality: Quality = Quality.EXACT) -> Record:
    return Record("s", 0, epoch, quality, (), 0, None, None, by, by)


def log_of(memory: MemoryStore, owner: str = "") -> EpochLog:
    return EpochLog(Store(memory, owner=owner))


class Counting(Store):
    """A store that counts its requests and calls `before` each that creates an object."""

    requests = 0

    def before(self, name: str) -> None:
        pass

    def create(self, name: str, content: bytes) -> bool:
        self.requests += 1
        self.before(name)
        return super().create(name, content)

    def read(self, name: str) -> bytes | None:
        self.requests += 1
        return super().read(name)

    def names(self, prefix: str):
        self.requests += 1
        return super().names(prefix)


def test_record_of_a_fenced_job_does_not_enter_the_log():
    memory = MemoryStore()
    old = log_of(memory, "old")
    for epoch in range(3):
        old.offer(record(epoch, by="old"))
    log_of(memory).fence("s", 0, owner="old", after=-1)
    with pytest.raises(FencedOffError, match="this job was canceled while its node could not be reached"):
        old.offer(record(3, by="old"))
    new = log_of(memory, "new")
    assert new.first("s", 0, epoch=3) is None
    assert new.offer(record(3, by="new")).accepted_as == "first"
    assert [new.first("s", 0, epoch=epoch).producer for epoch in range(4)] == ["old", "old", "old", "new"]
    assert new.last_epoch("s", 0, after=-1) == 3


def test_fenced_job_cannot_read_past_the_fence_either():
    memory = MemoryStore()
    old = log_of(memory, "old")
    old.offer(record(0, by="old"))
    assert old.first("s", 0, epoch=1) is None
    log_of(memory).fence("s", 0, owner="old", after=-1)
    with pytest.raises(FencedOffError):
        old.first("s", 0, epoch=1)


def test_reader_in_another_job_follows_the_stream_past_the_fence():
    memory = MemoryStore()
    reader, old = log_of(memory), log_of(memory, "old")
    old.offer(record(0, by="old"))
    assert reader.last_epoch("s", 0, after=-1) == 0
    log_of(memory).fence("s", 0, owner="old", after=-1)
    new = log_of(memory, "new")
    for epoch in (1, 2):
        new.offer(record(epoch, by="new"))
    assert [reader.first("s", 0, epoch=epoch).producer for epoch in range(3)] == ["old", "new", "new"]


def test_job_that_missed_the_fence_writes_nothing_that_is_read():
    """It continues from a newer checkpoint, past the fence, and its list of fences is old."""
    memory = MemoryStore()
    old = log_of(memory, "old")
    old.offer(record(0, by="old"))
    log_of(memory).fence("s", 0, owner="old", after=-1)
    new = log_of(memory, "new")
    for epoch in range(1, 6):
        new.offer(record(epoch, by="new"))
    old.offer(record(6, by="old"))
    assert new.first("s", 0, epoch=6) is None
    assert new.offer(record(6, by="new")).accepted_as == "first"
    with pytest.raises(FencedOffError):  # while it waits for input, it looks for fences from time to time
        for _ in range(LOAD_AFTER_READS + 1):
            old.first("s", 0, epoch=7)


def test_correction_after_a_fence_has_the_epochs_own_place():
    memory = MemoryStore()
    old = log_of(memory, "old")
    old.offer(record(0, by="old", quality=Quality.TENTATIVE))
    log_of(memory).fence("s", 0, owner="old", after=-1)
    new = log_of(memory, "new")
    assert new.offer(record(0, by="new")).accepted_as == "final"
    new.offer(record(1, by="new", quality=Quality.ABSENT))
    assert new.offer(record(1, by="new")).accepted_as == "final"
    assert [new.final("s", 0, epoch=epoch).producer for epoch in (0, 1)] == ["new", "new"]


def test_trimming_leaves_the_fence_in_place():
    memory = MemoryStore()
    log_of(memory, "old").offer(record(0, by="old"))
    late = log_of(memory, "old")
    late.first("s", 0, epoch=0)
    log_of(memory).fence("s", 0, owner="old", after=-1)
    new = log_of(memory, "new")
    for epoch in (1, 2, 3):
        new.offer(record(epoch, by="new"))
    new.trim("s", 0, after=-1, until=3)
    with pytest.raises(FencedOffError):
        late.offer(record(1, by="old"))


@given(owners=st.lists(st.integers(0, 3), min_size=1, max_size=6))
def test_jobs_that_are_fenced_one_after_another_leave_one_gapless_stream(owners):
    memory, expected = MemoryStore(), []
    for turn, epochs in enumerate(owners):
        log = log_of(memory, f"job{turn}")
        for _ in range(epochs):
            log.offer(record(len(expected), by=f"job{turn}"))
            expected.append(f"job{turn}")
        for _ in range(2):  # a second orchestrator repeats what the first one has begun
            log_of(memory).fence("s", 0, owner=f"job{turn}", after=-1)
        with pytest.raises(FencedOffError):
            log.offer(record(len(expected), by=f"job{turn}"))
    reader = log_of(memory)
    assert [reader.first("s", 0, epoch=epoch).producer for epoch in range(len(expected))] == expected
    assert reader.first("s", 0, epoch=len(expected)) is None


@pytest.mark.parametrize("delay", range(12))
def test_offer_and_fence_at_any_moment_agree_on_what_counts(delay):
    """The old job offers epochs one after another while the fencer works; after each, both may go on."""
    memory, accepted = MemoryStore(), []
    old = log_of(memory, "old")

    class Racing(Counting):
        def before(self, name: str) -> None:
            for _ in range(delay if "records/" in name else 1):
                offer()

    def offer() -> None:
        with suppress(FencedOffError):
            if len(accepted) < 20 and old.offer(record(len(accepted), by="old")).accepted_as is not None:
                accepted.append(len(accepted))

    EpochLog(Racing(memory)).fence("s", 0, owner="old", after=-1)
    reader = log_of(memory)
    last = reader.last_epoch("s", 0, after=-1)
    assert list(range(last + 1)) == accepted
    assert log_of(memory, "new").offer(record(last + 1, by="new")).accepted_as == "first"
    with pytest.raises(FencedOffError):
        old.offer(record(last + 1, by="old"))


def test_fencer_that_dies_between_two_steps_is_replaced():
    memory = MemoryStore()
    log_of(memory, "old").offer(record(0, by="old"))

    class Dying(Counting):
        def before(self, name: str) -> None:
            if name.startswith("fences/"):
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        EpochLog(Dying(memory)).fence("s", 0, owner="old", after=-1)
    log_of(memory).fence("s", 0, owner="old", after=-1)
    new = log_of(memory, "new")
    assert new.offer(record(1, by="new")).accepted_as == "first"
    assert list(Store(memory).names("fences/")) == ["fences/s/0/000001.00000000000000000001.old"]


@pytest.mark.parametrize("fenced", [False, True])
def test_fences_cost_no_request_per_epoch(fenced):
    memory = MemoryStore()
    if fenced:
        log_of(memory).fence("s", 0, owner="old", after=-1)
    store = Counting(memory, owner="new")
    log = EpochLog(store)
    log.offer(record(0, by="new"))
    for epoch in range(1, 50):
        before = store.requests
        log.offer(record(epoch, by="new"))
        assert store.requests - before == 2  # the record, and the trim line
        assert log.first("s", 0, epoch=epoch) is not None
        assert store.requests - before == 3


def test_replica_of_a_fenced_job_does_not_start():
    """A job that is canceled before its stream begins has no epoch to fence."""
    memory = MemoryStore()
    require_not_fenced(Store(memory, owner="old"))
    fence_owner(Store(memory), "old")
    require_not_fenced(Store(memory, owner="new"))
    with pytest.raises(FencedOffError):
        require_not_fenced(Store(memory, owner="old"))
