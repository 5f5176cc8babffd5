"""A prediction agent (ISORC'16, section IV-B) on the epoch log: watches one task, and commits what it is late with as predicted."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from typing import Any

from holdfast.documents.job import Contract, Task
from holdfast.errors import CompoundError
from holdfast.log import EpochLog, Quality, Store
from holdfast.log.timeline import Timeline
from holdfast.prediction import Monitor, Overdue
from holdfast.prediction.agent.inputs import Input, by_our_clock
from holdfast.prediction.agent.watched_stream import WatchedStream
from holdfast.prediction.contract_terms import cover_of
from holdfast.prediction.lateness_monitor import RECENT
from holdfast.runtime.output_writer import OutputWriter

POLL_S = 0.05
"""How often an agent looks that waits for its PE: it has handed over, or has nothing to say yet about what is overdue."""
AWAY_POLL_S = 0.02
"""How often an agent looks whose PE is away: it waits for inputs then, as the PE would."""
CALM_POLL_S, CALM_SHARE = 0.2, 0.25
"""How often an agent looks while its PE is in time, and the most of the time that an epoch is waited for: an input is always seen
long before anything can be due about it."""
OWN = (Quality.EXACT, Quality.TENTATIVE)
"""Of these qualities is what a task made itself."""


class PredictionAgent:
    """Watches a task through the log alone: it needs no word from the task, and stalls with nothing that the task waits for.

    `given` is the contract it was made with, `contract` the one it goes by after changes. `step` does what can be done now.
    Whatever an algorithm does wrong stays inside; a stream that cannot be predicted at all is told in `error`, and the task goes
    on without protection.
    """

    def __init__(
        self,
        task: Task,
        contract: Contract,
        *,
        keys: Mapping[str, Sequence[str]],
        outbox: OutputWriter,
        stores: Sequence[Store],
        learner: Executor,
        clock: Callable[[], float] = time.time,
        timer: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.task, self.given, self.contract = task, contract, contract
        self._outbox, self._clock = outbox, clock
        self.timeline: Timeline = outbox.timeline
        self._log = outbox.log
        self._inputs = [Input(r, s, number) for r, s in zip(task.reads, stores, strict=True) for number in r.tasks]
        self.monitor = Monitor(cover_of(contract, self._epoch_s), [each.label for each in self._inputs])
        named = contract.predicting.keys
        keys = keys if named is None else dict.fromkeys(task.makes, named)
        self.streams = [
            WatchedStream(
                name,
                task.task,
                store=outbox.store,
                keys=keys[name],
                contract=contract,
                learner=learner,
                inputs=self._inputs,
                timer=timer,
            )
            for name in task.makes
        ]
        self.error: str | None = None
        self.why = ""
        self.predicted = self.corrected = self.abstained = 0
        self._abstained: tuple[int, ...] = ()
        self._exact = -1
        self._open: set[int] = set()
        self._seqs: dict[int, tuple[int, int]] = {}
        self._last_seq: int | None = None
        self._missing_s: float | None = None
        self._next = self._begin()

    @property
    def state(self) -> str:
        """What it does: learning (nothing known yet), watching, predicting, handed over, or broken."""
        if self.error is not None:
            return "broken"
        if self.monitor.hand_over:
            return "handed over"
        if self.monitor.predicted_in_a_row:
            return "predicting"
        return "watching" if all(stream.stand_in is not None for stream in self.streams) else "learning"

    def step(self) -> float:
        """Do what is due; the seconds after which there may be more to do."""
        self._see_inputs()
        self._see_outputs()
        if self.error is None:
            try:
                self._learn()
                self._stand_in()
            except CompoundError as error:
                self.error = str(error)  # its columns cannot be predicted: no epoch will change that
        return self._pause_s()

    def change(self, contract: Contract) -> None:
        """Go on under another contract; what was learned stays where its algorithm does."""
        self.monitor.cover = cover_of(contract, self._epoch_s)
        self.contract, self._abstained = contract, ()
        for stream in self.streams:
            stream.change(contract)

    def view(self) -> dict[str, Any]:
        """The agent as one JSON document: what the agent manager shows."""
        monitor, streams = self.monitor, {stream.name: stream.view() for stream in self.streams}
        return {
            "task": self.task.name,
            "state": self.state,
            "problem": self.error,
            "why": self.why,
            "epoch": self._next - 1,
            "deadline_s": monitor.cover.due_s,
            "usual_s": monitor.usual_s,
            "slowest_s": monitor.slowest_s,
            "made": monitor.made,
            "misses": monitor.misses,
            "predicted": self.predicted,
            "predicted_in_a_row": monitor.predicted_in_a_row,
            "corrected": self.corrected,
            "abstained": self.abstained,
            "streams": streams,
        }

    def _pause_s(self) -> float:
        """Until when nothing can be due. What is overdue still, nothing could be said about: it is looked at no more often."""
        due_s = None if self.error is not None else self.monitor.next_s()
        if due_s is None:
            return self._poll_s
        left_s = due_s - self._clock()
        return min(self._poll_s, POLL_S) if left_s <= 0 else min(self._poll_s, max(0.005, left_s))

    @property
    def _poll_s(self) -> float:
        if self.error is None and self.monitor.behind:
            return POLL_S if self.monitor.hand_over else AWAY_POLL_S
        cover = self.monitor.cover
        return min(CALM_POLL_S, CALM_SHARE * (cover.due_s - cover.lead_s))

    @property
    def _epoch_s(self) -> float:
        return self.timeline.epoch_s / self.timeline.speed

    def _begin(self) -> int:
        """Where to begin: as many epochs before the task's last own one as tell how long it usually takes, and go on from there.

        An agent before this one may have died in the midst of standing in: what it predicted counts towards the most in a row.
        """
        own, oldest = [], []
        for stream in self.streams:
            oldest.append(self._oldest(self._log, stream.name, self.task.task))
            head = self._log.last_epoch(stream.name, self.task.task, after=oldest[-1] - 1)
            own.append(self._last_own(stream.name, head))
            stream.skip_to(max(oldest[-1], own[-1] + 1 - self.contract.predicting.depth))
        begins = max(*oldest, min(own) + 1 - RECENT)
        for each in self._inputs:
            each.skip_to(max(begins, self._oldest(each.log, each.stream, each.number)))
        return begins

    def _oldest(self, log: EpochLog, stream: str, task: int) -> int:
        """The oldest epoch of a stream that is left; the first of all where there is none yet."""
        found = log.oldest_epoch(stream, task)
        return self.timeline.first if found is None else found

    def _last_own(self, stream: str, head: int) -> int:
        """The last epoch up to the head that is not a stand-in's alone, at most so far back as predictions may go on."""
        epoch = head
        while head - epoch < self.contract.predicting.most_epochs:
            first = self._log.first(stream, self.task.task, epoch=epoch)
            if first is None or first.quality in OWN or self._log.final(stream, self.task.task, epoch=epoch) is not None:
                break
            epoch -= 1
        return epoch

    def _see_inputs(self) -> None:
        for each in self._inputs:
            while (record := each.look(self._clock())) is not None:
                at_s = by_our_clock(record.committed_s, missing_s=each.missing_s, now_s=self._clock())
                self.monitor.input_committed(each.label, record.epoch, at_s=at_s)
                if record.first_seq is not None and record.last_seq is not None:
                    after, last = self._seqs.get(record.epoch, (record.first_seq - 1, record.last_seq))
                    self._seqs[record.epoch] = min(after, record.first_seq - 1), max(last, record.last_seq)

    def _see_outputs(self) -> None:
        while True:
            looked_s = self._clock()
            records = [self._log.first(stream.name, self.task.task, epoch=self._next) for stream in self.streams]
            found = [record for record in records if record is not None]
            if len(found) < len(records):
                if self._pass_trimmed([stream for stream, record in zip(self.streams, records, strict=True) if record is None]):
                    continue
                self._missing_s = looked_s
                break
            own = all(record.quality in OWN for record in found)
            committed_s = max(record.committed_s for record in found)
            at_s = by_our_clock(committed_s, missing_s=self._missing_s, now_s=self._clock())
            self.monitor.output_committed(self._next, at_s=at_s, predicted=not own)
            if all(record.quality is Quality.EXACT for record in found):
                self._exact = self._next
            if not own:
                self.predicted += any(record.producer == self._outbox.producer for record in found)  # not one that came too late
                self._await_correction(self._next)
            if self._next in self._seqs:
                self._last_seq = self._seqs.pop(self._next)[1]
            self._next += 1
        for each in self._inputs:
            each.skip_to(self._next)  # what went in before is of no account any more, and may have been trimmed

    def _pass_trimmed(self, missing: Sequence[WatchedStream]) -> bool:
        """Pass by an epoch whose missing records were made and trimmed since the last look: all who read them are past them.

        Whether it was so. Waiting for such an epoch would keep the agent from what is late now.
        """
        lines = [self._log.trimmed_until(stream.name, self.task.task) for stream in missing]
        if any(line is None or line < self._next for line in lines):
            return False
        self.monitor.passed(self._next)
        for stream in missing:
            stream.skip_to(self._next + 1)
        if self._next in self._seqs:
            self._last_seq = self._seqs.pop(self._next)[1]
        self._exact = self._next
        self._next += 1
        return True

    def _await_correction(self, epoch: int) -> None:
        """Remember an epoch that the task did not make in time, unless it has made good on it already."""
        finals = [self._log.final(stream.name, self.task.task, epoch=epoch) for stream in self.streams]
        made = [record for record in finals if record is not None]
        if len(made) < len(finals):
            self._open.add(epoch)
            return
        self.corrected += self.contract.correction
        self.monitor.output_committed(epoch, at_s=max(record.committed_s for record in made))

    def _learn(self) -> None:
        for stream in self.streams:
            for record in stream.learn(until=self._next, exact=self._exact):
                if record.epoch in self._open:
                    self._open.discard(record.epoch)
                    self.corrected += self.contract.correction  # else what comes late is dropped, and only learned from
                    self.monitor.output_committed(record.epoch, at_s=record.committed_s)  # late, but the task is back
        if len(self._open) > 10_000:
            self._open = set(sorted(self._open)[-1_000:])  # epochs that are never corrected

    def _stand_in(self) -> None:
        for late in self.monitor.overdue(self._clock()):
            if late.epoch != self._next or not self._commit(late):
                return
            self._see_outputs()

    def _commit(self, late: Overdue) -> bool:
        """Commit an epoch of every stream as predicted; False where nothing can be said about one of them."""
        known = (late.epoch, *(stream.learned for stream in self.streams))
        if known == self._abstained:
            return False  # nothing was learned since: there is still nothing to say
        made, seqs = [], self._seqs.get(late.epoch)
        if seqs is None and self._last_seq is not None:
            seqs = self._last_seq, self._last_seq  # nothing went in: what is predicted may not reach into the next epoch's seqs
        for stream in self.streams:
            left_s = late.left_s(self._clock()) or self.monitor.cover.lead_s
            prediction = stream.predict(late.epoch, time_left_s=left_s, seqs=seqs)
            self.why = prediction.why
            if prediction.rows is None:
                before, self._abstained = self._abstained, known
                if before[:1] != known[:1]:
                    self.abstained += 1
                    self._outbox.tell("abstained", {"task": self.task.name, "epoch": late.epoch, "why": prediction.why})
                return False
            made.append((stream, prediction))
        for stream, prediction in made:
            lineage = tuple(f"{name}: {count} values" for name, count in sorted(prediction.used.items()))
            assert prediction.rows is not None
            record = self._outbox.publish(stream.name, late.epoch, rows=prediction.rows, quality=Quality.PREDICTED, lineage=lineage)
            if record is not None and record.producer == self._outbox.producer:  # not where the task was faster after all
                stream.committed(prediction)
        return True
