"""The processor monitor: when each epoch went in and came out, and which are late. Reads no clock, does no I/O."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from holdfast.errors import HoldfastError
from holdfast.prediction.cover import Cover

RECENT = 20  # outputs of its own over which a PE's usual time is taken
ENOUGH = 5  # of them before it is known
MOSTLY = 0.9  # of them came within its usual time: one stall hardly moves it, and a healthy PE is hardly ever slower
ASKED_EVERY = 4  # predicted epochs in a row after which one is left to the PE for as long as it usually takes


@dataclass(frozen=True, order=True)
class Overdue:
    """An epoch whose output is missing, and when it is or was due."""

    epoch: int
    due_s: float

    def left_s(self, now_s: float) -> float:
        """The time left before the deadline; 0 after it."""
        return max(0.0, self.due_s - now_s)


class Monitor:
    """Commit times of a PE's inputs and output per epoch, held against the contract (ISORC'16, section IV-B).

    The clock of an epoch starts when the last of its inputs is committed. A commit may be told more than once; the first counts.
    A stream is committed in the order of its epochs, so an output settles its epoch and all before it, and memory follows what
    is under way.

    A first late epoch is waited for until shortly before its deadline. From then on the PE is away, and prediction goes on until
    it recovers (section IV-B): it would first correct what was predicted in its stead, so while it has corrected nothing an epoch
    is predicted as soon as its inputs are there. One in ASKED_EVERY is left to it for as long as it usually takes: where what it
    reads was predicted too, it can correct nothing, and shows only by an output that it is back. A PE that has begun to correct is
    back but behind, and is waited for as long as it usually takes until nothing predicted is open or an epoch comes from itself.
    Where late output is dropped, a PE that was started anew corrects nothing: every epoch is left to it for as long as usual. While
    too little was seen of a PE to tell what is usual, that is until shortly before the deadline.
    """

    def __init__(self, cover: Cover, inputs: Iterable[str]) -> None:
        self.cover, self._inputs = cover, frozenset(inputs)
        if not self._inputs:
            raise HoldfastError("a monitored PE reads at least one stream; give the names of its inputs")
        self._began: dict[int, dict[str, float]] = {}
        self._settled = -1
        self._own_s: deque[float] = deque(maxlen=RECENT)
        self._owed: int | None = None
        self.made = 0
        self.misses = 0
        self.predicted_in_a_row = 0
        self.slowest_s = 0.0

    def input_committed(self, stream: str, epoch: int, *, at_s: float) -> None:
        """An input's epoch was committed. Raises HoldfastError for a stream that the PE does not read."""
        if stream not in self._inputs:
            raise HoldfastError(f"stream '{stream}' is no input of the monitored PE; inputs are: {', '.join(sorted(self._inputs))}")
        if epoch > self._settled:
            self._began.setdefault(epoch, {}).setdefault(stream, at_s)

    def output_committed(self, epoch: int, *, at_s: float, predicted: bool = False) -> None:
        """The epoch has an output: the PE's own, or one predicted in its stead."""
        if epoch <= self._settled:
            if not predicted:
                self.predicted_in_a_row = 0  # late, but the PE is back
                if self._owed is not None and epoch >= self._owed:  # corrections come in the order of their epochs
                    self._owed = None
            return
        began = self._start(epoch)
        if began is not None:
            self.slowest_s = max(self.slowest_s, at_s - began)
            if not predicted:
                self._own_s.append(max(0.0, at_s - began))  # clocks of nodes differ
        self.made += 1
        self.misses += predicted or (began is not None and at_s - began > self.cover.due_s)
        if predicted:
            self.predicted_in_a_row += 1
            self._owed = epoch
        else:
            self.predicted_in_a_row = 0
            self._owed = None
        self._settled = epoch
        self._began = {later: times for later, times in self._began.items() if later > epoch}

    def passed(self, epoch: int) -> None:
        """The epoch has an output of the PE's own, and it is not known when that came: it was forgotten before it was seen."""
        self.made += 1
        self.predicted_in_a_row = 0
        self._owed = None
        self._settled = epoch
        self._began = {later: times for later, times in self._began.items() if later > epoch}

    def overdue(self, now_s: float) -> tuple[Overdue, ...]:
        """The epochs to predict now, oldest first: all inputs are there, no output is, and no more can be waited.

        No more than make `most_epochs` predicted ones in a row, whatever has piled up: then `hand_over` holds.
        """
        if self.hand_over:
            return ()
        due = (Overdue(epoch, began + self.cover.due_s) for epoch, began in self._pending() if now_s >= began + self._waits_s)
        return tuple(sorted(due)[: self.cover.most_epochs - self.predicted_in_a_row])

    def next_s(self) -> float | None:
        """When there is something to predict unless an output comes first; None while there will be nothing."""
        if self.hand_over:
            return None
        return min((began + self._waits_s for _, began in self._pending()), default=None)

    @property
    def usual_s(self) -> float | None:
        """Within how long nine in ten of the PE's last outputs came; None before there are enough of them."""
        return float(np.quantile(self._own_s, MOSTLY)) if len(self._own_s) >= ENOUGH else None

    @property
    def _waits_s(self) -> float:
        """How long after its last input an epoch is waited for."""
        before_s, corrects = self.cover.due_s - self.cover.lead_s, self.cover.late == "correct"
        if not (self.behind if corrects else self.predicted_in_a_row):
            return before_s
        if corrects and self.predicted_in_a_row % ASKED_EVERY:
            return 0.0
        return before_s if self.usual_s is None else min(before_s, self.usual_s)

    @property
    def behind(self) -> bool:
        """Whether something was predicted that the PE has neither corrected nor left behind with an output of its own."""
        return self._owed is not None

    @property
    def hand_over(self) -> bool:
        """Whether so many epochs were predicted in a row that it is the recovery manager's turn."""
        return self.predicted_in_a_row >= self.cover.most_epochs

    def _pending(self) -> list[tuple[int, float]]:
        starts = ((epoch, self._start(epoch)) for epoch in self._began)
        return [(epoch, began) for epoch, began in starts if began is not None]

    def _start(self, epoch: int) -> float | None:
        """When the last input of an epoch was committed; None while one is missing."""
        times = self._began.get(epoch, {})
        return max(times.values()) if len(times) == len(self._inputs) else None
