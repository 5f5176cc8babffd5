"""Which keys a stream has, how often each appears, and what its last row said."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.prediction.column_roles import Columns
from holdfast.prediction.predictors.predictor import Bools, Floats, Ints
from holdfast.prediction.value_cache import grown

WINDOW = 16  # epochs over which appearances are counted
KNOWN = 4  # epochs of a key's life after which its pace is its own
GONE = 3.0  # usual gaps of silence after which a key counts as gone: one in twenty, were its rows to come at random


@dataclass(frozen=True)
class Expected:
    """The rows that an epoch should have: row i is of key `slots[i]`, its `step[i]`-th output from here (from 1), at
    `share[i]` of the epoch."""

    slots: Ints
    step: Ints
    share: Floats


class Census:
    """The keys of a stream by number. Bounded: a key unseen for `forget_after` epochs is forgotten, and of more than
    `most_keys` those unseen longest.
    """

    def __init__(self, columns: Columns, *, most_keys: int, forget_after: int) -> None:
        self._columns, self._most_keys, self._forget_after = columns, most_keys, forget_after
        self._slots: dict[Hashable, int] = {}
        self._last = pa.schema([columns.schema.field(name) for name in (*columns.keys, *columns.carried)]).empty_table()
        self._appeared = np.zeros((16, WINDOW), dtype=np.int64)
        self._born, self._seen, self._rows = (np.zeros(16, dtype=np.int64) for _ in range(3))
        self._usual = np.zeros(16)
        self._at = np.zeros((16, len(columns.advancing)), dtype=np.int64)
        self._front = np.zeros(len(columns.advancing), dtype=np.int64)
        self._pace = np.zeros(len(columns.advancing))
        self._told = np.zeros(len(columns.advancing), dtype=np.int64)  # epochs that said where a column stands
        self._since = np.zeros(len(columns.advancing), dtype=np.int64)  # epochs since the last of them
        self.turns = 0

    def __len__(self) -> int:
        return len(self._slots)

    @property
    def rows(self) -> Ints:
        """How many rows each key has had. A view."""
        return self._rows[: len(self)]

    def take(self, table: pa.Table, keys: Sequence[Hashable], *, epochs: int) -> Ints:
        """Take in the rows of an epoch, in order, each of its key, `epochs` after the one before; the key number of each."""
        known = len(self)
        slots = np.fromiter((self._slots.setdefault(key, len(self._slots)) for key in keys), dtype=np.int64, count=len(keys))
        self._make_room(known)
        count = np.bincount(slots, minlength=len(self._rows))
        here = np.flatnonzero(count)
        self._return(here[here < known])
        self.turns += 1
        self._appeared[:, self.turns % WINDOW] = count
        self._rows += count
        self._seen[here] = self.turns
        self._note_pace(here)
        self._since += epochs
        if len(slots):
            self._advance(table, slots)
            self._remember(table, slots, known)
        return slots

    def expected(self, ahead: int) -> Expected:
        """The rows to expect `ahead` epochs after the last one, by the pace of each key over the last epochs.

        A key that has been silent for longer than three of its usual gaps is gone.
        """
        every = np.arange(len(self))
        rate = np.where(self._gone(every), 0.0, self._rate(every))
        before, after = (np.floor(rate * epochs + 0.5).astype(np.int64) for epochs in (ahead - 1, ahead))
        count = after - before
        slots = np.repeat(np.arange(len(self)), count)
        nth = np.arange(len(slots)) - np.repeat(np.cumsum(count) - count, count)
        return Expected(slots, before[slots] + nth + 1, (nth + 1) / count[slots])

    def advanced(self, expected: Expected, ahead: int) -> Ints:
        """Where the advancing columns of the expected rows should stand, a column each."""
        silent = (self.turns - self._seen[expected.slots])[:, np.newaxis]
        epochs = silent + ahead - 1 + expected.share[:, np.newaxis]
        return self._at[expected.slots] + np.rint(epochs * self._pace).astype(np.int64)

    @property
    def told(self) -> Bools:
        """Which of the advancing columns ever had a value."""
        return np.asarray(self._told > 0)

    def named(self, slots: Ints) -> list[Hashable]:
        """The keys of these numbers."""
        keys = list(self._slots)
        return [keys[slot] for slot in slots.tolist()]

    def last_rows(self, slots: Ints) -> pa.Table:
        """Keys and carried columns of these keys' last rows."""
        return self._last.take(pa.array(slots)) if self._last.column_names else self._last

    def forgettable(self) -> Ints | None:
        """The numbers of the keys to keep, in order, if there are any to forget."""
        seen = self._seen[: len(self)]
        kept = np.flatnonzero(self.turns - seen <= self._forget_after)
        if len(kept) > self._most_keys:
            newest = np.lexsort((kept, -seen[kept]))[: self._most_keys]
            kept = np.sort(kept[newest])
        return None if len(kept) == len(self) else kept

    def keep(self, kept: Ints) -> None:
        """Forget all keys but these, which are numbered anew in this order."""
        keys = list(self._slots)
        self._slots = {keys[slot]: number for number, slot in enumerate(kept)}
        self._last = self.last_rows(kept)
        self._appeared, self._born, self._seen = self._appeared[kept], self._born[kept], self._seen[kept]
        self._rows, self._at, self._usual = self._rows[kept], self._at[kept], self._usual[kept]

    def _rate(self, slots: Ints) -> Floats:
        """Rows an epoch, over the last epochs of each key's life."""
        age = np.minimum(self.turns - self._born[slots] + 1, WINDOW)
        return np.asarray(self._appeared[slots].sum(axis=1) / np.maximum(age, 1))

    def _gone(self, slots: Ints) -> Bools:
        silent, rate = self.turns - self._seen[slots], self._rate(slots)
        usual = np.maximum(rate, self._usual[slots])  # in a long silence the rate falls with every epoch
        return np.asarray((rate == 0) | (silent * usual > GONE))

    def _note_pace(self, slots: Ints) -> None:
        grown_up = slots[self.turns - self._born[slots] + 1 >= KNOWN]
        self._usual[grown_up] = self._rate(grown_up)

    def _return(self, slots: Ints) -> None:
        """Let keys that were gone, and came in most epochs before, begin anew: the gap says nothing of their pace."""
        back = slots[self._gone(slots) & (self._usual[slots] >= 0.5)]
        self._appeared[back] = 0
        self._born[back] = self.turns + 1

    def _make_room(self, known: int) -> None:
        size = len(self)
        self._appeared, self._at = grown(self._appeared, size), grown(self._at, size)
        self._born, self._seen, self._rows = (grown(a, size) for a in (self._born, self._seen, self._rows))
        self._usual = grown(self._usual, size)
        self._born[known:size] = self.turns + 1

    def _advance(self, table: pa.Table, slots: Ints) -> None:
        """Note where the advancing columns stand and how fast they go. A row without a value stands at the front."""
        for number, name in enumerate(self._columns.advancing):
            column = table[name].cast(pa.int64())
            if column.null_count == len(column):
                continue
            front = pc.max(column).as_py()
            if self._told[number]:
                pace = (front - self._front[number]) / self._since[number]
                self._pace[number] = pace if self._told[number] == 1 else 0.8 * self._pace[number] + 0.2 * pace
            self._at[slots, number], self._front[number] = column.fill_null(front).to_numpy(), front
            self._told[number], self._since[number] = self._told[number] + 1, 0

    def _remember(self, table: pa.Table, slots: Ints, known: int) -> None:
        if not self._last.column_names or (not self._columns.carried and len(self) == known):
            return
        newest = np.arange(len(self))
        newest[slots] = self._last.num_rows + np.arange(len(slots))  # of several rows of a key, the last one stays
        both = pa.concat_tables([self._last, table.select(self._last.schema.names).cast(self._last.schema)])
        self._last = both.combine_chunks().take(pa.array(newest))
