"""The processor monitor: when each epoch went in and came out, and which are late. Reads no clock, does no I/O."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from holdfast.errors import HoldfastError
from holdfast.predict.cover import Cover

RECENT = 20  # outputs of its own over which a PE's usual time is taken
ENOUGH = 5  # of them before it is known


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
    A first late epoch is waited for until shortly before its deadline. From then on, until the PE is back (section IV-B: the
    prediction goes on until it recovers), each is waited for only as long as the PE usually takes: were it back, it would be there.
    A stream is committed in the order of its epochs, so an output settles its epoch and all before it, and memory follows what
    is under way.
    """

    def __init__(self, cover: Cover, inputs: Iterable[str]) -> None:
        self.cover, self._inputs = cover, frozenset(inputs)
        if not self._inputs:
            raise HoldfastError("a monitored PE reads at least one stream; give the names of its inputs")
        self._began: dict[int, dict[str, float]] = {}
        self._settled = -1
        self._own_s: deque[float] = deque(maxlen=RECENT)
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
            return
        began = self._start(epoch)
        if began is not None:
            self.slowest_s = max(self.slowest_s, at_s - began)
            if not predicted:
                self._own_s.append(at_s - began)
        self.made += 1
        self.misses += predicted or (began is not None and at_s - began > self.cover.due_s)
        self.predicted_in_a_row = self.predicted_in_a_row + 1 if predicted else 0
        self._settled = epoch
        self._began = {later: times for later, times in self._began.items() if later > epoch}

    def overdue(self, now_s: float) -> tuple[Overdue, ...]:
        """The epochs to predict now, oldest first: all inputs are there, no output is, and no more can be waited.

        None after `most_epochs` predicted ones in a row: then `hand_over` holds.
        """
        if self.hand_over:
            return ()
        due = (Overdue(epoch, began + self.cover.due_s) for epoch, began in self._pending() if now_s >= began + self._waits_s)
        return tuple(sorted(due))

    def next_s(self) -> float | None:
        """When there is something to predict unless an output comes first; None while nothing is under way."""
        return min((began + self._waits_s for _, began in self._pending()), default=None)

    @property
    def usual_s(self) -> float | None:
        """How long the PE usually takes: the median of its last outputs, which one stall hardly moves; None before."""
        return float(np.median(self._own_s)) if len(self._own_s) >= ENOUGH else None

    @property
    def _waits_s(self) -> float:
        """How long after its last input an epoch is waited for."""
        before_s = self.cover.due_s - self.cover.lead_s
        usual_s = self.usual_s if self.predicted_in_a_row else None
        return before_s if usual_s is None else min(before_s, usual_s)

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
