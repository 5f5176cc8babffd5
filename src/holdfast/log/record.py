"""A record of the epoch log: the commit of one epoch of one task's stream."""

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from holdfast.errors import HoldfastError

FORMAT = 1

AGENT_PREFIX = "agent of "
"""The prefix of the producer of a predicted record; the name of the task follows."""


class Quality(StrEnum):
    """The quality of a record.

    EXACT: computed from complete input. TENTATIVE: computed from incomplete input. PREDICTED: by a prediction agent.
    ABSENT: no rows, because the producer is dead.
    """

    EXACT = "exact"
    TENTATIVE = "tentative"
    PREDICTED = "predicted"
    ABSENT = "absent"


@dataclass(frozen=True)
class Record:
    """One epoch of one task's stream, as its producer committed it.

    `files` name the files that hold the rows. `checksum` is that of the rows, so that the output of two producers can be compared.
    `lineage` names the input records that the epoch was computed from. `closed_s` is when the epoch ended at its source and
    `committed_s` when this record was created, both in seconds since 1970.
    """

    stream: str
    task: int
    epoch: int
    quality: Quality
    files: tuple[str, ...]
    rows: int
    first_seq: int | None
    last_seq: int | None
    checksum: str
    producer: str
    lineage: tuple[str, ...] = ()
    closed_s: float = 0.0
    committed_s: float = 0.0

    def __post_init__(self) -> None:
        if self.epoch < 0 or self.task < 0 or self.rows < 0:
            raise HoldfastError(f"a record's epoch, task and rows are at least 0, got {self.epoch}, {self.task}, {self.rows}")
        if self.quality is Quality.ABSENT and (self.rows or self.files):
            raise HoldfastError(f"the absent epoch {self.epoch} of '{self.stream}' has rows; an absent epoch has none")

    def encode(self) -> bytes:
        """Return the record as JSON."""
        return json.dumps({"format": FORMAT, **vars(self)}, sort_keys=True).encode()

    @classmethod
    def decode(cls, text: bytes) -> "Record":
        """Return the record that `encode` encoded. Raises HoldfastError if it has another format, ValueError if it is damaged."""
        data: dict[str, Any] = json.loads(text)
        if data.pop("format", None) != FORMAT:
            raise HoldfastError(f"a record of the epoch log has a format that this version does not read (it reads {FORMAT})")
        data |= {name: tuple(data[name]) for name in ("files", "lineage")} | {"quality": Quality(data["quality"])}
        return cls(**data)
