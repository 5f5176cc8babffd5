"""Replicas switched on and off with the load (LAAR section 4.6): a rate monitor, and a controller that follows a strategy."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from holdfast.control.observers.job_observers import Activate, Decision, Note, ReplicaView
from holdfast.documents.job import Task
from holdfast.log.stream_progress import StreamProgress, locate_streams
from holdfast.planning.laar.strategy import Activation, Strategy

STEADY_EPOCHS = 5
"""For how many epochs in a row the load must be lighter before fewer hosts are thought to do."""

EXCEEDED = "exceeded"
"""Under this name a note has, per source, by how many tuples a second its rate is above all that the strategy is made for."""

LIVING = ("running", "starting", "placed", "idle")


class RateMonitor:
    """The rates of the sources, in tuples per second of the wall clock, read off their newest epochs in the log; of a source that
    another job feeds, in that job's log."""

    def __init__(self, heads: StreamProgress, tasks: Sequence[Task]) -> None:
        self._timeline = heads.timeline
        sources = {stream for task in tasks for stream in task.makes if task.kind == "source"}
        sources |= {reading.name or "" for task in tasks for reading in task.reads if reading.job is not None}
        self._streams = {key: place for key, place in locate_streams(tasks, heads).items() if key[0] in sources}

    def rates(self) -> tuple[int, dict[str, float]] | None:
        """The newest epoch that every source has committed, and each source's rate in it; None before the first, and while that
        epoch has been trimmed already."""
        newest = (heads.last_epoch(stream, task) for (_, task), (heads, stream) in self._streams.items())
        epoch = min(newest, default=self._timeline.first - 1)
        if epoch < self._timeline.first:
            return None
        seconds = self._timeline.epoch_s / self._timeline.speed
        found: dict[str, float] = {}
        for (source, task), (heads, stream) in self._streams.items():
            record = heads.log.newest(stream, task, epoch=epoch)
            if record is None:
                return None
            found[source] = found.get(source, 0.0) + record.rows / seconds
        return epoch, found


@dataclass
class ActivationController:
    """Decides which replicas are active. A heavier configuration is taken at once, a lighter one when it has lasted.

    One that is woken counts when it has caught up. Until one that the configuration wants does, those that it does not want stay
    active too: a change opens no gap. One that counted still does when the load makes it fall behind. Where every replica that the
    strategy wants active is dead, one that lives is activated in its place: at least one active replica (Eq. 12) matters more than
    the load.
    """

    strategy: Strategy
    tasks: Sequence[Task]
    current: Activation | None = None
    _lighter: deque[str] = field(default_factory=lambda: deque(maxlen=STEADY_EPOCHS))
    _epoch: int | None = None
    _warned: bool = False
    _counting: set[tuple[str, int]] | None = None

    def follow(self, epoch: int, rates: Mapping[str, float], replicas: Sequence[ReplicaView]) -> list[Decision]:
        """What to switch, given the rates of an epoch; an epoch that was seen before changes nothing but dead replicas."""
        decisions: list[Decision] = []
        if epoch != self._epoch:
            self._epoch = epoch
            decisions += self._choose(rates)
        if self.current is not None:
            decisions += self._switch(self.current, replicas)
        return decisions

    def _choose(self, rates: Mapping[str, float]) -> list[Decision]:
        match = self.strategy.lookup(rates)
        said: list[Decision] = []
        if not match.dominates and not self._warned:
            over = ", ".join(f"'{source}' by {by:g} tuples/s" for source, by in match.exceeded.items())
            text = f"no configuration of the strategy dominates the measured rates: {over} above the highest; plan for higher rates"
            said.append(Note(text, {EXCEEDED: dict(match.exceeded)}))
        self._warned = not match.dominates
        chosen = match.activation
        if self.current is None or chosen.name == self.current.name or self._exceeds(rates, self.current):
            self._lighter.clear()
        else:
            self._lighter.append(chosen.name)
            if len(self._lighter) < STEADY_EPOCHS or len(set(self._lighter)) > 1:
                return said
        if self.current is None or chosen.name != self.current.name:
            about = {"configuration": chosen.name, "rates": dict(rates)}
            said.append(Note(f"input configuration is now {chosen.name}", about))
            self.current = chosen
            self._lighter.clear()
        return said

    @staticmethod
    def _exceeds(rates: Mapping[str, float], current: Activation) -> bool:
        return any(rate > current.rates[source] for source, rate in rates.items())

    def _count(self, replicas: Sequence[ReplicaView]) -> set[tuple[str, int]]:
        """The replicas that have caught up since they were woken; at the first look all that run."""
        running = [(replica, live) for replica in replicas if replica.active and (live := _live(replica)) is not None]
        heads: dict[str, int] = {}
        for replica, live in running:
            heads[replica.task] = max(live, heads.get(replica.task, live))
        return {
            _named(replica)
            for replica, live in running
            if self._counting is None
            or _named(replica) in self._counting
            or live == heads[replica.task]
            or (replica.status is not None and replica.status.caught_up)
        }

    def _switch(self, current: Activation, replicas: Sequence[ReplicaView]) -> list[Decision]:
        decisions: list[Decision] = []
        self._counting = self._count(replicas)
        for task in self.tasks:
            if task.pe not in current.active:
                continue
            mine = {replica.replica: replica for replica in replicas if replica.task == task.name}
            wanted = set(current.active[task.pe])
            if not any(n in mine and mine[n].state in LIVING for n in wanted):
                wanted |= {n for n, replica in mine.items() if replica.state in LIVING}
            active = {n for n, replica in mine.items() if replica.active}
            if not any(n in mine and _named(mine[n]) in self._counting for n in wanted):
                wanted |= {n for n in active if _live(mine[n]) is not None}
            if wanted & mine.keys() != active:
                decisions.append(Activate(task.name, tuple(sorted(wanted & mine.keys())), why=f"configuration {current.name}"))
        return decisions


def _named(replica: ReplicaView) -> tuple[str, int]:
    return replica.key, replica.incarnation


def _live(replica: ReplicaView) -> int | None:
    """The last epoch of a replica that runs."""
    return replica.status.live if replica.state == "running" and replica.status is not None else None
