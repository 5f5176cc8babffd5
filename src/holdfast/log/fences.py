"""Fences: objects in the log that stop a canceled job from writing, even on a node that cannot be reached.

A fence is created, like a record, under the name of the first epoch of a stream that has no record. The first writer wins: either
the job's record is stored and the fence moves to the next epoch, or the fence is stored and the record is not. A replica of the job
that reads the fence, or fails to write because of it, ends with FencedOffError. The records of the next job, from that epoch on,
have other names. So a replica that never reaches the fence, because it continues from a newer checkpoint, writes records that
nobody reads.

A fence needs no request per epoch. An object in the folder `fences` announces it to processes that start later. A process lists the
folder once, and again after many reads that returned nothing.
"""

import json
from urllib.parse import quote, unquote

from holdfast.errors import FencedOffError, HoldfastError
from holdfast.log.store import Store

PREFIX = b'{"fenced":'
FOLDER, OWNERS = "fences/", "fenced/"
LOAD_AFTER_READS = 2000
"""After this many reads that returned nothing, the fences are listed again. A waiting replica reads about 100 times a second."""


class Fences:
    """The fences of a log, as one process knows them. A process of the job `store.owner` may not pass a fence of that job."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._fences: dict[tuple[str, int], list[tuple[int, str]]] = {}
        self._reads_until_load = 0

    def section(self, stream: str, task: int, epoch: int) -> int:
        """Return how many fences of a stream are at an epoch or before it. Raises FencedOffError for a fence of this job."""
        if self._reads_until_load == 0:
            self.load()
        fences = self._fences.get((stream, task))
        if not fences:
            return 0
        if self._store.owner and any(owner == self._store.owner for _, owner in fences):
            raise fenced_off(self._store, stream, task)
        return sum(first <= epoch for first, _ in fences)

    def has(self, stream: str, task: int, owner: str) -> bool:
        return any(each == owner for _, each in self._fences.get((stream, task), ()))

    def note(self, stream: str, task: int, *, epoch: int, owner: str) -> None:
        """Store that a fence is in the place of an epoch's record, so that processes that start later know it."""
        fences = self._fences.setdefault((stream, task), [])
        self._store.create(
            f"{FOLDER}{quote(stream, safe='')}/{task}/{len(fences) + 1:06d}.{epoch:020d}.{quote(owner, safe='')}", b""
        )
        fences.append((epoch, owner))

    def count_empty_read(self) -> None:
        self._reads_until_load = max(0, self._reads_until_load - 1)

    def load(self) -> None:
        """List the fences."""
        self._reads_until_load = LOAD_AFTER_READS
        fences: dict[tuple[str, int], list[tuple[int, str]]] = {}
        for name in sorted(self._store.names(FOLDER)):
            try:
                _, stream, task, number = name.split("/")
                _, epoch, owner = number.split(".", 2)
                fences.setdefault((unquote(stream), int(task)), []).append((int(epoch), unquote(owner)))
            except ValueError as error:
                raise self._store.damage(name, error) from error
        self._fences = fences


def encode_fence(owner: str) -> bytes:
    return json.dumps({"fenced": owner}).encode()


def decode_fence(content: bytes) -> str | None:
    """Return the job that a fence ends, or None if the content is not a fence."""
    return str(json.loads(content)["fenced"]) if content.startswith(PREFIX) else None


def fence_owner(store: Store, owner: str) -> None:
    """Store that no replica of a job may start. Call it before `EpochLog.fence`, for streams that have not begun."""
    store.create(f"{OWNERS}{quote(owner, safe='')}", b"")


def require_not_fenced(store: Store) -> None:
    """Raise FencedOffError if the job of this process was fenced off. A replica calls this once it knows when its stream begins."""
    if store.owner and store.read(f"{OWNERS}{quote(store.owner, safe='')}") is not None:
        raise fenced_off(store)


def fenced_off(store: Store, stream: str = "", task: int = 0) -> HoldfastError:
    what = f"stream '{stream}' of task {task} in " if stream else ""
    return FencedOffError(
        f"this job was canceled while its node could not be reached, and {what}the log at '{store.root}' is closed to it"
    )
