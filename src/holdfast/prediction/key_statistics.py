"""Statistics of a stream's keys: which there are, how often each has rows, and which rows to expect in the next epochs."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.prediction.column_roles import ColumnRoles
from holdfast.prediction.predictors.predictor import Bools, Floats, Ints
from holdfast.prediction.saved_arrays import Arrays, SavedArrays
from holdfast.prediction.series_rows import SlotIndex, row_keys
from holdfast.prediction.value_cache import grow

WINDOW = 16  # epochs over which the rows of a key are counted
SETTLED = 4  # epochs after which the rate of a new key is known
GONE = 3.0  # a key has ended after this many of its usual gaps; with rows at random times, one gap in twenty is as long
SMOOTHING = 0.2  # weight of the newest epoch in the pace of an advancing column


@dataclass(frozen=True)
class ExpectedRows:
    """The rows that an epoch should have. Row i belongs to key `slots[i]` and is its `step[i]`-th output from now, counted from 1.
    It lies at `share[i]` of the epoch."""

    slots: Ints
    step: Ints
    share: Floats


class KeyStatistics(SavedArrays):
    """Counts the rows of each key. A key's slot is its row in all arrays.

    Memory is bounded: a key without rows for `forget_after` epochs is forgotten, and beyond `most_keys` keys, those without rows
    for longest are forgotten.
    """

    PER_KEY = ("_window_counts", "_first_epoch", "_last_epoch", "_row_counts", "_usual_rate", "_position")
    FIXED = ("_front", "_pace", "_epochs_with_value", "_epochs_since_value")

    def __init__(self, columns: ColumnRoles, *, most_keys: int, forget_after: int) -> None:
        self._columns, self._most_keys, self._forget_after = columns, most_keys, forget_after
        self._slots = SlotIndex()
        self._rates: Floats | None = None
        self._last_rows = pa.schema([columns.schema.field(name) for name in (*columns.keys, *columns.carried)]).empty_table()
        self._window_counts = np.zeros((16, WINDOW), dtype=np.int64)
        self._first_epoch, self._last_epoch, self._row_counts = (np.zeros(16, dtype=np.int64) for _ in range(3))
        self._usual_rate = np.zeros(16)
        self._position = np.zeros((16, len(columns.advancing)), dtype=np.int64)  # last value of each advancing column
        self._front = np.zeros(len(columns.advancing), dtype=np.int64)
        self._pace = np.zeros(len(columns.advancing))
        self._epochs_with_value = np.zeros(len(columns.advancing), dtype=np.int64)
        self._epochs_since_value = np.zeros(len(columns.advancing), dtype=np.int64)
        self.epochs_observed = 0

    def __len__(self) -> int:
        return len(self._slots)

    @property
    def row_counts(self) -> Ints:
        """How many rows each key has had. This is a view."""
        return self._row_counts[: len(self)]

    def observe(self, table: pa.Table, keys: Sequence[Hashable], *, epochs: int) -> Ints:
        """Count the rows of an epoch and return the slot of each row. `keys` has each row's key.

        `epochs` is the distance from the epoch observed before.
        """
        known = len(self)
        slots = self._slots.add(keys)
        self._make_room(known)
        count = np.bincount(slots, minlength=len(self._row_counts))
        present = np.flatnonzero(count)
        self._reset_returned(present[present < known])
        self.epochs_observed += 1
        self._rates = None
        self._window_counts[:, self.epochs_observed % WINDOW] = count
        self._row_counts += count
        self._last_epoch[present] = self.epochs_observed
        self._update_usual_rate(present)
        self._epochs_since_value += epochs
        if len(slots):
            self._advance(table, slots)
            self._keep_last_rows(table, slots, known)
        return slots

    def expected_rows(self, ahead: int) -> ExpectedRows:
        """Return the rows to expect `ahead` epochs after the last one, from the recent rate of each key.

        A key whose silence exceeds GONE of its usual gaps gets no rows.
        """
        before, after = (self._rows_until(epochs) for epochs in (ahead - 1, ahead))
        count = after - before
        slots = np.repeat(np.arange(len(self)), count)
        nth = np.arange(len(slots)) - np.repeat(np.cumsum(count) - count, count)
        return ExpectedRows(slots, before[slots] + nth + 1, (nth + 1) / count[slots])

    def most_steps(self, ahead: int) -> int:
        """Return the highest `step` of the rows that are expected `ahead` epochs from now; 0 if none are expected."""
        before, after = (self._rows_until(epochs) for epochs in (ahead - 1, ahead))
        return int(np.max(after, where=after > before, initial=0))

    def _rows_until(self, epochs: int) -> Ints:
        """Return how many rows each key should have within so many epochs."""
        return np.floor(self._expected_rate() * epochs + 0.5).astype(np.int64)

    def advanced(self, expected: ExpectedRows, ahead: int) -> Ints:
        """Return the values of the advancing columns in the expected rows, one column each."""
        silent = (self.epochs_observed - self._last_epoch[expected.slots])[:, np.newaxis]
        epochs = silent + ahead - 1 + expected.share[:, np.newaxis]
        return self._position[expected.slots] + np.rint(epochs * self._pace).astype(np.int64)

    @property
    def ever_valued(self) -> Bools:
        """Which of the advancing columns ever had a value."""
        return np.asarray(self._epochs_with_value > 0)

    def keys_at(self, slots: Ints) -> list[Hashable]:
        """Return the keys at these slots."""
        keys = self._slots.keys
        return [keys[slot] for slot in slots.tolist()]

    def last_rows(self, slots: Ints) -> pa.Table:
        """Return the key columns and carried columns of these keys' last rows."""
        return self._last_rows.take(pa.array(slots)) if self._last_rows.column_names else self._last_rows

    def restore(self, arrays: Arrays, last_rows: pa.Table, *, keys: int, epochs_observed: int) -> None:
        """Continue from saved arrays and the last row of each key. Raises ValueError if they do not fit."""
        if last_rows.schema != self._last_rows.schema:
            raise ValueError(f"rows with the columns {last_rows.schema.names} do not fit")
        key_of_row = row_keys(self._columns.keys, last_rows) if self._columns.keys else [()] * keys
        slots = SlotIndex(key_of_row)
        if len(slots) != keys or (last_rows.column_names and last_rows.num_rows != keys):
            raise ValueError(f"{keys} keys were expected, {len(slots)} found")
        self.restore_arrays(arrays, keys)
        self._slots, self._last_rows, self.epochs_observed = slots, last_rows, epochs_observed

    def slots_to_keep(self) -> Ints | None:
        """Return the slots of the keys to keep, ascending; None if no key is to be forgotten."""
        last = self._last_epoch[: len(self)]
        kept_slots = np.flatnonzero(self.epochs_observed - last <= self._forget_after)
        if len(kept_slots) > self._most_keys:
            newest = np.lexsort((kept_slots, -last[kept_slots]))[: self._most_keys]
            kept_slots = np.sort(kept_slots[newest])
        return None if len(kept_slots) == len(self) else kept_slots

    def keep(self, kept_slots: Ints) -> None:
        """Forget all keys but these. They get new slots in this order."""
        keys = self._slots.keys
        self._slots, self._rates = SlotIndex([keys[slot] for slot in kept_slots]), None
        self._last_rows = self.last_rows(kept_slots)
        self._window_counts, self._position = self._window_counts[kept_slots], self._position[kept_slots]
        self._first_epoch, self._last_epoch = self._first_epoch[kept_slots], self._last_epoch[kept_slots]
        self._row_counts, self._usual_rate = self._row_counts[kept_slots], self._usual_rate[kept_slots]

    def _rate(self, slots: Ints) -> Floats:
        """Return the rows per epoch of each key, over its last epochs."""
        age = np.minimum(self.epochs_observed - self._first_epoch[slots] + 1, WINDOW)
        return np.asarray(self._window_counts[slots].sum(axis=1) / np.maximum(age, 1))

    def _expected_rate(self) -> Floats:
        """Return the rows per epoch to expect of each key: none if it has ended."""
        if self._rates is None:
            all_slots = np.arange(len(self))
            self._rates = np.where(self._has_ended(all_slots), 0.0, self._rate(all_slots))
        return self._rates

    def _has_ended(self, slots: Ints) -> Bools:
        silent, rate = self.epochs_observed - self._last_epoch[slots], self._rate(slots)
        usual = np.maximum(rate, self._usual_rate[slots])  # the rate alone falls with every silent epoch
        return np.asarray((rate == 0) | (silent * usual > GONE))

    def _update_usual_rate(self, slots: Ints) -> None:
        settled = slots[self.epochs_observed - self._first_epoch[slots] + 1 >= SETTLED]
        self._usual_rate[settled] = self._rate(settled)

    def _reset_returned(self, slots: Ints) -> None:
        """Restart the counts of keys that had ended and used to have rows in most epochs: the gap does not reflect their rate."""
        returned = slots[self._has_ended(slots) & (self._usual_rate[slots] >= 0.5)]
        self._window_counts[returned] = 0
        self._first_epoch[returned] = self.epochs_observed + 1

    def _make_room(self, known: int) -> None:
        size = len(self)
        self._window_counts, self._position = grow(self._window_counts, size), grow(self._position, size)
        self._first_epoch, self._last_epoch = grow(self._first_epoch, size), grow(self._last_epoch, size)
        self._row_counts, self._usual_rate = grow(self._row_counts, size), grow(self._usual_rate, size)
        self._first_epoch[known:size] = self.epochs_observed + 1

    def _advance(self, table: pa.Table, slots: Ints) -> None:
        """Update the positions and the pace of the advancing columns. A row without a value gets the epoch's greatest value."""
        for number, name in enumerate(self._columns.advancing):
            column = table[name].cast(pa.int64())
            if column.null_count == len(column):
                continue
            front = pc.max(column).as_py()
            if self._epochs_with_value[number]:
                pace = (front - self._front[number]) / self._epochs_since_value[number]
                first = self._epochs_with_value[number] == 1
                self._pace[number] = pace if first else (1 - SMOOTHING) * self._pace[number] + SMOOTHING * pace
            self._position[slots, number], self._front[number] = column.fill_null(front).to_numpy(), front
            self._epochs_with_value[number], self._epochs_since_value[number] = self._epochs_with_value[number] + 1, 0

    def _keep_last_rows(self, table: pa.Table, slots: Ints, known: int) -> None:
        if not self._last_rows.column_names or (not self._columns.carried and len(self) == known):
            return
        newest = np.arange(len(self))
        newest[slots] = self._last_rows.num_rows + np.arange(len(slots))  # of several rows of a key, the last one wins
        both = pa.concat_tables([self._last_rows, table.select(self._last_rows.schema.names).cast(self._last_rows.schema)])
        self._last_rows = both.combine_chunks().take(pa.array(newest))
