"""Whether two tables hold the same rows, and where they first part."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

DIGITS = 1e-9
"""How far two floating-point sums of the same numbers in another order may lie apart, relative to their size."""


@dataclass(frozen=True)
class Difference:
    """The first row, in the order of seq, that one table has and the other has not; None where it has no such row."""

    seq: int
    left: dict[str, Any] | None
    right: dict[str, Any] | None


def first_difference(left: pa.Table, right: pa.Table) -> Difference | None:
    """Compare two tables as bags of rows; floating-point columns may differ in the last digits that order of summation moves.

    >>> a = pa.table({"seq": [1, 2], "x": [0.1 + 0.2, 5.0]})
    >>> first_difference(a, pa.table({"seq": [2, 1], "x": [5.0, 0.3]})) is None
    True
    >>> first_difference(a, pa.table({"seq": [1], "x": [0.3]})).left
    {'seq': 2, 'x': 5.0}
    """
    one, other = _sorted(left), _sorted(right.select(left.column_names))
    common = min(len(one), len(other))
    equal = np.ones(common, bool)
    for name in one.columns:
        equal &= _equal(one[name].iloc[:common], other[name].iloc[:common])
    apart = np.flatnonzero(~equal)
    if len(apart) == 0 and len(one) == len(other):
        return None
    at = int(apart[0]) if len(apart) else common
    a, b = _row(left, one, at), _row(left, other, at)
    if a and b and a["seq"] != b["seq"]:
        a, b = (a, None) if a["seq"] < b["seq"] else (None, b)
    return Difference(seq=(a or b or {"seq": -1})["seq"], left=a, right=b)


def _sorted(table: pa.Table) -> pd.DataFrame:
    frame = table.to_pandas()
    keys = pd.DataFrame(index=frame.index)
    exact = [name for name in frame.columns if not _floating(frame[name])]
    for name in sorted(exact, key=lambda name: (name != "seq", name != "epoch", name)):
        keys[name] = frame[name].map(repr) if frame[name].dtype == object else frame[name]
    for name in frame.columns:
        if name not in exact:
            keys[name] = frame[name].map(lambda value: float(f"{value:.6g}"))  # so that last digits do not decide the order
    ordered: pd.DataFrame = frame.loc[keys.sort_values(list(keys.columns)).index].reset_index(drop=True)
    return ordered


def _floating(column: pd.Series) -> bool:
    return pd.api.types.is_float_dtype(column.dtype) and not (column.dropna() % 1 == 0).all()


def _equal(one: pd.Series, other: pd.Series) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
    if pd.api.types.is_float_dtype(one.dtype) and pd.api.types.is_float_dtype(other.dtype):
        size = float(np.nanmax(np.abs(one.to_numpy()), initial=0.0)) if len(one) else 0.0
        finite = size if np.isfinite(size) else 0.0
        close: np.ndarray[tuple[int], np.dtype[np.bool_]] = np.isclose(
            one.to_numpy(), other.to_numpy(), rtol=DIGITS, atol=finite * 1e-12, equal_nan=True
        )
        return close
    if one.dtype == object or other.dtype == object:
        return np.array([repr(a) == repr(b) for a, b in zip(one, other, strict=True)], bool)
    same: np.ndarray[tuple[int], np.dtype[np.bool_]] = ((one == other) | (one.isna() & other.isna())).to_numpy(bool)
    return same


def _row(table: pa.Table, frame: pd.DataFrame, at: int) -> dict[str, Any] | None:
    if at >= len(frame):
        return None
    return {name: _plain(frame[name].iloc[at]) for name in table.column_names}


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    return None if value is pd.NaT or (isinstance(value, float) and np.isnan(value)) else value
