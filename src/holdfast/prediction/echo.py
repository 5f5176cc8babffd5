"""Echo: numbers of a late epoch that its input already says, since they are known to be taken from there."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
import pyarrow as pa

from holdfast.prediction.column_roles import Columns
from holdfast.prediction.input_digest import digest, side_by_side
from holdfast.prediction.predictors.kernels import compiled
from holdfast.prediction.predictors.predictor import Floats, Ints

NAME = "echo"
WINDOW = 12  # the most epochs that a number may be a mean over
SAMPLE = 50  # keys by which relations are judged in an epoch, others the next time
KEEP = 0.9  # how much of what was seen counts still an epoch later
LEAST = 3.0  # epochs of evidence, older ones counting less, before a relation is believed
ALIKE = 9  # digits in which two relations must differ to differ: sums move the later ones
MOST_KEYS = 5_000


class Echo:
    """Predicts from the late epoch's own input, d_pred = f(d_in) (ISORC'16, Equation 1), where f is simple enough to be found.

    Every number of the output is held against each number of the inputs: its mean, greatest, least or sum over the key's rows,
    averaged over the last 1 to WINDOW epochs. The relation that was least off of late, over all keys, says what the number will be.
    How good that is, is for the rank to tell: where no relation holds, history knows better. Of an epoch with more than MOST_KEYS
    keys it says nothing.
    """

    _names: tuple[str, ...] | None
    _places: dict[Hashable, int]
    _told: dict[int, Floats]
    _inexact: set[int]
    _losses: Floats
    _evidence: Floats
    _found: dict[int, tuple[int, int]] | None

    def __init__(self, columns: Columns, *, streams: Sequence[str] = ()) -> None:
        self._columns, self._streams = columns, tuple(streams)
        self._start_over(None)

    @property
    def silent(self) -> bool:
        """Whether inputs say nothing, as far as is known: they do not name the output's keys, or too many."""
        return self._names == ()

    @property
    def relations(self) -> dict[str, str]:
        """What each number is thought to be."""
        names = self._names or ()
        found = {}
        for number, (feature, window) in self._relations().items():
            over = "" if window == 1 else f", averaged over {window} epochs"
            found[self._columns.numbers[number]] = names[feature] + over
        return found

    def knows(self, epoch: int) -> bool:
        return epoch in self._told

    def exact(self, epoch: int) -> bool:
        """Whether all that this epoch's numbers may be taken from was final when it was told."""
        return not any(epoch - WINDOW < other <= epoch for other in self._inexact)

    def tell(self, epoch: int, inputs: Sequence[pa.Table], *, exact: bool = True) -> None:
        """Take in the rows of every input of an epoch, in the order of the streams; told again, they replace what was told."""
        if self.silent:
            return
        names = self._streams or tuple(f"input {number + 1}" for number in range(len(inputs)))
        found = side_by_side([digest(t, self._columns.keys, stream=name) for t, name in zip(inputs, names, strict=True)])
        if found.names != self._names:
            self._start_over(found.names)
        if len(found.keys) > MOST_KEYS:
            self._start_over(())
            return
        if len(self._places) > MOST_KEYS:  # of many that came and went
            self._places, self._told, self._inexact = {}, {}, set()
        places = np.fromiter((self._places.setdefault(key, len(self._places)) for key in found.keys), dtype=np.int64)
        values = np.full((len(self._places), len(found.names)), np.nan)
        values[places] = found.values
        self._told[epoch] = values
        self._inexact.discard(epoch)
        if not exact:
            self._inexact.add(epoch)

    def values(self, epoch: int, keys: Sequence[Hashable]) -> Floats:
        """The numbers of these keys as the input has them, a row each; NaN where it does not say."""
        answer = np.full((len(keys), len(self._columns.numbers)), np.nan)
        if epoch not in self._told:
            return answer
        places = self._places_of(keys)
        for number, (feature, window) in self._relations().items():
            if self._reach(epoch) >= window:
                seen = self._seen(epoch, places, window, slice(feature, feature + 1))[:, :, 0]
                answer[:, number] = _means(seen)
        return answer

    def learn(self, epoch: int, keys: Sequence[Hashable], truth: Floats) -> None:
        """Hold the relations against an epoch's output; what lies further back than any reaches is forgotten."""
        if epoch in self._told and self.exact(epoch) and len(keys):
            some = (np.arange(min(len(keys), SAMPLE)) + epoch * SAMPLE) % len(keys)
            reach = self._reach(epoch)
            seen = self._seen(epoch, self._places_of([keys[row] for row in some.tolist()]), reach, slice(None))
            _judge(self._losses, self._evidence, seen, truth[some], KEEP)
            self._found = None
        oldest = epoch - WINDOW + 1
        self._told = {other: values for other, values in self._told.items() if other > oldest}
        self._inexact = {other for other in self._inexact if other > oldest}

    def _relations(self) -> dict[int, tuple[int, int]]:
        """Per number the feature and the window of the best relation; of equals, the shorter window, then the first."""
        if self._found is None:
            self._found = {}
            with np.errstate(invalid="ignore", divide="ignore"):
                loss = np.where(self._evidence >= LEAST, np.round(self._losses / self._evidence, ALIKE), np.inf)
            for number in range(len(loss)):
                if np.isfinite(loss[number]).any():
                    window, feature = np.unravel_index(int(np.argmin(loss[number])), loss[number].shape)
                    self._found[number] = int(feature), int(window) + 1
        return self._found

    def _reach(self, epoch: int) -> int:
        """How many epochs up to this one are known without a gap."""
        return next(back for back in range(WINDOW + 1) if back == WINDOW or epoch - back not in self._told)

    def _seen(self, epoch: int, places: Ints, window: int, features: slice) -> Floats:
        """What was told of these keys: per key, epochs back from this one and feature."""
        layers = []
        for back in range(window):
            told = self._told[epoch - back][:, features]
            known = (places >= 0) & (places < len(told))
            layer = np.full((len(places), told.shape[1]), np.nan)
            layer[known] = told[places[known]]
            layers.append(layer)
        return np.stack(layers, axis=1)

    def _places_of(self, keys: Sequence[Hashable]) -> Ints:
        return np.fromiter((self._places.get(key, -1) for key in keys), dtype=np.int64, count=len(keys))

    def _start_over(self, names: tuple[str, ...] | None) -> None:
        self._names = names
        self._places = {}
        self._told = {}
        self._inexact = set()
        self._losses = np.zeros((len(self._columns.numbers), WINDOW, len(names or ())))
        self._evidence = np.zeros_like(self._losses)
        self._found = None


@compiled
def _means(seen: Floats) -> Floats:
    """The mean of the epochs that have a value, where the newest has one."""
    answer = np.full(len(seen), np.nan)
    for i in range(len(seen)):
        if seen[i, 0] != seen[i, 0]:
            continue
        total, count = 0.0, 0
        for value in seen[i]:
            if value == value:
                total += value
                count += 1
        answer[i] = total / count
    return answer


@compiled
def _judge(losses: Floats, evidence: Floats, seen: Floats, truth: Floats, keep: float) -> None:
    """Add the mean loss of every relation on these keys: how far off it is in units of the truth, 1 at most."""
    keys, reach, features = seen.shape
    for c in range(truth.shape[1]):
        for f in range(features):
            loss, judged = np.zeros(reach), np.zeros(reach)
            for i in range(keys):
                value = truth[i, c]
                if not np.isfinite(value) or seen[i, 0, f] != seen[i, 0, f]:
                    continue
                total, count = 0.0, 0
                for w in range(reach):
                    if seen[i, w, f] == seen[i, w, f]:
                        total += seen[i, w, f]
                        count += 1
                    off = abs(total / count - value)
                    loss[w] += 0.0 if off == 0.0 else min(1.0, off / max(abs(value), 1e-300))
                    judged[w] += 1.0
            for w in range(reach):
                if judged[w] > 0.0:
                    losses[c, w, f] = keep * losses[c, w, f] + loss[w] / judged[w]
                    evidence[c, w, f] = keep * evidence[c, w, f] + 1.0
