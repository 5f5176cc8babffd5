"""When the epochs of a job begin and end. The first source that starts writes the timeline; all others read it."""

import json
from dataclasses import asdict, dataclass

from holdfast.log import Store

NAME = "timeline"


@dataclass(frozen=True)
class Timeline:
    """The epochs from `first` to `last` (None: no end), each `epoch_s` seconds long in the rows' time.

    The first epoch opened at `opened_s` on the wall clock. The rows' time passes `speed` times as fast as the wall clock.
    """

    first: int
    last: int | None
    epoch_s: float
    opened_s: float
    speed: float = 1.0

    def closes_s(self, epoch: int) -> float:
        """Return the time on the wall clock at which an epoch ends.

        >>> Timeline(first=100, last=None, epoch_s=1.0, opened_s=50.0, speed=2.0).closes_s(101)
        51.0
        """
        return self.opened_s + (epoch - self.first + 1) * self.epoch_s / self.speed

    def last_closed_epoch(self, now_s: float) -> int:
        """Return the newest epoch that has ended; the epoch before the first if none has.

        >>> Timeline(first=100, last=None, epoch_s=1.0, opened_s=50.0).last_closed_epoch(51.5)
        100
        """
        closed = self.first - 1 + int((now_s - self.opened_s) * self.speed / self.epoch_s + 1e-9)
        return max(self.first - 1, closed if self.last is None else min(closed, self.last))


def by_own_clock(committed_s: float, *, missing_s: float | None, now_s: float) -> float:
    """Return when a record was committed by this machine's clock: not before it was last missing, and not after now.

    Without this bound, every record from a node whose clock is slow would look late.
    """
    return min(committed_s if missing_s is None else max(committed_s, missing_s), now_s)


def agree_on_timeline(store: Store, proposal: Timeline) -> Timeline:
    """Return the job's timeline. If it has none yet, the proposal becomes its timeline."""
    store.create(NAME, json.dumps(asdict(proposal)).encode())
    timeline = read_timeline(store)
    assert timeline is not None
    return timeline


def read_timeline(store: Store) -> Timeline | None:
    """Return the job's timeline, or None until its first source has started."""
    content = store.read(NAME)
    try:
        return Timeline(**json.loads(content)) if content is not None else None
    except ValueError as error:
        raise store.damage(NAME, error) from error
