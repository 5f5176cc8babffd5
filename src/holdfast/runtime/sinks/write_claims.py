"""How the replicas of a sink with a writer avoid writing at the same time: a replica claims an epoch before it writes.

The claims on an epoch are objects in the log with ascending numbers. Each is created if absent, so a number belongs to one replica.
A claim is superseded by the next number, never removed while its epoch can still be written. This gives the order that a
`WriteToken` promises:

- A replica that takes over, and the correction after the first output, create the next number. Theirs is larger.
- The correction is claimed after the first output is marked as written. A first output is never claimed after that.
- Claims are removed after the sink has a checkpoint past their epoch. A replica reads the newest checkpoint after it has created a
  claim, so a replica that counts from the beginning again finds the checkpoint and does not write.
"""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Literal
from uuid import uuid4

from holdfast.app.writers import WriteKind, WriteToken
from holdfast.errors import LogError
from holdfast.log import Store
from holdfast.log.checkpoints import Checkpoints
from holdfast.log.object_names import quoted
from holdfast.log.run_ids import agree_on_run_id

CLAIM_TIMEOUT_S = 10.0
"""How long a claim that is not renewed keeps other replicas from writing. The replica that holds it may have died."""
RENEW_EVERY_S = 2.0
RENEWAL_LIMIT_S = 60.0
"""How long one call of a writer renews its claim. A writer that hangs must not keep other replicas from writing forever."""

Renewing = Callable[[Callable[[], None]], AbstractContextManager[None]]
"""Calls a function again and again while the context lasts."""


@contextmanager
def renew_in_thread(renew: Callable[[], None]) -> Iterator[None]:
    """Call `renew` every RENEW_EVERY_S seconds in a thread, for at most RENEWAL_LIMIT_S."""
    ended = threading.Event()

    def run() -> None:
        for _ in range(int(RENEWAL_LIMIT_S / RENEW_EVERY_S)):
            if ended.wait(RENEW_EVERY_S):
                return
            renew()

    threading.Thread(target=run, name="holdfast-renew-claim", daemon=True).start()
    try:
        yield
    finally:
        ended.set()


class WriteClaims:
    """The claims of one replica of a sink on epochs, in the log.

    The first replica to claim an epoch writes it. Another one takes over if the claim was released, or was neither renewed nor
    marked as written for CLAIM_TIMEOUT_S.
    """

    def __init__(
        self,
        log: Store,
        task: str,
        *,
        checkpoints: Checkpoints,
        clock: Callable[[], float],
        new_id: Callable[[], str] = lambda: uuid4().hex,
        renewing: Renewing = renew_in_thread,
    ) -> None:
        self._log, self._task, self._checkpoints, self._clock, self._renewing = log, task, checkpoints, clock, renewing
        self._prefix = f"writes/{quoted(task)}/"
        self._claimant = new_id()
        self._run = agree_on_run_id(log, self._run_name, new_id)
        self._newest: dict[int, int] = {}
        self._last_change: dict[int, tuple[tuple[int, bytes | None], float]] = {}

    def claim(self, epoch: int, kind: WriteKind) -> WriteToken | Literal["wait", "written"]:
        """Claim an epoch's first output or correction. Return a token to write with, or whether to wait or to skip the epoch."""
        if self._log.read(self._written_name(epoch, kind)) is not None:
            return "written"
        number, holder = self._read_newest(epoch)
        if holder is not None and (holder[0], kind) == ("final", "first"):
            return "written"
        if holder != (kind, self._claimant):  # else the claim is there, and an earlier attempt to write or to record it failed
            if holder is not None and holder[0] == kind and not self._is_expired(epoch, number):
                return "wait"
            number += 1
            if not self._log.create(self._claim_name(epoch, number), _encode_holder(kind, self._claimant)):
                return "wait"
        if self._remove_if_over(epoch, self._claim_name(epoch, number)):
            return "written"
        return WriteToken(self._run, epoch, kind, number)

    def renewing(self, token: WriteToken) -> AbstractContextManager[None]:
        """Return a context that renews a claim while it lasts."""
        count = 0

        def renew() -> None:
            nonlocal count
            count += 1
            with suppress(LogError):  # the log is full or unreachable; the next renewal may succeed
                self._log.replace(f"{self._claim_name(token.epoch, token.claim)}.renewed", str(count).encode())

        return self._renewing(renew)

    def holds(self, token: WriteToken) -> bool:
        """Return whether a claim is still this replica's and the newest one of its epoch."""
        return self._read_newest(token.epoch) == (token.claim, (token.kind, self._claimant))

    def mark_written(self, token: WriteToken) -> bool:
        """Note that an epoch is written. Return whether this replica is the first to note it."""
        name = self._written_name(token.epoch, token.kind)
        return self._log.create(name, b"") and not self._remove_if_over(token.epoch, name)

    def release(self, token: WriteToken) -> None:
        """Give up a claim after the writer has failed, so that any replica can take over at once."""
        self._log.create(f"{self._claim_name(token.epoch, token.claim)}.released", b"")

    def remove_until(self, epoch: int) -> None:
        """Remove the claims up to an epoch, at which the sink has a checkpoint."""
        names = [name for name in self._log.names(self._prefix) if name != self._run_name]
        self._log.remove([name for name in names if int(name.removeprefix(self._prefix).split("/", 1)[0]) <= epoch])
        self._newest = {each: number for each, number in self._newest.items() if each > epoch}
        self._last_change = {each: change for each, change in self._last_change.items() if each > epoch}

    def _remove_if_over(self, epoch: int, name: str) -> bool:
        """Remove an object that was just created if the sink has a checkpoint at its epoch or past it: others may be removed."""
        saved = self._checkpoints.latest_epoch(self._task)
        if saved is None or saved < epoch:
            return False
        self._log.remove([name])
        return True

    def _is_expired(self, epoch: int, number: int) -> bool:
        """Return whether another replica's claim was released, or has not changed for CLAIM_TIMEOUT_S by this replica's clock."""
        name = self._claim_name(epoch, number)
        if self._log.read(f"{name}.released") is not None:
            return True
        state, now_s = (number, self._log.read(f"{name}.renewed")), self._clock()
        known, since_s = self._last_change.get(epoch, (None, now_s))
        if state != known:
            self._last_change[epoch] = state, now_s
            return False
        return now_s - since_s > CLAIM_TIMEOUT_S

    def _read_newest(self, epoch: int) -> tuple[int, tuple[str, str] | None]:
        """Return the number of an epoch's newest claim, its kind and its claimant; 0 and None if it has none."""
        number = self._newest.get(epoch, 0)
        content = self._log.read(self._claim_name(epoch, number)) if number else None
        while (newer := self._log.read(self._claim_name(epoch, number + 1))) is not None:
            number, content = number + 1, newer
        self._newest[epoch] = number
        try:
            return number, _decode_holder(content) if content is not None else None
        except (ValueError, KeyError) as error:
            raise self._log.damage(self._claim_name(epoch, number), error) from error

    @property
    def _run_name(self) -> str:
        return f"{self._prefix}run"

    def _claim_name(self, epoch: int, number: int) -> str:
        return f"{self._prefix}{epoch:020d}/{number:06d}"

    def _written_name(self, epoch: int, kind: WriteKind) -> str:
        return f"{self._prefix}{epoch:020d}/{kind}.written"


def _encode_holder(kind: WriteKind, claimant: str) -> bytes:
    return json.dumps({"kind": kind, "claimant": claimant}).encode()


def _decode_holder(content: bytes) -> tuple[str, str]:
    holder = json.loads(content)
    return holder["kind"], holder["claimant"]
