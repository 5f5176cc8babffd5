"""The epoch log: the only interface between the parts of a running application.

An epoch of a task's stream has at most two records. The *first* record is what was available in time. The *final* record is exact;
if the first record is exact, it is also the final one. Each is created at most once, and the first writer wins. The log remembers
up to which epoch a stream was trimmed. A record offered for a trimmed epoch is withdrawn. A fence ends what a canceled job may
write (`fences.py`).
"""

from dataclasses import dataclass

from holdfast.errors import LogError
from holdfast.log.fences import Fences, decode_fence, encode_fence
from holdfast.log.object_names import quoted
from holdfast.log.record import Quality, Record
from holdfast.log.store import Store


@dataclass(frozen=True)
class Divergence:
    """Two producers computed different exact rows for the same epoch from the same inputs, so one of them is wrong.

    Inexact rows may differ, because a restarted replica begins with clean kept rows and a running one may have tainted rows. The
    rows of a source with a reader may differ too, because two incarnations read different batches.
    """

    committed: Record
    offered: Record

    def __str__(self) -> str:
        committed, offered = self.committed, self.offered
        return (
            f"divergence in epoch {committed.epoch} of '{committed.stream}' task {committed.task}: {committed.producer} committed "
            f"{committed.rows} rows ({committed.checksum}), {offered.producer} computed {offered.rows} rows ({offered.checksum})"
        )


@dataclass(frozen=True)
class OfferResult:
    """The result of an offer: the record was accepted as "first" or "final", or not (None); and a divergence if there is one."""

    accepted_as: str | None
    divergence: Divergence | None = None


class EpochLog:
    """Commits and looks up records by name. The cost does not depend on the length of the log."""

    def __init__(self, store: Store) -> None:
        self._store, self._fences = store, Fences(store)

    def offer(self, record: Record) -> OfferResult:
        """Commit a record as the first one of its epoch, or as the final one if it is exact and the first one is not.

        A record of a trimmed epoch is not accepted. Its producer, for example a replica that was stopped for a while, is behind all
        consumers.
        """
        kind = "first"
        committed = self._create(record, kind)
        if committed is not None and record.quality is Quality.EXACT and committed.quality is not Quality.EXACT:
            kind = "final"
            committed = self._create(record, kind)
        if committed == record:
            return self._withdraw_if_trimmed(record, kind)
        if committed is None:
            self._require_trimmed(record)
            return OfferResult(None)
        are_comparable = committed.quality is record.quality is Quality.EXACT and committed.lineage == record.lineage
        differ = are_comparable and committed.checksum != record.checksum
        return OfferResult(None, Divergence(committed, record) if differ else None)

    def first(self, stream: str, task: int, *, epoch: int) -> Record | None:
        """Return the first record of an epoch, or None if there is none yet."""
        return self._read(stream, task, epoch, "first")

    def final(self, stream: str, task: int, *, epoch: int) -> Record | None:
        """Return the final record of an epoch, or None if there is none yet."""
        record = self.first(stream, task, epoch=epoch)
        if record is None or record.quality is Quality.EXACT:
            return record
        return self._read(stream, task, epoch, "final")

    def newest(self, stream: str, task: int, *, epoch: int) -> Record | None:
        """Return the final record of an epoch if there is one, else the first one."""
        return self.final(stream, task, epoch=epoch) or self.first(stream, task, epoch=epoch)

    def last_epoch(self, stream: str, task: int, *, after: int) -> int:
        """Return the last epoch, from `after` on, up to which every epoch has a first record; `after` if the next one has none.

        Epochs are committed in order, so a binary search finds it: the look-ups grow with the logarithm of the distance.
        """
        step = 1
        while self.first(stream, task, epoch=after + step) is not None:
            step *= 2
        low, high = step // 2, step  # epoch after + low has a record, epoch after + high has none
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.first(stream, task, epoch=after + middle) is not None else (low, middle)
        return after + low

    def last_exact_epoch(self, stream: str, task: int, *, after: int) -> int:
        """Return the last epoch, from `after` on, up to which every epoch is exact. A producer has to correct the epochs past it.

        This reads a record of each epoch. A producer calls it once, when it starts.
        """
        while self.final(stream, task, epoch=after + 1) is not None:
            after += 1
        return after

    def oldest_epoch(self, stream: str, task: int) -> int | None:
        """Return the oldest epoch that has a record, by listing all names; None if there is none."""
        names = self._store.names(f"records/{quoted(stream)}/{task}/")
        return min((int(name.rsplit("/", 1)[1].split(".")[0]) for name in names), default=None)

    def trimmed_until(self, stream: str, task: int) -> int | None:
        """Return the last epoch that was trimmed or may be trimmed at any moment; None if there is none."""
        return max(self._trim_lines(stream, task), default=None)

    def announce_trim(self, stream: str, task: int, *, until: int) -> None:
        """Note that epochs up to and including `until` may be removed from now on: no job may join there, no record be offered.

        Each announcement is an object of its own and the highest one counts, so a slower trimmer cannot move the line back. The
        one before it is kept, for those who are listing the lines.
        """
        lines = self._trim_lines(stream, task)
        if until > max(lines, default=until - 1):
            self._store.create(_trim_line_name(stream, task, until), b"")
            self._store.remove([_trim_line_name(stream, task, line) for line in sorted(lines)[:-1]])

    def trim(self, stream: str, task: int, *, after: int, until: int) -> list[str]:
        """Remove the records of the epochs past `after` up to and including `until`. Return the row files that they named."""
        self.announce_trim(stream, task, until=until)  # first, because an offer reads it last
        files: list[str] = []
        for epoch in range(after + 1, until + 1):
            for kind in ("final", "first"):
                record = self._read(stream, task, epoch, kind)
                if record is not None:
                    files += record.files
                    self._store.remove([self._name(stream, task, epoch, kind)])
        return files

    def fence(self, stream: str, task: int, *, owner: str, after: int) -> None:
        """End what a job may write to a task's stream: none of its records past the present last epoch will count.

        `after` is an epoch before the first one that may have been written.
        """
        self._fences.load()
        epoch = max(after, self.trimmed_until(stream, task) or after)
        while not self._fences.has(stream, task, owner):
            epoch = self.last_epoch(stream, task, after=epoch) + 1  # finds the fence of a fencer that died before it noted it
            if not self._fences.has(stream, task, owner) and self._store.create(
                self._name(stream, task, epoch, "first"), encode_fence(owner)
            ):
                self._fences.note(stream, task, epoch=epoch, owner=owner)

    def is_trimmed(self, record: Record) -> bool:
        """Return whether the record's epoch was trimmed."""
        trimmed = self.trimmed_until(record.stream, record.task)
        return trimmed is not None and record.epoch <= trimmed

    def _create(self, record: Record, kind: str) -> Record | None:
        """Create a record unless there is one, and return the one that is in the log; None if that was removed meanwhile.

        An object store whose answer was lost is asked again, and then reports its own new object as existing. The returned record
        therefore equals the offered one exactly if the offer succeeded.
        """
        while True:
            name = self._name(record.stream, record.task, record.epoch, kind)
            if self._store.create(name, record.encode()):
                return record
            committed = self._read(record.stream, record.task, record.epoch, kind)
            if committed is not None or name == self._name(record.stream, record.task, record.epoch, kind):
                return committed  # else the name was taken by a fence, and the next one is free

    def _withdraw_if_trimmed(self, record: Record, kind: str) -> OfferResult:
        """Keep the created record, or withdraw it if its epoch was trimmed meanwhile."""
        if not self.is_trimmed(record):
            return OfferResult(kind)
        self._store.remove([self._name(record.stream, record.task, record.epoch, kind)])
        return OfferResult(None)

    def _require_trimmed(self, record: Record) -> None:
        """Raise LogError unless the record that prevented the offer has been trimmed."""
        if not self.is_trimmed(record):
            name = f"epoch {record.epoch} of '{record.stream}' task {record.task}"
            raise LogError(f"the log at '{self._store.root}' reports that {name} exists, but does not return it")

    def _trim_lines(self, stream: str, task: int) -> list[int]:
        """Return the announced trim lines, in no particular order. The highest one counts."""
        lines: list[int] = []
        for name in self._store.names(_trim_line_folder(stream, task)):
            try:
                lines.append(int(name.rsplit("/", 1)[1]))
            except ValueError as error:
                raise self._store.damage(name, error) from error
        return lines

    def _read(self, stream: str, task: int, epoch: int, kind: str) -> Record | None:
        while True:
            name = self._name(stream, task, epoch, kind)
            content = self._store.read(name)
            if content is None:
                self._fences.count_empty_read()
                return None
            try:
                owner = decode_fence(content)
                if owner is None:
                    return Record.decode(content)
            except ValueError as error:
                raise self._store.damage(name, error) from error
            self._fences.note(stream, task, epoch=epoch, owner=owner)  # the epoch's record has the next name

    def _name(self, stream: str, task: int, epoch: int, kind: str) -> str:
        """Return the name of a record's object: another one after each fence. Raises FencedOffError if this job was fenced off."""
        section = self._fences.section(stream, task, epoch)
        return f"{_record_name(stream, task, epoch, kind)}{f'.{section}' if section else ''}"


def _trim_line_folder(stream: str, task: int) -> str:
    return f"trimmed/{quoted(stream)}/{task}/"


def _trim_line_name(stream: str, task: int, epoch: int) -> str:
    """Return the name of the object that says that a task's stream may be trimmed up to an epoch."""
    return f"{_trim_line_folder(stream, task)}{epoch:020d}"


def _record_name(stream: str, task: int, epoch: int, kind: str) -> str:
    """Return the name of a record's object."""
    return f"records/{quoted(stream)}/{task}/{epoch:020d}.{kind}"
