"""What an epoch's input says of every key: mean, greatest, least and sum of each number over the key's rows, and their count."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from holdfast.prediction.column_roles import EPOCH, SEQ, is_number
from holdfast.prediction.predictors.kernels import compiled
from holdfast.prediction.predictors.predictor import Floats, Ints
from holdfast.prediction.series_rows import floats_of, keys_of

KINDS = ("mean", "greatest", "least", "sum")
MOST_COLUMNS = 16
"""Numbers of an input that are looked at: what learning from them costs grows with their count."""


@dataclass(frozen=True)
class Digest:
    """A column per name and a row per key; NaN where nothing was said."""

    names: tuple[str, ...]
    keys: tuple[Hashable, ...]
    values: Floats


def digest(table: pa.Table, keys: Sequence[str], *, stream: str = "input") -> Digest:
    """The digest of one input; without names where its rows do not say which of the output's keys they are of.

    >>> rows = pa.table({"rack": ["a", "a", "b"], "cpu": [1.0, 3.0, 5.0]})
    >>> found = digest(rows, ["rack"])
    >>> dict(zip(found.names, found.values[0].tolist()))["mean of input.cpu"], found.keys
    (2.0, ('a', 'b'))
    """
    numbers = [f.name for f in table.schema if is_number(f) and f.name not in (*keys, EPOCH, SEQ)][:MOST_COLUMNS]
    if any(key not in table.column_names or pa.types.is_nested(table.schema.field(key).type) for key in keys):
        return Digest((), (), np.empty((0, 0)))
    places: dict[Hashable, int] = {}
    whose = keys_of(keys, table)
    row_of = np.fromiter((places.setdefault(key, len(places)) for key in whose), dtype=np.int64, count=len(whose))
    rows = np.stack([floats_of(table[name]) for name in numbers], axis=1) if numbers else np.empty((table.num_rows, 0))
    names = [f"{kind} of {stream}.{name}" for kind in KINDS for name in numbers]
    return Digest((*names, f"rows of {stream}"), tuple(places), _digested(rows, row_of, len(places)))


def side_by_side(digests: Sequence[Digest]) -> Digest:
    """Several inputs' digests as one."""
    if len(digests) == 1:
        return digests[0]
    places: dict[Hashable, int] = {}
    for each in digests:
        for key in each.keys:
            places.setdefault(key, len(places))
    values = np.full((len(places), sum(len(each.names) for each in digests)), np.nan)
    first = 0
    for each in digests:
        values[[places[key] for key in each.keys], first : first + len(each.names)] = each.values
        first += len(each.names)
    return Digest(tuple(name for each in digests for name in each.names), tuple(places), values)


@compiled
def _digested(rows: Floats, row_of: Ints, keys: int) -> Floats:
    numbers = rows.shape[1]
    answer = np.full((keys, 4 * numbers + 1), np.nan)
    answer[:, 4 * numbers] = 0.0
    count = np.zeros((keys, numbers))
    for r in range(len(rows)):
        k = row_of[r]
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
