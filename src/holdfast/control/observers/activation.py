"""Activation (LAAR, section 4.6): a rate monitor, and a controller that switches replicas on and off as a strategy says."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from holdfast.control.nodes.replicas import LIVING
from holdfast.control.observers.job_observers import Activate, Decision, Note, ReplicaView
from holdfast.documents.job import Task
from holdfast.log.stream_progress import StreamProgress, locate_streams
from holdfast.planning.laar.activation_rule import (
    OVER,
    STEADY,
    TOLERANCE,
    RuleState,
    choose_configuration,
    initial_state,
    nearest,
)
from holdfast.planning.laar.strategy import Activation, Strategy

CONFIGURATION = "configuration"
"""The key in a note's data for the configuration that the controller has chosen."""
EXCEEDED = "exceeded"
"""The key in a note's data for the sources whose rates exceed the strategy: per source, by how many tuples per second."""


class RateMonitor:
    """Measures the rates of the sources, in tuples per second of the wall clock, from the newest epochs in the log. If another job
    feeds a source, its log is read."""

    def __init__(self, progress: StreamProgress, tasks: Sequence[Task]) -> None:
        self._timeline = progress.timeline
        sources = {stream for task in tasks for stream in task.makes if task.kind == "source"}
        sources |= {reading.name or "" for task in tasks for reading in task.reads if reading.job is not None}
        self._streams = {key: location for key, location in locate_streams(tasks, progress).items() if key[0] in sources}

    def rates(self) -> tuple[int, dict[str, float]] | None:
        """Return the newest epoch that every source has committed, and each source's rate in it. Return None before the first
        epoch, and if that epoch is already trimmed."""
        newest = (progress.last_epoch(stream, task) for (_, task), (progress, stream) in self._streams.items())
        epoch = min(newest, default=self._timeline.first - 1)
        if epoch < self._timeline.first:
            return None
        seconds = self._timeline.epoch_s / self._timeline.speed
        rates: dict[str, float] = {}
        for (source, task), (progress, stream) in self._streams.items():
            record = progress.log.newest(stream, task, epoch=epoch)
            if record is None:
                return None
            rates[source] = rates.get(source, 0.0) + record.rows / seconds
        return epoch, rates


@dataclass
class ActivationController:
    """Decides which replicas are active. `planning/laar/activation_rule.py` chooses the configuration; `epoch_s` is in wall time.

    A change leaves no gap: until a replica that the new configuration wants has caught up, the previous ones stay active, too. A
    replica that has caught up once still counts when the load makes it fall behind. If every replica that the strategy wants is
    dead, the living ones are activated instead, because one active replica (Eq. 12) matters more than the load.
    """

    strategy: Strategy
    tasks: Sequence[Task]
    epoch_s: float = 1.0
    current: Activation | None = None
    _rule: RuleState | None = None
    _epoch: int | None = None
    _warned: bool = False
    _caught_up: set[tuple[str, int]] | None = None

    def follow(self, epoch: int, rates: Mapping[str, float], replicas: Sequence[ReplicaView]) -> list[Decision]:
        """Return what to switch, given the rates of an epoch. The configuration changes only with a new epoch; dead replicas are
        replaced every time."""
        decisions: list[Decision] = []
        if epoch != self._epoch:
            self._epoch = epoch
            decisions += self._choose(rates)
        return decisions + self.replace_dead(replicas)

    def replace_dead(self, replicas: Sequence[ReplicaView]) -> list[Decision]:
        """Return what to switch while there are no new rates, as when the sources have failed, too.

        A restarted orchestrator may see no rate any more. Then no replica is switched off.
        """
        return self._switch(self.current, replicas)

    def _choose(self, rates: Mapping[str, float]) -> list[Decision]:
        configurations = self.strategy.configurations
        sources = sorted(configurations[0].rates)
        expected = np.array([[each.rates[source] for source in sources] for each in configurations]) * self.epoch_s
        tuples = np.array([rates[source] for source in sources]) * self.epoch_s
        if self._rule is None:
            self._rule = initial_state(expected, nearest(expected, tuples, TOLERANCE))
        target = configurations[choose_configuration(self._rule, expected, tuples, TOLERANCE, STEADY)]
        notes = self._note_exceeded(self._rule, target, sources)
        if self.current is None or target.name != self.current.name:
            about = {CONFIGURATION: target.name, "rates": dict(rates)}
            notes.append(Note(f"input configuration is now {target.name}", about))
            self.current = target
        return notes

    def _note_exceeded(self, rule: RuleState, current: Activation, sources: Sequence[str]) -> list[Decision]:
        """Return a note when the rates begin to exceed every configuration."""
        epochs, warned = int(rule.numbers[OVER]), self._warned
        self._warned = epochs > 0
        if not epochs or warned:
            return []
        means = dict(zip(sources, rule.counts[:epochs].mean(axis=0) / self.epoch_s, strict=True))
        exceeded = {source: float(rate - current.rates[source]) for source, rate in means.items() if rate > current.rates[source]}
        over = ", ".join(f"'{source}' by {by:g} tuples/s" for source, by in exceeded.items())
        text = f"no configuration of the strategy dominates the measured rates: {over} above the highest; plan for higher rates"
        return [Note(text, {EXCEEDED: exceeded})]

    def _find_caught_up(self, replicas: Sequence[ReplicaView]) -> set[tuple[str, int]]:
        """Return the replicas that have caught up since they were activated; at the first check, all that run."""
        running = [(replica, live) for replica in replicas if replica.active and (live := _live(replica)) is not None]
        furthest: dict[str, int] = {}
        for replica, live in running:
            furthest[replica.task] = max(live, furthest.get(replica.task, live))
        return {
            _incarnation_of(replica)
            for replica, live in running
            if self._caught_up is None
            or _incarnation_of(replica) in self._caught_up
            or live == furthest[replica.task]
            or (replica.status is not None and replica.status.caught_up)
        }

    def _switch(self, current: Activation | None, replicas: Sequence[ReplicaView]) -> list[Decision]:
        decisions: list[Decision] = []
        self._caught_up = self._find_caught_up(replicas)
        cause = "no rates are known" if current is None else f"configuration {current.name}"
        for task in self.tasks:
            if task.pe not in self.strategy.configurations[0].active:
                continue
            own = {replica.replica: replica for replica in replicas if replica.task == task.name}
            active = {n for n, replica in own.items() if replica.active}
            targets = set(active if current is None else current.active[task.pe])
            if not any(n in own and own[n].state in LIVING for n in targets):
                targets |= {n for n, replica in own.items() if replica.state in LIVING}
            if not any(n in own and _incarnation_of(own[n]) in self._caught_up for n in targets):
                targets |= {n for n in active if _live(own[n]) is not None}
            if targets & own.keys() != active:
                decisions.append(Activate(task.name, tuple(sorted(targets & own.keys())), cause=cause))
        return decisions


def _incarnation_of(replica: ReplicaView) -> tuple[str, int]:
    return replica.key, replica.incarnation


def _live(replica: ReplicaView) -> int | None:
    """Return the live position of a running replica, else None."""
    return replica.status.live if replica.state == "running" and replica.status is not None else None
