"""What the writers of sinks write to. Each target takes the rows of an epoch in one step."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import pyarrow as pa

from holdfast.app.writers import FencedError, WriteToken
from holdfast.connectors.written_epochs import WrittenEpochs

from .rows import Row, to_rows


@dataclass
class Target:
    """A table. With a token it refuses older claims, in the same step that takes the rows."""

    epochs: dict[int, tuple[Row, ...]] = field(default_factory=dict)
    claims: dict[int, int] = field(default_factory=dict)

    def write(self, rows: pa.Table, epoch: int, quality: str, token: WriteToken | None) -> None:
        if token is not None:
            if token.claim < self.claims.get(epoch, 0):
                return
            self.claims[epoch] = token.claim
        self.epochs[epoch] = tuple(sorted(to_rows(rows)))


@dataclass
class FencedTarget:
    """A topic with transactions, as in Kafka: who opens it fences off all writers before. Each write also stores the epochs that
    are written. `writes` counts what a consumer sees of each epoch."""

    epochs: dict[int, tuple[Row, ...]] = field(default_factory=dict)
    writes: Counter[tuple[int, str]] = field(default_factory=Counter)
    written: WrittenEpochs = field(default_factory=WrittenEpochs)
    session: int = 0

    def open(self) -> tuple[int, WrittenEpochs]:
        """Return a new session and what was written before it."""
        self.session += 1
        return self.session, self.written

    def commit(self, session: int, rows: pa.Table, token: WriteToken, written: WrittenEpochs) -> None:
        """Take rows, and note which epochs are written then. Raises FencedError if there is a newer session."""
        if session != self.session:
            raise FencedError("another writer has opened the topic (simulated)")
        self.epochs[token.epoch] = tuple(sorted(to_rows(rows)))
        self.writes[token.epoch, token.kind] += 1
        self.written = written


class FencedWriter:
    """The writer of one replica. As `KafkaWriter` does, it opens the target for its first write, and again after every error."""

    def __init__(self, target: FencedTarget) -> None:
        self._target = target
        self._session = 0
        self._written = WrittenEpochs()

    def open(self) -> None:
        """Open the target unless this writer has."""
        if not self._session:
            self._session, self._written = self._target.open()

    def write(self, rows: pa.Table, token: WriteToken) -> None:
        """Write an epoch unless the target has it."""
        if self._written.has(token):
            return
        written = self._written.after(token)
        try:
            self._target.commit(self._session, rows, token, written)
        except FencedError:
            self.close()
            raise
        self._written = written

    def close(self) -> None:
        self._session = 0
