"""What a sink's writer has written, noted where every replica of the sink sees it, so that each epoch is written once."""

from collections.abc import Callable
from typing import Literal
from urllib.parse import quote
from uuid import uuid4

from holdfast.log import Store
from holdfast.log.checkpoints import Checkpoints

CLAIM_TIMEOUT_S = 10.0
"""How long a replica that has begun to write is given before another one writes in its stead: it may have died meanwhile."""


class WriteClaims:
    """The notes of one replica of a sink: which epochs it begins to write, and which are written, by whomever.

    Whoever notes first that it begins is the one to write. An epoch is thus written once, unless its writer dies in the middle or
    takes longer than it is given. Notes last until the sink has a checkpoint past them, which says the same.
    """

    def __init__(self, out: Store, task: str, *, checkpoints: Checkpoints, clock: Callable[[], float]) -> None:
        self._out, self._task, self._checkpoints, self._clock = out, task, checkpoints, clock
        self._prefix = f"{quote(task.rpartition('/')[0], safe='')}/"
        self._me = uuid4().hex.encode()
        self._seen_s: dict[str, float] = {}

    def begin(self, epoch: int, kind: str) -> Literal["write", "wait", "written"]:
        """What to do about an epoch: write it, wait for another replica that is at it, or nothing more."""
        name = self._name(epoch, kind)
        if self._out.read(f"{name}.written") is not None:
            self._seen_s.pop(name, None)
            return "written"
        if self._out.create(f"{name}.begun", self._me):
            saved = self._checkpoints.latest_epoch(self._task)
            if saved is None or saved < epoch:
                return "write"
            self.give_up(epoch, kind)  # there was no note because it is long done with
            return "written"
        if self._out.read(f"{name}.begun") == self._me:
            return "write"
        since_s = self._seen_s.setdefault(name, self._clock())
        return "write" if self._clock() - since_s > CLAIM_TIMEOUT_S else "wait"

    def end(self, epoch: int, kind: str) -> bool:
        """Note that an epoch is written; whether this replica is the first to say so."""
        name = self._name(epoch, kind)
        self._seen_s.pop(name, None)
        return self._out.create(f"{name}.written", b"")

    def give_up(self, epoch: int, kind: str) -> None:
        """Let another attempt begin at once."""
        self._out.remove([f"{self._name(epoch, kind)}.begun"])

    def forget(self, until: int) -> None:
        """Remove the notes up to an epoch that the sink has a checkpoint of."""
        names = [name for name in self._out.names(self._prefix) if name.endswith((".begun", ".written"))]
        self._out.remove([name for name in names if int(name.rsplit("/", 1)[1].split(".", 1)[0]) <= until])

    def _name(self, epoch: int, kind: str) -> str:
        return f"{self._prefix}{epoch:020d}.{kind}"
