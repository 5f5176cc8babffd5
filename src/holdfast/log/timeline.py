"""When the epochs of a job begin and end: agreed on once, by whichever source comes first, and read by everyone."""

import json
from dataclasses import asdict, dataclass

from holdfast.log import Store

NAME = "timeline"


@dataclass(frozen=True)
class Timeline:
    """Epochs from `first` to `last` (None: without end), each `epoch_s` long in the rows' time.

    The first epoch opened at `opened_s` of the wall clock, and time passes `speed` times as fast as there.
    """

    first: int
    last: int | None
    epoch_s: float
    opened_s: float
    speed: float = 1.0

    def closes_s(self, epoch: int) -> float:
        """The moment on the wall clock at which an epoch is over.

        >>> Timeline(first=100, last=None, epoch_s=1.0, opened_s=50.0, speed=2.0).closes_s(101)
        51.0
        """
        return self.opened_s + (epoch - self.first + 1) * self.epoch_s / self.speed

    def last_closed_epoch(self, now_s: float) -> int:
        """The newest epoch that is over; the one before the first while none is.

        >>> Timeline(first=100, last=None, epoch_s=1.0, opened_s=50.0).last_closed_epoch(51.5)
        100
        """
        over = self.first - 1 + int((now_s - self.opened_s) * self.speed / self.epoch_s + 1e-9)
        return max(self.first - 1, over if self.last is None else min(over, self.last))


def agree_on_timeline(store: Store, offered: Timeline) -> Timeline:
    """The job's timeline: the one that is there, else the offered one."""
    store.create(NAME, json.dumps(asdict(offered)).encode())
    held = read_timeline(store)
    assert held is not None
    return held


def read_timeline(store: Store) -> Timeline | None:
    """The job's timeline, or None while no source has begun."""
    content = store.read(NAME)
    return Timeline(**json.loads(content)) if content is not None else None
