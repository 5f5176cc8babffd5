"""A replica of a PE: it reads the records of its inputs from the log and commits records of its own streams.

It has two positions. The *clean* position follows final records; what is computed there is exact. The *live* position follows
first records. It runs ahead of the clean position only after inexact input; what is computed there is tentative. When final
records arrive, the clean position processes them as one Spark job. Once it has caught up, both positions are the same again.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from holdfast.documents.job import Task
from holdfast.engine.epochs import Span, join_spans
from holdfast.errors import HoldfastError, KeptRowsRemovedError, OperatorError, TrimmedError
from holdfast.log import Quality
from holdfast.log.position import Position, stored_files
from holdfast.runtime.input_reader import InputReader, Records
from holdfast.runtime.output_writer import OutputWriter
from holdfast.runtime.replica import CHECKPOINT_POLL_S, Replica, ReplicaContext
from holdfast.runtime.span_compute import SpanCompute
from holdfast.runtime.tentative_output import are_exact, qualities_without_correction

HANDOVER_EPOCHS = 2
"""A replica replays up to this many epochs itself, because asking another replica for a checkpoint would take longer. It also
waits about this many epochs for such a checkpoint."""

HANDOVER_POLL_S = 0.05


class PeReplica(Replica):
    """One replica of a PE's task. `taint_epochs`: see `qualities_without_correction`.

    `ascending` is whether the inputs are numbered together, so that rows must have a higher seq than those of earlier epochs.
    """

    _recovery_end: int | None

    def __init__(
        self,
        context: ReplicaContext,
        *,
        inputs: InputReader,
        output: OutputWriter,
        compute: SpanCompute,
        taint_epochs: int | None = None,
        ascending: bool = True,
    ) -> None:
        super().__init__(context, clock=output.time.elapsed_s)
        self._inputs, self.output, self._compute, self._taint_epochs = inputs, output, compute, taint_epochs
        self._ascending = ascending
        self._job_epochs_limit = compute.most_epochs
        self._limit_job_epochs_until = self._timeline.first - 1
        self._failures = 0
        self._worked_s = 0.0
        self._handover_deadline_s: float | None = None
        self._own_files: set[str] = set()
        self._start_recovery()

    @property
    def quality(self) -> Quality:
        is_clean = self.live_position.epoch == self.clean_position.epoch and self.live_position.tainted is None
        return Quality.EXACT if is_clean else Quality.TENTATIVE

    def set_rank(self, rank: int) -> None:
        """Let the primary and eager secondaries write at once, and a quiet secondary only if the primary is late."""
        super().set_rank(rank)
        is_quiet = rank > 0 and self.contract.secondary == "quiet"
        self.output.patience_s = self.contract.patience_s if is_quiet else 0.0

    def on_activation(self) -> None:
        """Request a fresh checkpoint from an active replica, to start from there instead of an old checkpoint.

        The replica replays the missing epochs itself if they are few, if no replica is active, or if none answers in time. It also
        does so under upstream backup, because it was then activated for the active replica's lateness.
        """
        if self.contract.protection == "upstream":
            return
        missing_epochs = 0 if self._recovery_end is None else self._recovery_end - self.clean_position.epoch
        if missing_epochs > HANDOVER_EPOCHS and self._is_another_active():
            self._checkpoints.request(self.task.name)
            epochs_s = HANDOVER_EPOCHS * self._timeline.epoch_s / self._timeline.speed
            self._handover_deadline_s = self._clock() + epochs_s + 2 * CHECKPOINT_POLL_S

    def step(self) -> bool:
        did_work = self._advance()
        unused = self._own_files - stored_files(self.clean_position) - stored_files(self.live_position)
        if unused:
            self.output.store.remove(sorted(unused))
            self._own_files -= unused
        return did_work

    def _advance(self) -> bool:
        if self._await_handover():
            return True
        if self._recovery_end is not None and self.live_position.epoch >= self._recovery_end:
            self.output.emit("recovered", {"task": self.task.name, "epoch": self.live_position.epoch})
            self._recovery_end = None
        if not self.contract.correction:
            return self._advance_without_correction()
        if self.live_position.epoch == self.clean_position.epoch:
            return self._advance_clean() or self._advance_live()
        advanced_live = self._advance_live()
        return self._advance_clean() or advanced_live

    def save(self) -> None:
        """Save a checkpoint. Emit how long that took (with the trimming that follows), and the working time since the last one."""
        since, start_s = self._saved_epoch, self._clock()
        if self.clean_position.epoch > since:
            stored = self._compute.stored(self.clean_position)
            if stored is None:
                return
            self._move_clean(stored)
        super().save()
        self._own_files -= stored_files(self.clean_position)  # they belong to the checkpoint now
        if self._saved_epoch == since:
            return
        self.output.emit(
            "checkpoint",
            {
                "task": self.task.name,
                "producer": self.output.producer,
                "since": since,
                "epoch": self._saved_epoch,
                "rows": sum(rows.num_rows for rows in self.clean_position.kept_rows.values()),
                "took_s": round(self._clock() - start_s, 6),
                "worked_s": round(self._worked_s, 6),
            },
        )
        self._worked_s = 0.0

    def close(self) -> None:
        self._compute.close()

    def _start_recovery(self) -> None:
        """Note up to which epoch the task has committed before. Without correction, skip the epochs that were missed."""
        clean = self.clean_position
        end = max(self.output.log.last_epoch(stream, self.task.task, after=clean.epoch) for stream in self.task.makes)
        self.output.emit("restored", {"task": self.task.name, "from": clean.epoch, "to": end})
        if not self.contract.correction and end > clean.epoch:
            self.clean_position = self.live_position = replace(clean, epoch=end, tainted=end)
        self._recovery_end = end

    def _is_another_active(self) -> bool:
        """Return whether another replica commits this task's streams now: they are at most one epoch behind the inputs."""
        after = max(self.clean_position.epoch, self._recovery_end or 0)
        last = self.output.log.last_epoch(self.task.makes[0], self.task.task, after=after)
        return self._inputs.first_records(last + 2) is None

    def _await_handover(self) -> bool:
        """Return whether to keep waiting for another replica's checkpoint. Move to that checkpoint once it is there."""
        if self._handover_deadline_s is None:
            return False
        if self._skip_to_newer_checkpoint() or self._clock() >= self._handover_deadline_s or not self._is_another_active():
            self._handover_deadline_s = None
            return False
        self.output.time.sleep(HANDOVER_POLL_S)
        return True

    def _skip_to_newer_checkpoint(self) -> bool:
        """Move to a newer checkpoint of another replica, if there is one; the log may be trimmed up to there."""
        if self._poll_newer_checkpoint() is None:
            return False
        saved = self._checkpoints.latest(self.task.name)
        if saved is None or saved.epoch <= self.clean_position.epoch:
            return False
        self._saved_epoch = saved.epoch
        self._move_clean(saved)
        return True

    def _move_clean(self, position: Position) -> None:
        """Move the clean position, and the live position with it unless that is further ahead."""
        self.clean_position = position
        if self.live_position.epoch <= position.epoch:
            self.live_position = position

    def _advance_clean(self) -> bool:
        epochs = self._next_epochs(self.clean_position.epoch, self._inputs.final_records)
        if not epochs:
            return self._skip_to_newer_checkpoint()
        self._move_clean(self._process(self.clean_position, epochs, [Quality.EXACT] * len(epochs)))
        self._save_if_due()
        return True

    def _advance_live(self) -> bool:
        epochs = self._next_epochs(self.live_position.epoch, self._inputs.first_records)
        if not epochs:
            return False
        if self.live_position.epoch == self.clean_position.epoch and are_exact(epochs[0]):
            return False  # the records became final since `_advance_clean` looked: it processes them in the next step
        self.live_position = self._process(self.live_position, epochs, [Quality.TENTATIVE] * len(epochs))
        return True

    def _advance_without_correction(self) -> bool:
        """Process first records at a single position, which notes how long incomplete input affects the kept rows."""
        position = self.live_position
        epochs = self._next_epochs(position.epoch, self._inputs.first_records)
        if not epochs:
            return self._skip_to_newer_checkpoint()
        qualities, tainted = qualities_without_correction(
            epochs, first_epoch=position.epoch + 1, tainted=position.tainted, taint_epochs=self._taint_epochs
        )
        self.clean_position = self.live_position = self._process(position, epochs, qualities, tainted=tainted)
        self._save_if_due()
        return True

    def _save_if_due(self) -> None:
        if self._is_checkpoint_due() or self._checkpoints.is_requested(self.task.name):
            self.save()

    def _next_epochs(self, after: int, read_records: Callable[[int], Records | None]) -> list[Records]:
        """Return the input records of the complete epochs that follow, as many as one Spark job may process."""
        epochs: list[Records] = []
        rows = 0
        while len(epochs) < self._job_epochs_limit and (self._timeline.last is None or after + len(epochs) < self._timeline.last):
            records = read_records(after + len(epochs) + 1)
            if records is None:
                break
            rows += sum(record.rows for record in records)
            if epochs and rows > self.contract.catch_up_rows:
                break
            epochs.append(records)
        return epochs

    def _process(
        self, position: Position, epochs: Sequence[Records], qualities: Sequence[Quality], *, tainted: int | None = None
    ) -> Position:
        """Run `_run_job` and add its duration to the work, without the time spent waiting for another replica's record."""
        start_s, waited_s = self._clock(), self.output.waited_s
        try:
            return self._run_job(position, epochs, qualities, tainted=tainted)
        finally:
            self._worked_s += self._clock() - start_s - (self.output.waited_s - waited_s)

    def _run_job(
        self, position: Position, epochs: Sequence[Records], qualities: Sequence[Quality], *, tainted: int | None
    ) -> Position:
        """Process several epochs as one Spark job and commit them in order.

        Return the position after them, with `tainted` as given; or the same position if the input was trimmed or the job failed.
        """
        spans: list[Span] = []
        after = position.after
        for epoch, records in enumerate(epochs, position.epoch + 1):
            if self._ascending and self.contract.correction and qualities[0] is Quality.EXACT:
                _require_new_seqs(self.task, records, after)
            until = max([after, *(record.last_seq for record in records if record.last_seq is not None)])
            spans.append(Span(epoch, epoch, after, until))
            after = until
        whole = join_spans(spans)
        try:
            computed = self._compute.run(epochs, spans, position)
        except TrimmedError:
            self._next_checkpoint_poll_s = 0.0  # another replica has passed these epochs and saved a checkpoint
            return position
        except KeptRowsRemovedError:
            self._start_from_checkpoint()
            return self.clean_position
        except OperatorError as error:
            self._handle_failure(error, whole)
            return position
        self.rows_read += computed.rows_read
        self._failures = 0
        if whole.last >= self._limit_job_epochs_until:
            self._job_epochs_limit = self._compute.most_epochs
        for number, (span, quality, records) in enumerate(zip(spans, qualities, epochs, strict=True)):
            lineage = tuple(f"{r.stream}/{r.task} {r.quality.value} by {r.producer}" for r in records)
            for stream, parts in computed.output.items():
                self.output.publish(stream, span.first, rows=parts[number], quality=quality, lineage=lineage)
        after_job = Position(whole.last, computed.kept_rows, whole.until, tainted)
        self._own_files |= stored_files(after_job) - stored_files(position)
        return after_job

    def _handle_failure(self, error: OperatorError, span: Span) -> None:
        """Halve the epochs of the next jobs to find the one that fails. Raise HoldfastError when its retries are used up."""
        if span.last > span.first:
            self._job_epochs_limit = (span.last - span.first + 1) // 2
            self._limit_job_epochs_until = max(self._limit_job_epochs_until, span.last)
            return
        self._failures += 1
        if self._failures > self.contract.retries:
            raise HoldfastError(
                f"{error} (epoch {span.first}, input rows with seq {span.after + 1} to {span.until}, tried {self._failures} times)"
            ) from error


def _require_new_seqs(task: Task, records: Records, after: int) -> None:
    """Raise HoldfastError if exact rows are not numbered after those of earlier epochs: operators would take them for old rows."""
    for record in records:
        if record.quality is Quality.EXACT and record.first_seq is not None and record.first_seq <= after:
            raise HoldfastError(
                f"task '{task.name}' reads stream '{record.stream}', whose epoch {record.epoch} begins with seq "
                f"{record.first_seq}, after rows up to seq {after} in earlier epochs: its inputs are numbered independently, so "
                "that rows would be lost; let one job feed all of them"
            )
