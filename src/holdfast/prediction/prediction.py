"""What standing in for an epoch came to."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True)
class Prediction:
    """A predicted epoch. `rows` have the stream's schema, in order of seq; None: the stand-in abstains, and `why` says why.

    `used` counts the series that each algorithm answered for; `short` the keys with too little history.
    """

    epoch: int
    rows: pa.Table | None
    used: dict[str, int]
    short: int
    why: str
    took_s: float
