"""What a commit to the epoch log says."""

import json
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from holdfast.errors import HoldfastError

FORMAT = 1

AGENT_PREFIX = "agent of "
"""The producer of a predicted record is this prefix and the name of the task whose output the agent predicted."""


class Quality(StrEnum):
    """How far an epoch of a stream can be trusted."""

    EXACT = "exact"
    TENTATIVE = "tentative"
    PREDICTED = "predicted"
    ABSENT = "absent"


@dataclass(frozen=True)
class Record:
    """One epoch of one task's stream, as its producer committed it.

    `files` hold its rows; `checksum` is of the rows, so that two producers can be compared; `lineage` names, per input stream,
    the epoch's record that it was made from. `closed_s` is when the epoch ended at its source, `committed_s` when this record
    was made, both in seconds since 1970.
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
            raise HoldfastError(f"the absent epoch {self.epoch} of '{self.stream}' has rows; what is absent has none")

    def encode(self) -> bytes:
        return json.dumps({"format": FORMAT, **asdict(self)}, sort_keys=True).encode()

    @classmethod
    def decode(cls, text: bytes) -> "Record":
        """The record that `encode` made; HoldfastError if it is of another format."""
        data: dict[str, Any] = json.loads(text)
        if data.pop("format", None) != FORMAT:
            raise HoldfastError(f"a record of the epoch log has a format that this version does not read (it reads {FORMAT})")
        data |= {name: tuple(data[name]) for name in ("files", "lineage")} | {"quality": Quality(data["quality"])}
        return cls(**data)
