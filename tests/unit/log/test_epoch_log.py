"""The epoch log: first writer wins, finals correct what was inexact, and the second law under random schedules."""

import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from obstore.store import MemoryStore, S3Store

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


def test_a_record_comes_back_as_it_was_committed(log: EpochLog) -> None:
    assert log.offer(record(7)).accepted_as == "first"
    assert log.first("vwap", 0, epoch=7) == record(7)
    assert log.first("vwap", 0, epoch=8) is None
    assert log.first("vwap", 1, epoch=7) is None


def test_the_first_writer_wins_and_an_equal_copy_is_no_divergence(log: EpochLog) -> None:
    log.offer(record(1, producer="one"))
    outcome = log.offer(record(1, producer="two"))
    assert (outcome.accepted_as, outcome.divergence) == (None, None)
    held = log.first("vwap", 0, epoch=1)
    assert held is not None
    assert held.producer == "one"


def test_different_exact_rows_are_a_divergence_that_names_both_producers(log: EpochLog) -> None:
    log.offer(record(1, producer="one", value="a"))
    found = log.offer(record(1, producer="two", value="b")).divergence
    assert str(found) == ("divergence in epoch 1 of 'vwap' task 0: one committed 3 rows (a), two made 3 rows (b)")


@pytest.mark.parametrize("quality", [Quality.ABSENT, Quality.PREDICTED, Quality.TENTATIVE])
def test_an_exact_record_corrects_an_inexact_first_as_the_final(log: EpochLog, quality: Quality) -> None:
    log.offer(record(1, quality=quality, value="guess"))
    assert log.final("vwap", 0, epoch=1) is None
    assert log.offer(record(1)).accepted_as == "final"
    assert log.final("vwap", 0, epoch=1) == record(1)
    first = log.first("vwap", 0, epoch=1)
    assert first is not None
    assert first.quality is quality
    assert log.newest("vwap", 0, epoch=1) == record(1)


def test_a_late_inexact_record_changes_nothing(log: EpochLog) -> None:
    log.offer(record(1))
    assert log.offer(record(1, quality=Quality.PREDICTED, value="guess")).accepted_as is None
    assert log.final("vwap", 0, epoch=1) == record(1)


def test_two_finals_that_differ_are_a_divergence(log: EpochLog) -> None:
    log.offer(record(1, quality=Quality.ABSENT, value=""))
    log.offer(record(1, value="a"))
    assert log.offer(record(1, value="b")).divergence is not None


@given(length=st.integers(0, 70), after=st.integers(-1, 70))
def test_the_head_is_the_last_epoch_without_a_gap(length: int, after: int) -> None:
    log = EpochLog(Store(MemoryStore()))
    for epoch in range(length):
        log.offer(record(epoch))
    assert log.last_epoch("vwap", 0, after=after) == max(after, length - 1)


def test_the_head_is_found_in_a_number_of_lookups_that_hardly_grows() -> None:
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


def test_trimming_forgets_records_and_names_their_files(log: EpochLog) -> None:
    for epoch in range(4):
        log.offer(record(epoch))
    assert log.trim("vwap", 0, after=-1, until=1) == ["vwap-0-a.parquet", "vwap-1-a.parquet"]
    assert [log.first("vwap", 0, epoch=e) is None for e in range(4)] == [True, True, False, False]


@pytest.mark.parametrize("quality", [Quality.EXACT, Quality.PREDICTED])
def test_a_record_of_an_epoch_that_was_trimmed_is_not_taken(log: EpochLog, quality: Quality) -> None:
    for epoch in range(4):
        log.offer(record(epoch))
    log.trim("vwap", 0, after=-1, until=2)
    assert log.offer(record(1, quality=quality)) == OfferResult(None)
    assert (log.oldest_epoch("vwap", 0), log.trimmed_until("vwap", 0)) == (3, 2)
    assert log.offer(record(4)).accepted_as == "first"


def test_a_correction_of_an_epoch_that_is_trimmed_meanwhile_is_not_taken() -> None:
    class Trimming(Store):
        """Trims the epoch between the looks of whoever corrects it."""

        def read(self, name: str) -> bytes | None:
            found = super().read(name)
            if name.endswith("1.first") and self.armed:
                self.armed = False
                EpochLog(self).trim("vwap", 0, after=-1, until=1)
            return found

    store = Trimming(MemoryStore())
    store.armed = False
    log = EpochLog(store)
    log.offer(record(1, quality=Quality.ABSENT, value=""))
    store.armed = True
    assert log.offer(record(1)) == OfferResult(None)
    assert log.oldest_epoch("vwap", 0) is None


class Unsure(Store):
    """An object store whose answers are lost: asked again, it says that what it has just taken was there."""

    def create(self, name: str, content: bytes) -> bool:
        super().create(name, content)
        return False


@pytest.mark.parametrize(("before", "kind"), [(None, "first"), (Quality.ABSENT, "final")])
def test_a_record_that_is_found_where_it_was_to_be_created_has_been_taken(before: Quality | None, kind: str) -> None:
    memory = MemoryStore()
    if before is not None:
        EpochLog(Store(memory)).offer(record(1, quality=before, value=""))
    log = EpochLog(Unsure(memory))
    assert log.offer(record(1)) == OfferResult(kind)
    assert log.offer(record(1, producer="another")) == OfferResult(None)
    assert log.final("vwap", 0, epoch=1) == record(1)


def test_a_record_that_is_said_to_be_there_and_is_not_is_no_trimmed_one() -> None:
    class Denying(Store):
        def create(self, name: str, content: bytes) -> bool:
            return False

    log = EpochLog(Denying(MemoryStore()))
    with pytest.raises(LogError, match=r"says that epoch 1 of 'vwap' task 0 is there, and does not show it"):
        log.offer(record(1))
    log.trim("vwap", 0, after=-1, until=1)
    assert log.offer(record(1)) == OfferResult(None)


def test_what_was_trimmed_stays_trimmed_when_a_slower_trimmer_comes_behind(log: EpochLog) -> None:
    log.trim("vwap", 0, after=-1, until=7)
    log.trim("vwap", 0, after=-1, until=3)
    assert log.trimmed_until("vwap", 0) == 7


def test_a_streams_name_cannot_reach_outside_the_log(tmp_path: Path) -> None:
    log = EpochLog(Store(tmp_path / "log"))
    log.offer(record(1, stream="../../evil"))
    assert [p.name for p in tmp_path.iterdir()] == ["log"]
    assert log.first("../../evil", 0, epoch=1) is not None


def test_an_unwritable_root_is_told_in_words(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    with pytest.raises(HoldfastError, match=r"the log's root .* cannot be opened"):
        Store(blocked / "log")


@pytest.mark.parametrize(
    ("use", "said"),
    [
        (lambda store: store.create("a", b""), "cannot be written"),
        (lambda store: store.replace("a", b""), "cannot be written"),
        (lambda store: store.read("a"), "cannot be read"),
        (lambda store: store.remove(["a"]), "cannot be trimmed"),
        (lambda store: list(store.names("a/")), "cannot be listed"),
    ],
)
def test_a_store_that_is_away_is_told_in_words_whatever_is_asked_of_it(use: Callable[[Store], object], said: str) -> None:
    nowhere = S3Store(
        "logs",
        endpoint="http://127.0.0.1:1",
        region="us-east-1",
        access_key_id="a",
        secret_access_key="b",
        client_options={"allow_http": True},
        retry_config={"max_retries": 0},
    )
    with pytest.raises(LogError, match=rf"^the log at '.*' {said}: "):
        use(Store(nowhere))


def test_a_record_of_another_format_is_refused() -> None:
    with pytest.raises(HoldfastError, match="a format that this version does not read"):
        Record.decode(b'{"format": 99}')


def test_what_is_absent_has_no_rows() -> None:
    with pytest.raises(HoldfastError, match="has rows; what is absent has none"):
        Record("s", 0, 1, Quality.ABSENT, (), 5, None, None, "", "p")


KILLED = """
import os, sys
from holdfast.log import EpochLog, Quality, Record, Store
log = EpochLog(Store(sys.argv[1]))
epoch = 0
while True:
    log.offer(Record("s", 0, epoch, Quality.EXACT, ("x" * 4000,), 1, None, None, "c", "p"))
    epoch += 1
    if epoch == 50:
        print("going", flush=True)
"""


def test_a_writer_killed_at_any_moment_leaves_only_whole_records(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "going\n"
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    log = EpochLog(Store(tmp_path))
    head = log.last_epoch("s", 0, after=-1)
    assert head >= 49
    assert all(log.first("s", 0, epoch=epoch) is not None for epoch in range(head + 1))


# The second law, on the real log: whatever is killed, revived or stood in for, when all is quiet the final records are those of a
# run without faults. Replicas here add numbers instead of running Spark; everything else is the protocol.

EPOCHS = 8
READS = {"left": ("source",), "right": ("source",), "join": ("left", "right"), "end": ("join",)}


def made(stream: str, inputs: list[int], state: int) -> int:
    return (state * 31 + sum((n + 1) * (value + 7) for n, value in enumerate(inputs)) + len(stream)) % 1_000_003


def without_faults() -> dict[tuple[str, int], int]:
    values = {("source", e): 5 * e + 2 for e in range(EPOCHS)}
    state = dict.fromkeys(READS, 0)
    for epoch in range(EPOCHS):
        for stream, inputs in READS.items():
            values[stream, epoch] = state[stream] = made(stream, [values[i, epoch] for i in inputs], state[stream])
    return values


def entry(stream: str, epoch: int, quality: Quality, value: int | None) -> Record:
    checksum = "" if value is None else str(value)
    return Record(stream, 0, epoch, quality, (), 0 if value is None else 1, None, None, checksum, "p")


def value_of(found: Record) -> int:
    return int(found.checksum) if found.checksum else -1


class Replica:
    """Two heads: `clean` has run final records only, `live` whatever came first; they part while an input is inexact."""

    def __init__(self, stream: str, log: EpochLog, checkpoints: dict[str, tuple[int, int]]) -> None:
        self.stream, self.log, self.checkpoints = stream, log, checkpoints
        self.restart()

    def restart(self) -> None:
        self.clean = self.live = self.checkpoints.get(self.stream, (-1, 0))

    def step(self) -> bool:
        return self._run_clean() or self._run_live()

    def _run_clean(self) -> bool:
        epoch, state = self.clean[0] + 1, self.clean[1]
        found = [self.log.final(i, 0, epoch=epoch) for i in READS[self.stream]]
        if any(f is None for f in found):
            return False
        value = made(self.stream, [value_of(f) for f in found if f], state)
        assert self.log.offer(entry(self.stream, epoch, Quality.EXACT, value)).divergence is None
        self.clean = (epoch, value)
        self.live = self.clean if self.live[0] <= epoch else self.live
        return True

    def _run_live(self) -> bool:
        epoch, state = self.live[0] + 1, self.live[1]
        found = [self.log.first(i, 0, epoch=epoch) for i in READS[self.stream]]
        if any(f is None for f in found):
            return False
        value = made(self.stream, [value_of(f) for f in found if f], state)
        self.log.offer(entry(self.stream, epoch, Quality.TENTATIVE, value))
        self.live = (epoch, value)
        return True


@given(seed=st.integers(0, 10_000))
def test_the_second_law_holds_under_any_schedule_of_kills_and_stand_ins(seed: int) -> None:
    rng, log, checkpoints = random.Random(seed), EpochLog(Store(MemoryStore())), {}
    replicas = [Replica(stream, log, checkpoints) for stream in READS for _ in range(rng.choice([1, 1, 2]))]
    dead: set[int] = set()
    produced = 0
    for _ in range(rng.randint(30, 120)):
        number = rng.randrange(len(replicas))
        replica, act = replicas[number], rng.random()
        if act < 0.15 and produced < EPOCHS:
            log.offer(entry("source", produced, Quality.EXACT, 5 * produced + 2))
            produced += 1
        elif act < 0.65 and number not in dead:
            replica.step()
        elif act < 0.75:
            dead.add(number)
        elif act < 0.85 and number in dead:
            dead.remove(number)
            replica.restart()
        elif act < 0.95:
            epoch = log.last_epoch(replica.stream, 0, after=-1) + 1
            if all(log.first(i, 0, epoch=epoch) for i in READS[replica.stream]):
                quality = rng.choice([Quality.ABSENT, Quality.PREDICTED])
                log.offer(entry(replica.stream, epoch, quality, None if quality is Quality.ABSENT else rng.randint(0, 9)))
        elif number not in dead and replica.clean[0] > checkpoints.get(replica.stream, (-1, 0))[0]:
            checkpoints[replica.stream] = replica.clean
    for epoch in range(produced, EPOCHS):
        log.offer(entry("source", epoch, Quality.EXACT, 5 * epoch + 2))
    for number in dead:
        replicas[number].restart()
    while sum(replica.step() for replica in replicas):
        pass
    truth = without_faults()
    finals = {key: log.final(key[0], 0, epoch=key[1]) for key in truth}
    assert {key: value_of(found) for key, found in finals.items() if found} == truth
