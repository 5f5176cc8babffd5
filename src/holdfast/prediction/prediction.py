"""The result of predicting an epoch."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True)
class Prediction:
    """A predicted epoch. `rows` have the stream's schema and are sorted by seq; None if the predictor abstains, and `why`.

    `used` counts the series that each algorithm predicted. `short` counts the keys with too little history.
    """

    epoch: int
    rows: pa.Table | None
    used: dict[str, int]
    short: int
    why: str
    took_s: float
