"""What a connector to replayable data does for a source: find the newest position, and read the rows of a range."""

from typing import Protocol

import pyarrow as pa

from holdfast.app.writers import WriteToken
from holdfast.log.range_claims import Positions, Range


class RangeReader(Protocol):
    """Reads ranges of replayable data for one task of a source.

    A method raises UnavailableError if the data cannot be reached at present, and HoldfastError for what will not change by
    waiting.
    """

    has_own_positions: bool
    """Whether the positions of one task say nothing about those of another. Else all tasks of a source begin at the same one."""
    bad_messages: int
    """How many messages or commits were skipped because they cannot be read."""
    lost_rows: int
    """How many rows were removed from the data before they could be read, as far as that is known. A commit counts as one."""

    def first(self) -> Positions:
        """Return where a new job begins to read."""
        ...

    def newest(self, start: Positions, *, before_s: float | None) -> Positions:
        """Return how far an epoch that begins at `start` reaches: to the newest row, at most to the source's limit.

        With `before_s`, an epoch of the past is cut: it contains the rows that arrived before this time, if the data has times.
        """
        ...

    def read(self, rows: Range) -> pa.Table:
        """Return the rows of a range in a fixed order, with the columns of the source's schema but `seq` and `epoch`.

        `time` may be missing or null; the source then has the times of arrival.
        """
        ...

    def write_dead_letters(self, token: WriteToken) -> None:
        """Write the messages of the last read that could not be parsed to the topic for them, if the options have one.

        The messages of an epoch are written once, however many replicas do this. Raises FencedError if another one does it now.
        """
        return

    def backlog(self, at: Positions) -> dict[str, int]:
        """Return how many rows past a position each part of the data had when it was last looked at; nothing if that is unknown."""
        return {}

    def close(self) -> None:
        """Close connections."""
        return
