"""The epoch log: the only interface between the parts of a running application.

An epoch of a stream's task has at most two records. The *first* is what was there in time. The *final* is exact; where the first
is exact it is the final one too. Both are created at most once, and the first writer wins. The log remembers up to which epoch it
was trimmed: a record that comes later than that is taken back.
"""

from dataclasses import dataclass
from urllib.parse import quote

from holdfast.errors import LogError
from holdfast.log.record import Quality, Record
from holdfast.log.store import Store


@dataclass(frozen=True)
class Divergence:
    """Two producers that made different exact rows of the same epoch from the same inputs: one of them is wrong.

    Inexact rows may differ: a replica that came back starts from clean kept rows, one that went on from tainted ones. So may those
    of a source with a reader, of which two incarnations see different batches.
    """

    held: Record
    offered: Record

    def __str__(self) -> str:
        held, late = self.held, self.offered
        return (
            f"divergence in epoch {held.epoch} of '{held.stream}' task {held.task}: {held.producer} committed "
            f"{held.rows} rows ({held.checksum}), {late.producer} made {late.rows} rows ({late.checksum})"
        )


@dataclass(frozen=True)
class OfferResult:
    """What became of an offered record: taken as first, as final, or not at all, and a divergence if there was one."""

    accepted_as: str | None
    divergence: Divergence | None = None


class EpochLog:
    """Commits and look-ups by name: their cost does not depend on how long the log is."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def offer(self, record: Record) -> OfferResult:
        """Commit a record: as the epoch's first, or, if it is exact and the first is not, as its final.

        Not at all where the epoch was trimmed: whoever makes it still, such as a replica that was stopped for a while, is
        behind everyone who could have wanted it.
        """
        kind = "first"
        held = self._create(record, kind)
        if held is not None and record.quality is Quality.EXACT and held.quality is not Quality.EXACT:
            kind = "final"
            held = self._create(record, kind)
        if held == record:
            return self._stands(record, kind)
        if held is None:
            return self._gone(record)
        same = held.quality is record.quality is Quality.EXACT and held.lineage == record.lineage
        differs = same and held.checksum != record.checksum
        return OfferResult(None, Divergence(held, record) if differs else None)

    def first(self, stream: str, task: int, *, epoch: int) -> Record | None:
        """What was there in time, or None while nothing is."""
        return self._read(stream, task, epoch, "first")

    def final(self, stream: str, task: int, *, epoch: int) -> Record | None:
        """The exact record of an epoch, or None while there is none."""
        record = self.first(stream, task, epoch=epoch)
        if record is None or record.quality is Quality.EXACT:
            return record
        return self._read(stream, task, epoch, "final")

    def newest(self, stream: str, task: int, *, epoch: int) -> Record | None:
        """The final record where there is one, else the first."""
        return self.final(stream, task, epoch=epoch) or self.first(stream, task, epoch=epoch)

    def last_epoch(self, stream: str, task: int, *, after: int) -> int:
        """The last epoch past `after` up to which every epoch has a first record; `after` itself if the next has none.

        Epochs are committed in order, so it is found by doubling and halving: look-ups grow with the logarithm of the distance.
        """
        step = 1
        while self.first(stream, task, epoch=after + step) is not None:
            step *= 2
        low, high = step // 2, step  # the epoch at after + low is there, the one at after + high is not
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.first(stream, task, epoch=after + middle) is not None else (low, middle)
        return after + low

    def last_exact_epoch(self, stream: str, task: int, *, after: int) -> int:
        """The last epoch past `after` up to which every epoch is exact: from there a producer has something to make good.

        Looks at every epoch up to the head; producers ask it once, when they start behind their checkpoint.
        """
        while self.final(stream, task, epoch=after + 1) is not None:
            after += 1
        return after

    def oldest_epoch(self, stream: str, task: int) -> int | None:
        """The oldest epoch that has a record, found by listing the names; None where there is none."""
        names = self._store.names(f"records/{quote(stream, safe='')}/{task}/")
        return min((int(name.rsplit("/", 1)[1].split(".")[0]) for name in names), default=None)

    def trimmed_until(self, stream: str, task: int) -> int | None:
        """The last epoch that was trimmed; None where none was."""
        content = self._store.read(_line(stream, task))
        return int(content) if content is not None else None

    def trim(self, stream: str, task: int, *, after: int, until: int) -> list[str]:
        """Forget the epochs past `after` up to and including `until`, and name the data files that nothing refers to any more."""
        line = self.trimmed_until(stream, task)
        if line is None or until > line:
            self._store.replace(_line(stream, task), str(until).encode())  # before anything goes: an offer looks there last
        files: list[str] = []
        for epoch in range(after + 1, until + 1):
            for kind in ("final", "first"):
                record = self._read(stream, task, epoch, kind)
                if record is not None:
                    files += record.files
                    self._store.remove([_name(stream, task, epoch, kind)])
        return files

    def _create(self, record: Record, kind: str) -> Record | None:
        """The record that stands after an offer. It may be the offered one although the store says that one was there: an object
        store whose answer was lost is asked again, and finds what it has taken. None: what was there is gone."""
        if self._store.create(_name(record.stream, record.task, record.epoch, kind), record.encode()):
            return record
        return self._read(record.stream, record.task, record.epoch, kind)

    def _stands(self, record: Record, kind: str) -> OfferResult:
        """What became of a record that was created; it is taken back where its epoch had been trimmed."""
        line = self.trimmed_until(record.stream, record.task)
        if line is None or record.epoch > line:
            return OfferResult(kind)
        self._store.remove([_name(record.stream, record.task, record.epoch, kind)])
        return OfferResult(None)

    def _gone(self, record: Record) -> OfferResult:
        """What became of a record in whose place one was that is there no more. Raises LogError unless it was trimmed meanwhile."""
        line = self.trimmed_until(record.stream, record.task)
        if line is None or record.epoch > line:
            where = f"epoch {record.epoch} of '{record.stream}' task {record.task}"
            raise LogError(f"the log at '{self._store.root}' says that {where} is there, and does not show it")
        return OfferResult(None)

    def _read(self, stream: str, task: int, epoch: int, kind: str) -> Record | None:
        content = self._store.read(_name(stream, task, epoch, kind))
        return Record.decode(content) if content is not None else None


def _line(stream: str, task: int) -> str:
    """Where it stands up to which epoch a task's stream was trimmed."""
    return f"trimmed/{quote(stream, safe='')}/{task}"


def _name(stream: str, task: int, epoch: int, kind: str) -> str:
    """Where a record stands: names of streams are quoted, so that none can reach outside the log."""
    return f"records/{quote(stream, safe='')}/{task}/{epoch:020d}.{kind}"
