"""The epoch log: the first writer wins, final records correct inexact ones, and trimmed epochs stay trimmed."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from obstore.store import MemoryStore

from holdfast.errors import HoldfastError, LogError
from holdfast.log import EpochLog, OfferResult, Quality, Record, Store


@pytest.fixture(params=["folder", "memory"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> EpochLog:
    return EpochLog(Store(tmp_path / "log" if request.param == "folder" else MemoryStore()))


def record(
    epoch: int, *, quality: Quality = Quality.EXACT, value: str = "a", producer: str = "vwap/0@n1", stream: str = "vwap"
) -> Record:
    absent = quality is Quality.ABSENT
    return Record(
        stream=stream,
        task=0,
        epoch=epoch,
        quality=quality,
        files=() if absent else (f"{stream}-{epoch}-{value}.parquet",),
        rows=0 if absent else 3,
        first_seq=None,
        last_seq=None,
        checksum=value,
        producer=producer,
        lineage=("market@3",),
        closed_s=1.5,
        committed_s=2.0,
    )


def test_committed_record_is_read_back(log: EpochLog) -> None:
    assert log.offer(record(7)).accepted_as == "first"
    assert log.first("vwap", 0, epoch=7) == record(7)
    assert log.first("vwap", 0, epoch=8) is None
    assert log.first("vwap", 1, epoch=7) is None


def test_first_writer_wins_and_an_equal_copy_is_no_divergence(log: EpochLog) -> None:
    log.offer(record(1, producer="one"))
    result = log.offer(record(1, producer="two"))
    assert (result.accepted_as, result.divergence) == (None, None)
    committed = log.first("vwap", 0, epoch=1)
    assert committed is not None
    assert committed.producer == "one"


def test_divergence_names_both_producers(log: EpochLog) -> None:
    log.offer(record(1, producer="one", value="a"))
    divergence = log.offer(record(1, producer="two", value="b")).divergence
    assert str(divergence) == "divergence in epoch 1 of 'vwap' task 0: one committed 3 rows (a), two computed 3 rows (b)"


@pytest.mark.parametrize("quality", [Quality.ABSENT, Quality.PREDICTED, Quality.TENTATIVE])
def test_exact_record_becomes_final_after_an_inexact_first(log: EpochLog, quality: Quality) -> None:
    log.offer(record(1, quality=quality, value="guess"))
    assert log.final("vwap", 0, epoch=1) is None
    assert log.offer(record(1)).accepted_as == "final"
    assert log.final("vwap", 0, epoch=1) == record(1)
    first = log.first("vwap", 0, epoch=1)
    assert first is not None
    assert first.quality is quality
    assert log.newest("vwap", 0, epoch=1) == record(1)


def test_late_inexact_record_is_not_accepted(log: EpochLog) -> None:
    log.offer(record(1))
    assert log.offer(record(1, quality=Quality.PREDICTED, value="guess")).accepted_as is None
    assert log.final("vwap", 0, epoch=1) == record(1)


def test_different_final_records_are_a_divergence(log: EpochLog) -> None:
    log.offer(record(1, quality=Quality.ABSENT, value=""))
    log.offer(record(1, value="a"))
    assert log.offer(record(1, value="b")).divergence is not None


@given(length=st.integers(0, 70), after=st.integers(-1, 70))
def test_last_epoch_is_the_last_one_without_a_gap(length: int, after: int) -> None:
    log = EpochLog(Store(MemoryStore()))
    for epoch in range(length):
        log.offer(record(epoch))
    assert log.last_epoch("vwap", 0, after=after) == max(after, length - 1)


def test_last_epoch_needs_logarithmically_many_reads() -> None:
    class Counting(Store):
        reads = 0

        def read(self, name: str) -> bytes | None:
            self.reads += 1
            return super().read(name)

    counts = []
    for length in (100, 10_000):
        store = Counting(MemoryStore())
        log = EpochLog(store)
        for epoch in range(length):
            log.offer(record(epoch))
        store.reads = 0
        log.last_epoch("vwap", 0, after=-1)
        counts.append(store.reads)
    assert counts[1] <= 2 * counts[0] + 2


def test_trim_removes_records_and_returns_their_files(log: EpochLog) -> None:
    for epoch in range(4):
        log.offer(record(epoch))
    assert log.trim("vwap", 0, after=-1, until=1) == ["vwap-0-a.parquet", "vwap-1-a.parquet"]
    assert [log.first("vwap", 0, epoch=e) is None for e in range(4)] == [True, True, False, False]


@pytest.mark.parametrize("quality", [Quality.EXACT, Quality.PREDICTED])
def test_record_of_a_trimmed_epoch_is_not_accepted(log: EpochLog, quality: Quality) -> None:
    for epoch in range(4):
        log.offer(record(epoch))
    log.trim("vwap", 0, after=-1, until=2)
    assert log.offer(record(1, quality=quality)) == OfferResult(None)
    assert (log.oldest_epoch("vwap", 0), log.trimmed_until("vwap", 0)) == (3, 2)
    assert log.offer(record(4)).accepted_as == "first"


def test_correction_is_withdrawn_if_its_epoch_is_trimmed_meanwhile() -> None:
    class Trimming(Store):
        """Trims the epoch between two reads of a producer that corrects it."""

        def read(self, name: str) -> bytes | None:
            content = super().read(name)
            if name.endswith("1.first") and self.armed:
                self.armed = False
                EpochLog(self).trim("vwap", 0, after=-1, until=1)
            return content

    store = Trimming(MemoryStore())
    store.armed = False
    log = EpochLog(store)
    log.offer(record(1, quality=Quality.ABSENT, value=""))
    store.armed = True
    assert log.offer(record(1)) == OfferResult(None)
    assert log.oldest_epoch("vwap", 0) is None


class LosingAnswers(Store):
    """An object store whose answers are lost: on the second attempt it reports the new object as existing."""

    def create(self, name: str, content: bytes) -> bool:
        super().create(name, content)
        return False


@pytest.mark.parametrize(("before", "kind"), [(None, "first"), (Quality.ABSENT, "final")])
def test_record_created_without_an_answer_is_accepted(before: Quality | None, kind: str) -> None:
    memory = MemoryStore()
    if before is not None:
        EpochLog(Store(memory)).offer(record(1, quality=before, value=""))
    log = EpochLog(LosingAnswers(memory))
    assert log.offer(record(1)) == OfferResult(kind)
    assert log.offer(record(1, producer="another")) == OfferResult(None)
    assert log.final("vwap", 0, epoch=1) == record(1)


def test_vanished_record_is_an_error_unless_trimmed() -> None:
    class Denying(Store):
        def create(self, name: str, content: bytes) -> bool:
            return not name.startswith("records/") and super().create(name, content)

    log = EpochLog(Denying(MemoryStore()))
    with pytest.raises(LogError, match=r"reports that epoch 1 of 'vwap' task 0 exists, but does not return it"):
        log.offer(record(1))
    log.trim("vwap", 0, after=-1, until=1)
    assert log.offer(record(1)) == OfferResult(None)


def test_slower_trimmer_does_not_move_trimming_back(log: EpochLog) -> None:
    log.trim("vwap", 0, after=-1, until=7)
    log.trim("vwap", 0, after=-1, until=3)
    assert log.trimmed_until("vwap", 0) == 7


def test_stream_name_cannot_point_outside_the_log(tmp_path: Path) -> None:
    log = EpochLog(Store(tmp_path / "log"))
    log.offer(record(1, stream="../../evil"))
    assert [p.name for p in tmp_path.iterdir()] == ["log"]
    assert log.first("../../evil", 0, epoch=1) is not None


KILLED = """
import os, sys
from holdfast.log import EpochLog, Quality, Record, Store
log = EpochLog(Store(sys.argv[1]))
epoch = 0
while True:
    log.offer(Record("s", 0, epoch, Quality.EXACT, ("x" * 4000,), 1, None, None, "c", "p"))
    epoch += 1
    if epoch == 50:
        print("started", flush=True)
"""


def test_killed_writer_leaves_only_complete_records(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    log = EpochLog(Store(tmp_path))
    last = log.last_epoch("s", 0, after=-1)
    assert last >= 49
    assert all(log.first("s", 0, epoch=epoch) is not None for epoch in range(last + 1))


@pytest.mark.parametrize("size", [0, 1, 40])
def test_empty_or_truncated_record_is_reported_by_its_name(size: int) -> None:
    store = Store(MemoryStore())
    name = f"records/vwap/0/{7:020d}.first"
    store.create(name, record(7).encode()[:size])
    with pytest.raises(HoldfastError, match=f"object '{name}' of the log at .* is damaged: .*; restore it from a backup"):
        EpochLog(store).first("vwap", 0, epoch=7)


def test_foreign_trim_line_is_reported_by_its_name() -> None:
    store = Store(MemoryStore())
    store.create("trimmed/vwap/0/x", b"")
    with pytest.raises(HoldfastError, match=r"object 'trimmed/vwap/0/x' of the log at .* is damaged"):
        EpochLog(store).trimmed_until("vwap", 0)
