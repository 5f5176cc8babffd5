"""The interface of a connector to replayable data: it finds the newest position, and reads the rows of a range."""

from typing import Protocol

import pyarrow as pa

from holdfast.app.writers import WriteToken
from holdfast.log.range_claims import Positions, Range


class RangeReader(Protocol):
    """Reads ranges of replayable data for one task of a source.

    A method raises UnavailableError if the data cannot be reached at present, and HoldfastError for an error
    that waiting does not fix.
    """

    has_own_positions: bool
    """Whether each task of a source has positions of its own. Otherwise all its tasks begin at the same position."""
    bad_messages: int
    """How many messages or commits were skipped because they cannot be read."""
    lost_rows: int
    """How many rows were removed from the data before they could be read, as far as that is known. A commit counts as one."""

    def first(self) -> Positions:
        """Return where a new job begins to read."""
        ...

    def newest(self, start: Positions, *, before_s: float | None) -> Positions:
        """Return how far an epoch that begins at `start` reaches: to the newest row, at most to the source's limit.

        With `before_s`, the epoch ended in the past: it contains the rows that arrived before this time, if the data has times.
        """
        ...

    def read(self, rows: Range) -> pa.Table:
        """Return the rows of a range in a fixed order, with the columns of the source's schema but `seq` and `epoch`.

        `time` may be missing or null; the source then has the times of arrival.
        """
        ...

    def write_dead_letters(self, token: WriteToken) -> None:
        """Write the messages of the last read that could not be parsed to the dead-letter topic, if the options name one.

        The messages of an epoch are written once, however many replicas call this. Raises FencedError if another replica has
        taken over.
        """
        return

    def backlog(self, at: Positions) -> dict[str, int]:
        """Return how many rows each part of the data had past a position, at the last look; empty if that is unknown."""
        return {}

    def close(self) -> None:
        """Close connections."""
        return
