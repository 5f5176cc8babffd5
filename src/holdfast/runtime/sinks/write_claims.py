"""How a sink with a writer avoids writing twice: a replica claims an epoch, visibly to all others, before it writes."""

from collections.abc import Callable
from typing import Literal
from urllib.parse import quote
from uuid import uuid4

from holdfast.log import Store
from holdfast.log.checkpoints import Checkpoints

CLAIM_TIMEOUT_S = 10.0
"""How long a claim keeps other replicas from writing. The replica that holds it may have died."""


class WriteClaims:
    """The claims of one replica of a sink on epochs, in the store of the sink's output.

    The first replica to claim an epoch writes it. An epoch is therefore written once, unless its writer dies in the middle or takes
    longer than CLAIM_TIMEOUT_S. Claims are removed once a checkpoint of the sink shows that the epochs are written.
    """

    def __init__(self, out: Store, task: str, *, checkpoints: Checkpoints, clock: Callable[[], float]) -> None:
        self._out, self._task, self._checkpoints, self._clock = out, task, checkpoints, clock
        self._prefix = f"{quote(task.rpartition('/')[0], safe='')}/"
        self._claimant = uuid4().hex.encode()
        self._first_seen_s: dict[str, float] = {}

    def claim(self, epoch: int, kind: str) -> Literal["write", "wait", "written"]:
        """Claim an epoch's first output or correction. Return whether to write it, to wait for another replica, or to skip it."""
        name = self._name(epoch, kind)
        if self._out.read(f"{name}.written") is not None:
            self._first_seen_s.pop(name, None)
            return "written"
        if self._out.create(f"{name}.begun", self._claimant):
            saved = self._checkpoints.latest_epoch(self._task)
            if saved is None or saved < epoch:
                return "write"
            self.release(epoch, kind)  # the epoch was written, and its claim removed after a checkpoint
            return "written"
        if self._out.read(f"{name}.begun") == self._claimant:
            return "write"
        since_s = self._first_seen_s.setdefault(name, self._clock())
        return "write" if self._clock() - since_s > CLAIM_TIMEOUT_S else "wait"

    def mark_written(self, epoch: int, kind: str) -> bool:
        """Note that an epoch is written. Return whether this replica is the first to note it."""
        name = self._name(epoch, kind)
        self._first_seen_s.pop(name, None)
        return self._out.create(f"{name}.written", b"")

    def release(self, epoch: int, kind: str) -> None:
        """Withdraw a claim, so that any replica can try again at once."""
        self._out.remove([f"{self._name(epoch, kind)}.begun"])

    def remove_until(self, epoch: int) -> None:
        """Remove the claims up to an epoch, at which the sink has a checkpoint."""
        names = [name for name in self._out.names(self._prefix) if name.endswith((".begun", ".written"))]
        self._out.remove([name for name in names if int(name.rsplit("/", 1)[1].split(".", 1)[0]) <= epoch])

    def _name(self, epoch: int, kind: str) -> str:
        return f"{self._prefix}{epoch:020d}.{kind}"
