"""Echo: finds numbers of the output that are aggregates of the input, and predicts them from a late epoch's input."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
import pyarrow as pa

from holdfast.prediction.column_roles import ColumnRoles
from holdfast.prediction.from_input.key_aggregates import aggregate_by_key, join_aggregates
from holdfast.prediction.predictors.kernels import compiled
from holdfast.prediction.predictors.predictor import Floats, Ints
from holdfast.prediction.saved_arrays import Arrays, SavedArrays
from holdfast.prediction.series_rows import SlotIndex

NAME = "echo"
WINDOW = 12  # the most epochs that a number may be averaged over
SAMPLE = 50  # keys on which relations are judged in an epoch; the next epoch judges on others
KEEP = 0.9  # weight of the evidence of earlier epochs
LEAST = 3.0  # weighted epochs of evidence before a relation is used
DIGITS = 9  # digits in which losses are compared; rounding errors of sums move the later ones
MOST_KEYS = 5_000
LONGEST_PAUSE = 64
"""The most epochs whose input is not read after epochs with too many keys."""


class Echo(SavedArrays):
    """Predicts from the late epoch's own input: d_p = f(d_in) (ISORC'16, Equation 1), where f is one of a few simple functions.

    Each number of the output is compared with each number of the inputs: its mean, greatest, least or sum over the key's rows,
    averaged over the last 1 to WINDOW epochs. The relation with the least recent error, over all keys, predicts the number. The
    rank decides whether this is more accurate than predicting from history. An epoch with more than MOST_KEYS keys is skipped.
    After each of several in a row twice as many epochs are skipped, because reading them costs time.
    """

    FIXED = ("_losses", "_evidence")

    _names: tuple[str, ...] | None
    _slots: SlotIndex
    _inputs: dict[int, Floats]
    _inexact: set[int]
    _losses: Floats
    _evidence: Floats
    _best: dict[int, tuple[int, int]] | None

    def __init__(self, columns: ColumnRoles, *, streams: Sequence[str] = ()) -> None:
        self._columns, self._streams = columns, tuple(streams)
        self._pause = self._paused_until = 0
        self._start_over(None)

    def can_use(self, epoch: int) -> bool:
        """Return whether an epoch's input is worth reading: inputs have the output's keys, and recent ones had not too many."""
        return self._names != () and epoch >= self._paused_until

    @property
    def relations(self) -> dict[str, str]:
        """The relation that predicts each number, in words."""
        names = self._names or ()
        return {
            self._columns.numbers[number]: names[feature] + ("" if window == 1 else f", averaged over {window} epochs")
            for number, (feature, window) in self._best_relations().items()
        }

    @property
    def names(self) -> tuple[str, ...] | None:
        """The aggregates of the inputs; None while no input is known."""
        return self._names

    def restore(self, names: Sequence[str] | None, arrays: Arrays) -> None:
        """Continue with saved evidence of the relations. Raises ValueError if it does not fit."""
        self._start_over(None if names is None else tuple(names))
        self.restore_arrays(arrays, 0)

    def has_input(self, epoch: int) -> bool:
        return epoch in self._inputs

    def is_exact(self, epoch: int) -> bool:
        """Return whether all inputs that this epoch's numbers may depend on were final when they were added."""
        return not any(epoch - WINDOW < other <= epoch for other in self._inexact)

    def add_input(self, epoch: int, inputs: Sequence[pa.Table], *, exact: bool = True) -> None:
        """Take the rows of all inputs of an epoch, in the order of the streams. They replace rows added before for the epoch."""
        if not self.can_use(epoch):
            return
        names = self._streams or tuple(f"input {number + 1}" for number in range(len(inputs)))
        aggregates = join_aggregates(
            [aggregate_by_key(t, self._columns.keys, stream=name) for t, name in zip(inputs, names, strict=True)]
        )
        if aggregates.names != self._names:
            self._start_over(aggregates.names)
        if len(aggregates.keys) > MOST_KEYS:
            self._pause = min(2 * self._pause or 1, LONGEST_PAUSE)
            self._paused_until = epoch + self._pause
            return
        self._pause = 0
        if len(self._slots) > MOST_KEYS:  # most of them have ended
            self._slots, self._inputs, self._inexact = SlotIndex(), {}, set()
        slots = self._slots.add(aggregates.keys)
        values = np.full((len(self._slots), len(aggregates.names)), np.nan)
        values[slots] = aggregates.values
        self._inputs[epoch] = values
        self._inexact.discard(epoch)
        if not exact:
            self._inexact.add(epoch)

    def predict(self, epoch: int, keys: Sequence[Hashable]) -> Floats:
        """Return the numbers of these keys as the input suggests them, one row each; NaN where it has no value."""
        answer = np.full((len(keys), len(self._columns.numbers)), np.nan)
        if epoch not in self._inputs:
            return answer
        slots = self._slots.find(keys)
        for number, (feature, window) in self._best_relations().items():
            if self._reach(epoch) >= window:
                answer[:, number] = _means(self._past_inputs(epoch, slots, window, slice(feature, feature + 1))[:, :, 0])
        return answer

    def learn(self, epoch: int, keys: Sequence[Hashable], truth: Floats) -> None:
        """Judge all relations on an epoch's output. Forget inputs that are too old for any relation."""
        if epoch in self._inputs and self.is_exact(epoch) and len(keys):
            sample = (np.arange(min(len(keys), SAMPLE)) + epoch * SAMPLE) % len(keys)
            slots = self._slots.find([keys[row] for row in sample.tolist()])
            inputs = self._past_inputs(epoch, slots, self._reach(epoch), slice(None))
            _judge(self._losses, self._evidence, inputs, truth[sample], KEEP)
            self._best = None
        oldest = epoch - WINDOW + 1
        self._inputs = {other: values for other, values in self._inputs.items() if other > oldest}
        self._inexact = {other for other in self._inexact if other > oldest}

    def _best_relations(self) -> dict[int, tuple[int, int]]:
        """Return, for each number, the feature and window of the best relation; of equals, the shorter window, then the first."""
        if self._best is None:
            self._best = {}
            with np.errstate(invalid="ignore", divide="ignore"):
                loss = np.where(self._evidence >= LEAST, np.round(self._losses / self._evidence, DIGITS), np.inf)
            for number in range(len(loss)):
                if np.isfinite(loss[number]).any():
                    window, feature = np.unravel_index(int(np.argmin(loss[number])), loss[number].shape)
                    self._best[number] = int(feature), int(window) + 1
        return self._best

    def _reach(self, epoch: int) -> int:
        """Return for how many consecutive epochs, up to this one, the inputs are known."""
        return next(back for back in range(WINDOW + 1) if back == WINDOW or epoch - back not in self._inputs)

    def _past_inputs(self, epoch: int, slots: Ints, window: int, features: slice) -> Floats:
        """Return the inputs of these keys by key, epochs back from this one, and feature."""
        layers = []
        for back in range(window):
            values = self._inputs[epoch - back][:, features]
            known = (slots >= 0) & (slots < len(values))
            layer = np.full((len(slots), values.shape[1]), np.nan)
            layer[known] = values[slots[known]]
            layers.append(layer)
        return np.stack(layers, axis=1)

    def _start_over(self, names: tuple[str, ...] | None) -> None:
        self._names = names
        self._slots = SlotIndex()
        self._inputs = {}
        self._inexact = set()
        self._losses = np.zeros((len(self._columns.numbers), WINDOW, len(names or ())))
        self._evidence = np.zeros_like(self._losses)
        self._best = None


@compiled
def _means(inputs: Floats) -> Floats:
    """Return the mean over the epochs that have a value; NaN where the newest has none."""
    answer = np.full(len(inputs), np.nan)
    for i in range(len(inputs)):
        if inputs[i, 0] != inputs[i, 0]:
            continue
        total, count = 0.0, 0
        for value in inputs[i]:
            if value == value:
                total += value
                count += 1
        answer[i] = total / count
    return answer


@compiled
def _judge(losses: Floats, evidence: Floats, inputs: Floats, truth: Floats, keep: float) -> None:
    """Add the mean loss of every relation on these keys. A loss is the error relative to the truth, at most 1."""
    keys, reach, features = inputs.shape
    for c in range(truth.shape[1]):
        for f in range(features):
            loss, judged = np.zeros(reach), np.zeros(reach)
            for i in range(keys):
                value = truth[i, c]
                if not np.isfinite(value) or inputs[i, 0, f] != inputs[i, 0, f]:
                    continue
                total, count = 0.0, 0
                for w in range(reach):
                    if inputs[i, w, f] == inputs[i, w, f]:
                        total += inputs[i, w, f]
                        count += 1
                    off = abs(total / count - value)
                    loss[w] += 0.0 if off == 0.0 else min(1.0, off / max(abs(value), 1e-300))
                    judged[w] += 1.0
            for w in range(reach):
                if judged[w] > 0.0:
                    losses[c, w, f] = keep * losses[c, w, f] + loss[w] / judged[w]
                    evidence[c, w, f] = keep * evidence[c, w, f] + 1.0
