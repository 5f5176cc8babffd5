"""A prediction agent (ISORC'16, section IV-B): watches one task through the epoch log and predicts the epochs it is late with."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from typing import Any

from holdfast.documents.job import Contract, Task
from holdfast.errors import CompoundError
from holdfast.log import EpochLog, Quality, Record, Store
from holdfast.log.timeline import Timeline, by_own_clock
from holdfast.prediction.agent.task_inputs import TaskInput
from holdfast.prediction.agent.watched_stream import WatchedStream
from holdfast.prediction.contract_terms import lateness_terms
from holdfast.prediction.lateness_monitor import RECENT, LatenessMonitor, OverdueEpoch
from holdfast.prediction.prediction import Prediction
from holdfast.runtime.output_writer import OutputWriter

POLL_S = 0.05
"""How often an agent reads the log after it has handed over, or while it cannot predict an overdue epoch."""
LATE_POLL_S = 0.02
"""How often it reads the log while its PE is late: it then waits for inputs, like the PE."""
CALM_POLL_S, CALM_SHARE = 0.2, 0.25
"""How often it reads the log while its PE is in time, and the greatest share of the waiting time between two reads. So it reads an
input long before its output can be overdue."""
OWN = (Quality.EXACT, Quality.TENTATIVE)
"""The qualities of records that only the task itself writes."""


class PredictionAgent:
    """Watches a task through the log alone, so it needs no message from the task and does not stall with it.

    `given` is the contract that the agent started with, `contract` the one after changes. `step` does all that can be done now.
    Errors of an algorithm are handled. If a stream cannot be predicted at all, `error` says why, and the task runs unprotected.
    Deadlines count by `clock`, which never jumps. The commit times of records are converted to it when they are read.
    """

    def __init__(
        self,
        task: Task,
        contract: Contract,
        *,
        keys: Mapping[str, Sequence[str]],
        outbox: OutputWriter,
        stores: Sequence[Store],
        trainer: Executor,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
        timer: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.task, self.job_contract, self.contract = task, contract, contract
        self._outbox, self._clock, self._wall_clock = outbox, clock, wall_clock
        self.timeline: Timeline = outbox.timeline
        self._log = outbox.log
        self._inputs = [TaskInput(r, s, number) for r, s in zip(task.reads, stores, strict=True) for number in r.tasks]
        self.monitor = LatenessMonitor(lateness_terms(contract, self._epoch_s), [task_input.label for task_input in self._inputs])
        contract_keys = contract.predicting.keys
        keys = keys if contract_keys is None else dict.fromkeys(task.makes, contract_keys)
        self.streams = [
            WatchedStream(
                name,
                task.task,
                store=outbox.store,
                keys=keys[name],
                contract=contract,
                trainer=trainer,
                inputs=self._inputs,
                timer=timer,
            )
            for name in task.makes
        ]
        self.error: str | None = None
        self.why = ""
        self.predicted = self.corrected = self.abstained = 0
        self._abstained_at: tuple[int, ...] = ()
        self._newest_exact = -1
        self._uncorrected: set[int] = set()
        self._seqs: dict[int, tuple[int, int]] = {}
        self._last_seq: int | None = None
        self._missing_s: float | None = None
        self._next = self._first_epoch()

    @property
    def state(self) -> str:
        """What the agent does: learning (no output observed yet), watching, predicting, handed over, or broken."""
        if self.error is not None:
            return "broken"
        if self.monitor.hand_over:
            return "handed over"
        if self.monitor.predicted_in_a_row:
            return "predicting"
        return "watching" if all(stream.predictor is not None for stream in self.streams) else "learning"

    def step(self) -> float:
        """Do what is due, and return the seconds after which to call again."""
        self._read_inputs()
        self._read_outputs()
        if self.error is None:
            try:
                self._learn()
                self._predict_overdue()
            except CompoundError as error:
                self.error = str(error)  # its columns cannot be predicted, and no later epoch changes that
        return self._pause_s()

    def change(self, contract: Contract) -> None:
        """Continue under another contract. Algorithms that stay keep what they learned."""
        self.monitor.terms = lateness_terms(contract, self._epoch_s)
        self.contract, self._abstained_at = contract, ()
        for stream in self.streams:
            stream.change(contract)

    def save(self) -> None:
        """Save what was learned, for the next agent of this task."""
        for stream in self.streams:
            stream.save()

    def view(self) -> Callable[[], dict[str, Any]]:
        """Return a function that describes the agent to the agent manager. Call it in any thread: it does not delay the steps."""
        monitor, streams = self.monitor, {stream.name: stream.view() for stream in self.streams}
        summary = {
            "task": self.task.name,
            "state": self.state,
            "error": self.error,
            "why": self.why,
            "epoch": self._next - 1,
            "deadline_s": monitor.terms.due_s,
            "usual_s": monitor.usual_s,
            "slowest_s": monitor.slowest_s,
            "outputs": monitor.outputs,
            "misses": monitor.misses,
            "predicted": self.predicted,
            "predicted_in_a_row": monitor.predicted_in_a_row,
            "corrected": self.corrected,
            "abstained": self.abstained,
        }
        return lambda: {**summary, "streams": {name: build() for name, build in streams.items()}}

    def _pause_s(self) -> float:
        """Return the time until the next step. An epoch that is still overdue now could not be predicted."""
        due_s = None if self.error is not None else self.monitor.next_s()
        if due_s is None:
            return self._poll_s
        remaining_s = due_s - self._clock()
        return min(self._poll_s, POLL_S) if remaining_s <= 0 else min(self._poll_s, max(0.005, remaining_s))

    @property
    def _poll_s(self) -> float:
        if self.error is None and self.monitor.behind:
            return POLL_S if self.monitor.hand_over else LATE_POLL_S
        terms = self.monitor.terms
        return min(CALM_POLL_S, CALM_SHARE * (terms.due_s - terms.lead_s))

    @property
    def _epoch_s(self) -> float:
        return self.timeline.epoch_s / self.timeline.speed

    def _first_epoch(self) -> int:
        """Return where to begin: RECENT epochs before the task's last own one, which show its usual time.

        An earlier agent may have died while it predicted. Its predictions count towards the most in a row.
        """
        own, oldest = [], []
        for stream in self.streams:
            oldest.append(self._oldest(self._log, stream.name, self.task.task))
            head = self._log.last_epoch(stream.name, self.task.task, after=oldest[-1] - 1)
            own.append(self._last_own(stream.name, head))
            stream.skip_to(max(oldest[-1], own[-1] + 1 - self.contract.predicting.depth))
            reason = stream.restore(last_own=own[-1])
            if reason is not None:
                self._outbox.emit("agent", {"task": self.task.name, "what": "continues", "stream": stream.name, "reason": reason})
        first = max(*oldest, min(own) + 1 - RECENT)
        for task_input in self._inputs:
            task_input.skip_to(max(first, self._oldest(task_input.log, task_input.stream, task_input.number)))
        return first

    def _oldest(self, log: EpochLog, stream: str, task: int) -> int:
        """Return the oldest epoch of a stream in the log; the job's first epoch if there is none yet."""
        oldest = log.oldest_epoch(stream, task)
        return self.timeline.first if oldest is None else oldest

    def _last_own(self, stream: str, head: int) -> int:
        """Return the last epoch up to the head that the task itself committed, at most `most_epochs` back."""
        epoch = head
        while head - epoch < self.contract.predicting.most_epochs:
            first = self._log.first(stream, self.task.task, epoch=epoch)
            if first is None or first.quality in OWN or self._log.final(stream, self.task.task, epoch=epoch) is not None:
                break
            epoch -= 1
        return epoch

    def _read_inputs(self) -> None:
        for task_input in self._inputs:
            while (record := task_input.next_record(self._clock())) is not None:
                at_s = self._committed_s(record, missing_s=task_input.missing_s)
                self.monitor.input_committed(task_input.label, record.epoch, at_s=at_s)
                if record.first_seq is not None and record.last_seq is not None:
                    after, last = self._seqs.get(record.epoch, (record.first_seq - 1, record.last_seq))
                    self._seqs[record.epoch] = min(after, record.first_seq - 1), max(last, record.last_seq)

    def _read_outputs(self) -> None:
        while True:
            now_s = self._clock()
            first_records = [self._log.first(stream.name, self.task.task, epoch=self._next) for stream in self.streams]
            records = [record for record in first_records if record is not None]
            if len(records) < len(first_records):
                missing = [stream for stream, record in zip(self.streams, first_records, strict=True) if record is None]
                if self._skip_trimmed(missing):
                    continue
                self._missing_s = now_s
                break
            own = all(record.quality in OWN for record in records)
            at_s = max(self._committed_s(record, missing_s=self._missing_s) for record in records)
            self.monitor.output_committed(self._next, at_s=at_s, predicted=not own)
            if all(record.quality is Quality.EXACT for record in records):
                self._newest_exact = self._next
            if not own:
                self.predicted += any(record.producer == self._outbox.producer for record in records)  # or another agent's
                self._await_correction(self._next)
            self._advance()
        for task_input in self._inputs:
            task_input.skip_to(self._next)  # earlier inputs are not needed any more, and may have been trimmed

    def _committed_s(self, record: Record, *, missing_s: float | None = None) -> float:
        """Return when a record was committed, by `clock`."""
        now_s = self._clock()
        return by_own_clock(now_s - (self._wall_clock() - record.committed_s), missing_s=missing_s, now_s=now_s)

    def _skip_trimmed(self, missing: Sequence[WatchedStream]) -> bool:
        """Skip the next epoch, and return True, if its missing records were committed and trimmed since the last step.

        All readers are past such an epoch. Waiting for it would keep the agent from the epochs that are late now.
        """
        trimmed = [self._log.trimmed_until(stream.name, self.task.task) for stream in missing]
        if any(epoch is None or epoch < self._next for epoch in trimmed):
            return False
        self.monitor.output_trimmed(self._next)
        for stream in missing:
            stream.skip_to(self._next + 1)
        self._newest_exact = self._next
        self._advance()
        return True

    def _advance(self) -> None:
        if self._next in self._seqs:
            self._last_seq = self._seqs.pop(self._next)[1]
        self._next += 1

    def _await_correction(self, epoch: int) -> None:
        """Remember that the task has yet to correct an epoch, unless it already has."""
        final_records = [self._log.final(stream.name, self.task.task, epoch=epoch) for stream in self.streams]
        records = [record for record in final_records if record is not None]
        if len(records) < len(final_records):
            self._uncorrected.add(epoch)
            return
        self.corrected += self.contract.correction
        self.monitor.output_committed(epoch, at_s=max(map(self._committed_s, records)))

    def _learn(self) -> None:
        for stream in self.streams:
            for record in stream.learn(until=self._next, exact=self._newest_exact):
                if record.epoch in self._uncorrected:
                    self._uncorrected.discard(record.epoch)
                    self.corrected += self.contract.correction  # without correction, consumers drop late output
                    self.monitor.output_committed(record.epoch, at_s=self._committed_s(record))  # late, but the task is back
        if len(self._uncorrected) > 10_000:
            self._uncorrected = set(sorted(self._uncorrected)[-1_000:])  # the others will never be corrected

    def _predict_overdue(self) -> None:
        for overdue in self.monitor.overdue(self._clock()):
            if overdue.epoch != self._next or not self._commit(overdue):
                return
            self._read_outputs()

    def _commit(self, overdue: OverdueEpoch) -> bool:
        """Commit predicted records of an epoch for every stream. Return False if one of them cannot be predicted."""
        learned = (overdue.epoch, *(stream.newest_learned for stream in self.streams))
        if learned == self._abstained_at:
            return False  # nothing was learned since the last attempt
        predictions: list[tuple[WatchedStream, Prediction]] = []
        seqs = self._seqs.get(overdue.epoch)
        if seqs is None and self._last_seq is not None:
            seqs = self._last_seq, self._last_seq  # the input is empty, and predicted seqs must not reach into the next epoch
        for stream in self.streams:
            remaining_s = overdue.remaining_s(self._clock()) or self.monitor.terms.lead_s
            prediction = stream.predict(overdue.epoch, time_left_s=remaining_s, seqs=seqs)
            self.why = prediction.why
            if prediction.rows is None:
                if self._abstained_at[:1] != learned[:1]:
                    self.abstained += 1
                    self._outbox.emit("abstained", {"task": self.task.name, "epoch": overdue.epoch, "why": prediction.why})
                self._abstained_at = learned
                return False
            predictions.append((stream, prediction))
        for stream, prediction in predictions:
            assert prediction.rows is not None
            lineage = tuple(f"{name}: {count} values" for name, count in sorted(prediction.used.items()))
            record = self._outbox.publish(
                stream.name, overdue.epoch, rows=prediction.rows, quality=Quality.PREDICTED, lineage=lineage
            )
            if record is not None and record.producer == self._outbox.producer:  # otherwise the task was faster
                stream.add_committed(prediction)
        return True
