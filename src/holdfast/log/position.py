"""How far a replica has come: an epoch, and the rows it keeps there."""

from dataclasses import dataclass, field

import pyarrow as pa


@dataclass(frozen=True)
class Position:
    """The state of a task after an epoch.

    `after` is the highest seq that it has read; of a source with a reader, the last batch. `tainted` is the last epoch whose
    incomplete input still shows in the kept rows; None where they are clean.
    """

    epoch: int
    kept: dict[str, pa.Table] = field(default_factory=dict)
    after: int = 0
    tainted: int | None = None
