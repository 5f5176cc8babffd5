"""The processor monitor: finds late epochs from the commit times of inputs and outputs. Reads no clock, does no I/O."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from holdfast.errors import HoldfastError
from holdfast.prediction.contract_terms import LatenessTerms

RECENT = 20  # the PE's own outputs that determine its usual time
ENOUGH = 5  # of them before the usual time is known
USUAL_QUANTILE = 0.9  # one stall hardly moves it, and a healthy PE rarely takes longer
PROBE_EVERY = 4  # predicted epochs in a row after which the PE gets its usual time for one epoch


@dataclass(frozen=True, order=True)
class OverdueEpoch:
    """An epoch whose output is missing, and its deadline."""

    epoch: int
    due_s: float

    def remaining_s(self, now_s: float) -> float:
        """Return the time remaining before the deadline; 0 after it."""
        return max(0.0, self.due_s - now_s)


class LatenessMonitor:
    """Compares the commit times of a PE's inputs and output with the contract (ISORC'16, section IV-B).

    The time of an epoch starts when its last input is committed. A commit may be reported several times; the first report counts.
    Streams are committed in the order of epochs, so an output settles its epoch and all earlier ones.

    While the PE is in time, the monitor waits for an epoch until shortly before its deadline. After a predicted epoch,
    it waits less:

    - The PE has corrected nothing yet: epochs are predicted as soon as their inputs are committed. After every PROBE_EVERY of them,
      the PE gets its usual time for one epoch. If its inputs were predicted too, it cannot correct anything, and only an output of
      its own shows that it is back.
    - The PE corrects, but is still behind: it gets its usual time, until all predicted epochs are corrected or it commits a first
      record itself.
    - The contract drops late output: a restarted PE corrects nothing, so it always gets its usual time.

    While the usual time is unknown, it is the time until shortly before the deadline.
    """

    def __init__(self, terms: LatenessTerms, inputs: Iterable[str]) -> None:
        self.terms, self._inputs = terms, frozenset(inputs)
        if not self._inputs:
            raise HoldfastError("a monitored PE reads at least one stream; give the names of its inputs")
        self._input_times: dict[int, dict[str, float]] = {}
        self._settled = -1
        self._own_durations_s: deque[float] = deque(maxlen=RECENT)
        self._uncorrected: int | None = None  # the newest predicted epoch, until the PE has corrected it
        self.outputs = 0
        self.misses = 0
        self.predicted_in_a_row = 0
        self.slowest_s = 0.0

    def input_committed(self, stream: str, epoch: int, *, at_s: float) -> None:
        """Record the commit of an input. Raises HoldfastError for a stream that the PE does not read."""
        if stream not in self._inputs:
            raise HoldfastError(
                f"stream '{stream}' is not an input of the monitored PE; inputs are: {', '.join(sorted(self._inputs))}"
            )
        if epoch > self._settled:
            self._input_times.setdefault(epoch, {}).setdefault(stream, at_s)

    def output_committed(self, epoch: int, *, at_s: float, predicted: bool = False) -> None:
        """Record the commit of an output, by the PE itself or predicted."""
        if epoch <= self._settled:
            if not predicted:
                self.predicted_in_a_row = 0  # late, but the PE is back
                if self._uncorrected is not None and epoch >= self._uncorrected:  # corrections come in the order of epochs
                    self._uncorrected = None
            return
        complete_s = self._inputs_complete_s(epoch)
        if complete_s is not None:
            self.slowest_s = max(self.slowest_s, at_s - complete_s)
            if not predicted:
                self._own_durations_s.append(max(0.0, at_s - complete_s))  # negative if the nodes' clocks differ
        self.misses += predicted or (complete_s is not None and at_s - complete_s > self.terms.due_s)
        self._settle(epoch, predicted=predicted)

    def output_trimmed(self, epoch: int) -> None:
        """Record an output of the PE whose commit time is unknown, because the record was trimmed before the agent read it."""
        self._settle(epoch, predicted=False)

    def _settle(self, epoch: int, *, predicted: bool) -> None:
        self.outputs += 1
        self.predicted_in_a_row = self.predicted_in_a_row + 1 if predicted else 0
        self._uncorrected = epoch if predicted else None
        self._settled = epoch
        self._input_times = {later: times for later, times in self._input_times.items() if later > epoch}

    def overdue(self, now_s: float) -> tuple[OverdueEpoch, ...]:
        """Return the epochs to predict now, oldest first: all inputs are committed, no output is, and the wait is over.

        At most `most_epochs` epochs are predicted in a row. Then `hand_over` is true.
        """
        if self.hand_over:
            return ()
        due = (
            OverdueEpoch(epoch, complete_s + self.terms.due_s)
            for epoch, complete_s in self._pending()
            if now_s >= complete_s + self._wait_s
        )
        return tuple(sorted(due)[: self.terms.most_epochs - self.predicted_in_a_row])

    def next_s(self) -> float | None:
        """Return when to predict the next epoch unless its output comes first; None if no epoch is pending."""
        if self.hand_over:
            return None
        return min((complete_s + self._wait_s for _, complete_s in self._pending()), default=None)

    @property
    def usual_s(self) -> float | None:
        """The time within which nine in ten of the PE's last outputs came; None if it has had too few."""
        enough = len(self._own_durations_s) >= ENOUGH
        return float(np.quantile(self._own_durations_s, USUAL_QUANTILE)) if enough else None

    @property
    def _wait_s(self) -> float:
        """How long to wait for an epoch after its last input."""
        longest_s, corrects = self.terms.due_s - self.terms.lead_s, self.terms.late == "correct"
        if not (self.behind if corrects else self.predicted_in_a_row):
            return longest_s
        if corrects and self.predicted_in_a_row % PROBE_EVERY:
            return 0.0
        return longest_s if self.usual_s is None else min(longest_s, self.usual_s)

    @property
    def behind(self) -> bool:
        """Whether the PE has yet to correct a predicted epoch, and has committed no later first record itself."""
        return self._uncorrected is not None

    @property
    def hand_over(self) -> bool:
        """Whether so many epochs were predicted in a row that the orchestrator should restart the PE."""
        return self.predicted_in_a_row >= self.terms.most_epochs

    def _pending(self) -> list[tuple[int, float]]:
        """Return the epochs whose inputs are all committed and whose output is not, and when the last input was committed."""
        times = ((epoch, self._inputs_complete_s(epoch)) for epoch in self._input_times)
        return [(epoch, complete_s) for epoch, complete_s in times if complete_s is not None]

    def _inputs_complete_s(self, epoch: int) -> float | None:
        """Return when the last input of an epoch was committed; None while one is missing."""
        times = self._input_times.get(epoch, {})
        return max(times.values()) if len(times) == len(self._inputs) else None
