"""One replica of a task: it follows the log of its inputs and writes its own.

It has two heads. *clean* has gone over final records only, and makes exact records. *live* has gone over first records, and
differs from clean only while something inexact was read: what it makes then is tentative. When final records come, clean
follows them from where it stood, as one Spark job, and once it has caught up the two are one again.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

import pyarrow as pa

from holdfast.documents.job import Contract, Task
from holdfast.engine.epochs import Span
from holdfast.engine.first_law import rows_of
from holdfast.errors import HoldfastError, OperatorError, TrimmedError
from holdfast.log import Quality
from holdfast.log.checkpoints import Checkpoints
from holdfast.log.position import Position
from holdfast.log.timeline import Timeline
from holdfast.runtime.input_reader import InputReader, Records
from holdfast.runtime.output_writer import OutputWriter

MOST_EPOCHS = 1_000
"""The most epochs of one job: what a catch-up job reads is bounded by rows, and by this where rows are few."""

LOOK_S = 1.0
"""How often a replica that has nothing to do looks whether another has left it behind."""

FEW_EPOCHS = 2
"""So many epochs are replayed sooner than another replica hands over what it keeps; and so many it is given for that."""
WAIT_S = 0.05


class Compute(Protocol):
    """What a task does to its inputs: a span of epochs from a head's kept rows, to the rows made and the rows kept."""

    def run(self, new: dict[str, pa.Table], head: Position, span: Span) -> tuple[dict[str, pa.Table], dict[str, pa.Table]]: ...


class PeReplica:
    """The loop's body: `step` does the next thing that can be done, if there is one.

    `fades` is after how many epochs an incomplete input no longer shows in the kept rows; None: never.
    """

    def __init__(
        self,
        task: Task,
        contract: Contract,
        *,
        inbox: InputReader,
        outbox: OutputWriter,
        compute: Compute,
        checkpoints: Checkpoints,
        timeline: Timeline,
        fades: int | None = None,
        checkpointed: Callable[[int], None] = lambda epoch: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.task, self.contract = task, contract
        self._inbox, self.outbox, self._compute = inbox, outbox, compute
        self._checkpoints, self._timeline, self._fades = checkpoints, timeline, fades
        self._checkpointed, self._clock = checkpointed, clock
        self._most_epochs = MOST_EPOCHS
        self._failures = 0
        self._wary_to = timeline.first - 1
        self.saves_every = contract.checkpoint_epochs
        self.rows_read = 0
        self._worked_s = 0.0
        self._looks_again_s = 0.0
        self._given_until_s: float | None = None
        self.restore()

    def restore(self) -> None:
        """Start from the newest checkpoint, or from nothing. Without correction what was missed meanwhile is skipped."""
        saved = self._checkpoints.latest(self.task.name)
        self.clean = self.live = saved or Position(self._timeline.first - 1)
        self._saved = self.clean.epoch
        before = max(self.outbox.log.last_epoch(s, self.task.task, after=self.clean.epoch) for s in self.task.makes)
        self.outbox.tell("restored", {"task": self.task.name, "from": self.clean.epoch, "to": before})
        if not self.contract.correction and before > self.clean.epoch:
            self.clean = self.live = replace(self.clean, epoch=before, tainted=before)
        self._recovers_to: int | None = before

    def take_over(self) -> None:
        """Start from what a replica that is active keeps now, and not from its last checkpoint, which may be old: ask it for one.

        For a replica that was idle. Where nobody makes the task's stream now, what is missing is replayed at once; so it is where
        that is little, and where nobody answers.
        """
        behind = 0 if self._recovers_to is None else self._recovers_to - self.clean.epoch
        if behind > FEW_EPOCHS and self._is_made():
            self._checkpoints.request(self.task.name)
            self._given_until_s = self._clock() + FEW_EPOCHS * self._timeline.epoch_s / self._timeline.speed + 2 * LOOK_S

    def _is_made(self) -> bool:
        """Whether somebody makes this task's stream now: it is at most an epoch behind its inputs."""
        stream = self.task.makes[0]
        head = self.outbox.log.last_epoch(stream, self.task.task, after=max(self.clean.epoch, self._recovers_to or 0))
        return self._inbox.firsts(head + 2) is None

    @property
    def finished(self) -> bool:
        """Whether the last epoch of the job has been done from final records."""
        return self._timeline.last is not None and self.clean.epoch >= self._timeline.last

    @property
    def quality(self) -> Quality:
        return Quality.EXACT if self.live.epoch == self.clean.epoch and self.live.tainted is None else Quality.TENTATIVE

    def step(self) -> bool:
        """Do what can be done next; whether there was anything."""
        if self._is_waiting():
            return True
        if self._recovers_to is not None and self.live.epoch >= self._recovers_to:
            self.outbox.tell("recovered", {"task": self.task.name, "epoch": self.live.epoch})
            self._recovers_to = None
        if not self.contract.correction:
            return self._go_on()
        if self.live.epoch == self.clean.epoch:
            return self._advance_clean() or self._advance_live()
        ahead = self._advance_live()
        return self._advance_clean() or ahead

    def save(self) -> None:
        """Store the clean head, so that a replica started elsewhere need not begin further back.

        The history is told what that took, with what upstream forgets because of it, beside the work since the one before.
        """
        if self.clean.epoch <= self._saved:
            return
        begun, since = self._clock(), self._saved
        self._checkpoints.save(self.task.name, self.clean)
        self._saved = self.clean.epoch
        self._checkpointed(self._saved)
        self.outbox.tell(
            "checkpoint",
            {
                "task": self.task.name,
                "producer": self.outbox.producer,
                "since": since,
                "epoch": self._saved,
                "rows": sum(table.num_rows for table in self.clean.kept.values()),
                "took_s": round(self._clock() - begun, 6),
                "worked_s": round(self._worked_s, 6),
            },
        )
        self._worked_s = 0.0

    def close(self) -> None:
        """Nothing is held that would outlive the loop."""

    def _advance_clean(self) -> bool:
        epochs = self._ready(self.clean.epoch, self._inbox.finals)
        if not epochs:
            return self._skipped()
        self.clean = self._run(self.clean, epochs, [Quality.EXACT] * len(epochs))
        if self.live.epoch <= self.clean.epoch:
            self.live = self.clean
        self._save_if_due()
        return True

    def _advance_live(self) -> bool:
        epochs = self._ready(self.live.epoch, self._inbox.firsts)
        if not epochs:
            return False
        if self.live.epoch == self.clean.epoch and all(record.quality is Quality.EXACT for record in epochs[0]):
            return False  # it became final between two looks: the clean head will take it
        self.live = self._run(self.live, epochs, [Quality.TENTATIVE] * len(epochs))
        return True

    def _go_on(self) -> bool:
        """Without correction there is one head; it goes over first records and remembers for how long they were incomplete."""
        epochs = self._ready(self.live.epoch, self._inbox.firsts)
        if not epochs:
            return self._skipped()
        tainted, qualities = self.live.tainted, []
        for number, records in enumerate(epochs, self.live.epoch + 1):
            if any(record.quality is not Quality.EXACT for record in records):
                tainted = number
            elif tainted is not None and self._fades is not None and number - tainted > self._fades:
                tainted = None
            qualities.append(Quality.EXACT if tainted is None else Quality.TENTATIVE)
        self.clean = self.live = self._run(self.live, epochs, qualities, tainted=tainted)
        self._save_if_due()
        return True

    def _save_if_due(self) -> None:
        due = self.clean.epoch - self._saved >= self.saves_every
        if due or self.finished or self._checkpoints.is_requested(self.task.name):
            self.save()

    def _is_waiting(self) -> bool:
        """Whether another replica is still given time to hand over what it keeps. Where it has, this one starts from there."""
        if self._given_until_s is None:
            return False
        if self._skipped() or self._clock() >= self._given_until_s or not self._is_made():
            self._given_until_s = None
            return False
        time.sleep(WAIT_S)
        return True

    def _skipped(self) -> bool:
        """Jump to a newer checkpoint of another replica where there is one: the log may be trimmed up to there."""
        if self._clock() < self._looks_again_s:
            return False
        self._looks_again_s = self._clock() + LOOK_S
        newest = self._checkpoints.latest_epoch(self.task.name)
        if newest is None or newest <= self.clean.epoch:
            return False
        saved = self._checkpoints.latest(self.task.name)
        if saved is None or saved.epoch <= self.clean.epoch:
            return False
        self.clean, self._saved = saved, saved.epoch
        if self.live.epoch <= self.clean.epoch:
            self.live = self.clean
        return True

    def _ready(self, after: int, look: Callable[[int], Records | None]) -> list[Records]:
        """The records of the epochs that can be done next, as many as one job may take."""
        found: list[Records] = []
        rows = 0
        while len(found) < self._most_epochs and (self._timeline.last is None or after + len(found) < self._timeline.last):
            records = look(after + len(found) + 1)
            if records is None:
                break
            rows += sum(record.rows for record in records)
            if found and rows > self.contract.catch_up_rows:
                break
            found.append(records)
        return found

    def _run(
        self, head: Position, epochs: Sequence[Records], qualities: Sequence[Quality], *, tainted: int | None = None
    ) -> Position:
        """What `_job` makes of it, and the time that takes; waiting for another replica is no work."""
        begun, waited_s = self._clock(), self.outbox.waited_s
        try:
            return self._job(head, epochs, qualities, tainted=tainted)
        finally:
            self._worked_s += self._clock() - begun - (self.outbox.waited_s - waited_s)

    def _job(self, head: Position, epochs: Sequence[Records], qualities: Sequence[Quality], *, tainted: int | None) -> Position:
        """One job over a run of epochs, and its commits in order: the head after them, or the same one where it came to nothing.

        `tainted` is what the head after them is to say of its kept rows."""
        ends: list[int] = []
        after = head.after
        for records in epochs:
            after = max([after, *(record.last_seq for record in records if record.last_seq is not None)])
            ends.append(after)
        span = Span(head.epoch + 1, head.epoch + len(epochs), head.after, after)
        try:
            new = self._inbox.rows(epochs)
        except TrimmedError:
            self._looks_again_s = 0.0  # another replica has gone past it, and left a checkpoint
            return head
        self.rows_read += sum(table.num_rows for table in new.values())
        try:
            made, kept = self._compute.run(new, head, span)
        except OperatorError as error:
            self._failed(error, span)
            return head
        self._failures = 0
        if span.last >= self._wary_to:
            self._most_epochs = MOST_EPOCHS
        before = head.after
        for number, (end, quality, records) in enumerate(zip(ends, qualities, epochs, strict=True), span.first):
            lineage = tuple(f"{r.stream}/{r.task} {r.quality.value} by {r.producer}" for r in records)
            each = Span(number, number, before, end)
            for stream, rows in made.items():
                mine = rows if len(epochs) == 1 else rows_of(rows, each)
                self.outbox.publish(stream, number, rows=mine, quality=quality, lineage=lineage)
            before = end
        return Position(span.last, kept, after, tainted)

    def _failed(self, error: OperatorError, span: Span) -> None:
        """Try again with half as many epochs, until the one at fault is found, and give up on that after the contract's retries."""
        if span.last > span.first:
            self._most_epochs, self._wary_to = (span.last - span.first + 1) // 2, max(self._wary_to, span.last)
            return
        self._failures += 1
        if self._failures > self.contract.retries:
            raise HoldfastError(
                f"{error} (epoch {span.first}, input rows with seq {span.after + 1} to {span.until}, tried {self._failures} times)"
            ) from error
