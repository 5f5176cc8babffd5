"""Claims on ranges of replayable data: which offsets or files belong to an epoch of a source's task.

The claim of an epoch is an object that is created if absent, before the range is read. Every replica reads the range that the log
has, so all produce the same rows. A claim names the positions at which its range starts and ends. The next epoch's range starts
where it ends, so nothing is read twice and nothing is left out.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias
from urllib.parse import quote

from holdfast.errors import HoldfastError
from holdfast.log import Store
from holdfast.log.checkpoints import Checkpoints
from holdfast.log.run_ids import agree_on_run_id

Positions: TypeAlias = Mapping[str, int | str]
"""A place in replayable data: for each part of it (such as a partition), where the next row begins."""


@dataclass(frozen=True)
class Range:
    """The part of replayable data from `start` up to `end`."""

    start: Positions
    end: Positions


class RangeClaims:
    """The claims of one task of a source. Its replicas share them, and they are kept until a checkpoint is past their epoch."""

    def __init__(self, store: Store, task: str, *, checkpoints: Checkpoints) -> None:
        self._store, self._task, self._checkpoints = store, task, checkpoints
        self._folder = f"ranges/{quote(task, safe='')}/"

    def read(self, epoch: int) -> Range | None:
        """Return the claimed range of an epoch, or None if it has none."""
        name = self._name(epoch)
        content = self._store.read(name)
        if content is None:
            return None
        try:
            claim = json.loads(content)
            return Range(claim["start"], claim["end"])
        except (ValueError, KeyError, TypeError) as error:
            raise self._store.damage(name, error) from error

    def claim(self, epoch: int, propose: Callable[[], Range]) -> Range | None:
        """Return the claimed range of an epoch; claim the proposed one if it has none.

        Return None if the task has a checkpoint at or past the epoch: its claim may have been removed. The checkpoint is looked up
        after the claim was created, so a replica that was stopped for a while never uses a second range for an epoch.
        """
        claimed_range = self.read(epoch)
        if claimed_range is not None:
            return claimed_range
        proposal = propose()
        content = json.dumps({"start": proposal.start, "end": proposal.end}, sort_keys=True).encode()
        self._store.create(self._name(epoch), content)
        checkpoint_epoch = self._checkpoints.latest_epoch(self._task)
        if checkpoint_epoch is not None and checkpoint_epoch >= epoch:
            return None
        return self.read(epoch)

    def agree_on_start(self, name: str, propose: Callable[[], Positions]) -> Positions:
        """Return where a new job begins to read: where the first replica of any task of the source `name` proposed."""
        key = f"range_starts/{quote(name, safe='')}"
        content = self._store.read(key)
        if content is None:
            self._store.create(key, json.dumps(propose(), sort_keys=True).encode())
            content = self._store.read(key)
        try:
            start: Positions = json.loads(content or b"")
        except ValueError as error:
            raise self._store.damage(key, error) from error
        return start

    def run_id(self) -> str:
        """Return the id that identifies the task's writes in targets outside the log."""
        return agree_on_run_id(self._store, f"{self._folder}run")

    def missing(self, epoch: int) -> HoldfastError:
        """Return the error for a claim that no longer exists although its epoch is needed."""
        return self._store.damage(self._name(epoch), "it is missing")

    def remove_until(self, epoch: int) -> None:
        """Remove the claims before an epoch at which the task has a checkpoint. The epoch's own claim says where to continue."""
        numbers = [name.rsplit("/", 1)[1] for name in self._store.names(self._folder)]
        self._store.remove([self._name(int(number)) for number in numbers if number.isdigit() and int(number) < epoch])

    def _name(self, epoch: int) -> str:
        return f"{self._folder}{epoch:020d}"
