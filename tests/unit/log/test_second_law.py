"""The second law on the real log: after random faults the final records equal those of a run without faults.

The replicas here add numbers instead of running Spark. Everything else is the protocol.
"""

import random

from hypothesis import given
from hypothesis import strategies as st
from obstore.store import MemoryStore

from holdfast.log import EpochLog, Quality, Record, Store

EPOCHS = 8
READS = {"left": ("source",), "right": ("source",), "join": ("left", "right"), "end": ("join",)}


def compute(stream: str, inputs: list[int], state: int) -> int:
    return (state * 31 + sum((n + 1) * (value + 7) for n, value in enumerate(inputs)) + len(stream)) % 1_000_003


def golden_values() -> dict[tuple[str, int], int]:
    values = {("source", e): 5 * e + 2 for e in range(EPOCHS)}
    state = dict.fromkeys(READS, 0)
    for epoch in range(EPOCHS):
        for stream, inputs in READS.items():
            values[stream, epoch] = state[stream] = compute(stream, [values[i, epoch] for i in inputs], state[stream])
    return values


def record(stream: str, epoch: int, quality: Quality, value: int | None) -> Record:
    checksum = "" if value is None else str(value)
    return Record(stream, 0, epoch, quality, (), 0 if value is None else 1, None, None, checksum, "p")


def value_of(record: Record) -> int:
    return int(record.checksum) if record.checksum else -1


class Replica:
    """A replica with two positions of (epoch, state): `clean` follows final records, `live` first records."""

    def __init__(self, stream: str, log: EpochLog, checkpoints: dict[str, tuple[int, int]]) -> None:
        self.stream, self.log, self.checkpoints = stream, log, checkpoints
        self.restart()

    def restart(self) -> None:
        self.clean = self.live = self.checkpoints.get(self.stream, (-1, 0))

    def step(self) -> bool:
        return self._advance_clean() or self._advance_live()

    def _advance_clean(self) -> bool:
        epoch, state = self.clean[0] + 1, self.clean[1]
        records = [self.log.final(i, 0, epoch=epoch) for i in READS[self.stream]]
        if None in records:
            return False
        value = compute(self.stream, [value_of(record) for record in records if record], state)
        assert self.log.offer(record(self.stream, epoch, Quality.EXACT, value)).divergence is None
        self.clean = (epoch, value)
        self.live = self.clean if self.live[0] <= epoch else self.live
        return True

    def _advance_live(self) -> bool:
        epoch, state = self.live[0] + 1, self.live[1]
        records = [self.log.first(i, 0, epoch=epoch) for i in READS[self.stream]]
        if None in records:
            return False
        value = compute(self.stream, [value_of(record) for record in records if record], state)
        self.log.offer(record(self.stream, epoch, Quality.TENTATIVE, value))
        self.live = (epoch, value)
        return True


@given(seed=st.integers(0, 10_000))
def test_second_law_holds_under_random_faults(seed: int) -> None:
    rng, log, checkpoints = random.Random(seed), EpochLog(Store(MemoryStore())), {}
    replicas = [Replica(stream, log, checkpoints) for stream in READS for _ in range(rng.choice([1, 1, 2]))]
    dead: set[int] = set()
    produced = 0
    for _ in range(rng.randint(30, 120)):
        number = rng.randrange(len(replicas))
        replica, act = replicas[number], rng.random()
        if act < 0.15 and produced < EPOCHS:
            log.offer(record("source", produced, Quality.EXACT, 5 * produced + 2))
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
                log.offer(record(replica.stream, epoch, quality, None if quality is Quality.ABSENT else rng.randint(0, 9)))
        elif number not in dead and replica.clean[0] > checkpoints.get(replica.stream, (-1, 0))[0]:
            checkpoints[replica.stream] = replica.clean
    for epoch in range(produced, EPOCHS):
        log.offer(record("source", epoch, Quality.EXACT, 5 * epoch + 2))
    for number in dead:
        replicas[number].restart()
    while sum(replica.step() for replica in replicas):
        pass
    golden = golden_values()
    finals = {key: log.final(key[0], 0, epoch=key[1]) for key in golden}
    assert {key: value_of(record) for key, record in finals.items() if record} == golden
