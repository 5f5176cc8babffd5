"""Aggregates of an epoch's input for each key: mean, greatest, least and sum of each number, and the count of rows."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from holdfast.prediction.column_roles import EPOCH, SEQ, is_number
from holdfast.prediction.predictors.kernels import compiled
from holdfast.prediction.predictors.predictor import Floats, Ints
from holdfast.prediction.series_rows import SlotIndex, row_keys, to_floats

KINDS = ("mean", "greatest", "least", "sum")
MOST_COLUMNS = 16
"""The most numbers of an input that are aggregated, because the cost of learning grows with them."""


@dataclass(frozen=True)
class KeyAggregates:
    """One column per name and one row per key; NaN where the input has no value."""

    names: tuple[str, ...]
    keys: tuple[Hashable, ...]
    values: Floats


def aggregate_by_key(table: pa.Table, keys: Sequence[str], *, stream: str = "input") -> KeyAggregates:
    """Return the aggregates of one input; empty if the input lacks a key column of the output.

    >>> rows = pa.table({"rack": ["a", "a", "b"], "cpu": [1.0, 3.0, 5.0]})
    >>> aggregates = aggregate_by_key(rows, ["rack"])
    >>> dict(zip(aggregates.names, aggregates.values[0].tolist()))["mean of input.cpu"], aggregates.keys
    (2.0, ('a', 'b'))
    """
    numbers = [f.name for f in table.schema if is_number(f) and f.name not in (*keys, EPOCH, SEQ)][:MOST_COLUMNS]
    if any(key not in table.column_names or pa.types.is_nested(table.schema.field(key).type) for key in keys):
        return KeyAggregates((), (), np.empty((0, 0)))
    key_of_row = row_keys(keys, table)
    slots = dict.fromkeys(key_of_row)
    slot_of_row = np.arange(len(key_of_row)) if len(slots) == len(key_of_row) else SlotIndex().add(key_of_row)
    rows = np.stack([to_floats(table[name]) for name in numbers], axis=1) if numbers else np.empty((table.num_rows, 0))
    names = [f"{kind} of {stream}.{name}" for kind in KINDS for name in numbers]
    return KeyAggregates((*names, f"rows of {stream}"), tuple(slots), _aggregate(rows, slot_of_row, len(slots)))


def join_aggregates(parts: Sequence[KeyAggregates]) -> KeyAggregates:
    """Return the aggregates of several inputs as one."""
    if len(parts) == 1:
        return parts[0]
    slots: dict[Hashable, int] = {}
    for part in parts:
        for key in part.keys:
            slots.setdefault(key, len(slots))
    values = np.full((len(slots), sum(len(part.names) for part in parts)), np.nan)
    first = 0
    for part in parts:
        values[[slots[key] for key in part.keys], first : first + len(part.names)] = part.values
        first += len(part.names)
    return KeyAggregates(tuple(name for part in parts for name in part.names), tuple(slots), values)


@compiled
def _aggregate(rows: Floats, slot_of_row: Ints, keys: int) -> Floats:
    numbers = rows.shape[1]
    answer = np.full((keys, 4 * numbers + 1), np.nan)
    answer[:, 4 * numbers] = 0.0
    count = np.zeros((keys, numbers))
    for r in range(len(rows)):
        k = slot_of_row[r]
        answer[k, 4 * numbers] += 1.0
        for c in range(numbers):
            value = rows[r, c]
            if not np.isfinite(value):
                continue
            if count[k, c] == 0.0:
                for kind in range(4):
                    answer[k, kind * numbers + c] = value
            else:
                answer[k, numbers + c] = max(answer[k, numbers + c], value)
                answer[k, 2 * numbers + c] = min(answer[k, 2 * numbers + c], value)
                answer[k, 3 * numbers + c] += value
            count[k, c] += 1.0
    for k in range(keys):
        for c in range(numbers):
            if count[k, c] > 1.0:
                answer[k, c] = answer[k, 3 * numbers + c] / count[k, c]
    return answer
