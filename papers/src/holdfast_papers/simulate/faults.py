"""The faults of a schedule as the cluster simulator injects them: by replica and step."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile

import numpy as np

from holdfast.documents import Schedule, ScheduledFault
from holdfast.errors import DocumentError
from holdfast_papers.simulate.settings import SimulationSettings
from holdfast_papers.simulate.state import (
    CONTROL_DOWN,
    CONTROL_UP,
    CRASH,
    FREE,
    HOG,
    NEVER,
    NODE_LOST,
    RESUME,
    SLOW,
    STALL,
    STEADY,
    FaultTimeline,
)

EPOCH_S = 1.0
"""Length of an epoch for a fault that slows each epoch of a PE, in a simulation without epochs."""

HOGS = 2
"""Processes per core that a hog starts on a node, as in the runtime."""

LACKS = {"cut": "messages", "fill": "disks"}
"""Kinds of faults that the simulator cannot inject, and what it does not model."""

_REPLICA, _TASK = re.compile(r"(.+)\.(\d+)"), re.compile(r"/\d+$")


@dataclass(frozen=True, slots=True)
class FaultTargets:
    """What faults can hit: PEs in their order, nodes with their racks and cores, and the node of each replica.

    `others` are the sources and sinks, which do not fail in a simulation.
    """

    pes: tuple[str, ...]
    replicas: int
    nodes: tuple[str, ...]
    racks: tuple[str | None, ...]
    cores: tuple[float, ...]
    node_of: np.ndarray[tuple[int, ...], np.dtype[np.int64]]
    others: frozenset[str] = frozenset()

    def of_pe(self, target: str) -> list[int] | None:
        """Return the numbers of the replicas that a target such as vwap, vwap/0 or vwap/0.1 names, or None if there is no such PE.

        Each PE has a single task here, number 0.
        """
        name, which = target, range(self.replicas)
        if target not in self.pes and (match := _REPLICA.fullmatch(target)):
            name, replica = match[1], int(match[2])
            which = range(replica, replica + 1)
        name = name if name in self.pes else name.removesuffix("/0")
        if name not in self.pes or which[-1] >= self.replicas:
            return None
        return [self.pes.index(name) * self.replicas + j for j in which]

    def is_other(self, target: str) -> bool:
        """Return whether a target is a source or a sink, or a task or replica of one."""
        match = _REPLICA.fullmatch(target)
        return not self.others.isdisjoint({target, *(_TASK.sub("", name) for name in (target, match[1] if match else target))})

    def of_node(self, target: str) -> list[int] | None:
        """Return the numbers of the replicas on a node, or on the nodes of a rack (rack=r1), or None if there is no such node."""
        numbers = self.node_numbers(target)
        return [int(r) for r in np.flatnonzero(np.isin(self.node_of.ravel(), numbers))] if numbers else None

    def node_numbers(self, target: str) -> list[int]:
        """Return the number of a node, or the numbers of the nodes of a rack (rack=r1)."""
        rack = target.removeprefix("rack=") if target.startswith("rack=") else None
        return [h for h, node in enumerate(self.nodes) if (self.racks[h] == rack if rack is not None else node == target)]


def drawn_faults(schedule: Schedule, targets: FaultTargets) -> tuple[ScheduledFault, ...]:
    """Return all faults of a schedule by time. Raises DocumentError for unknown targets and for faults that are not modelled."""
    random_kinds = schedule.random.kinds if schedule.random is not None else ()
    if unknown := [f"random may draw a {kind}; {_without(kind)}" for kind in random_kinds if kind in LACKS]:
        raise DocumentError("fault schedule", unknown)
    faults = tuple(schedule.drawn(tasks=targets.pes, nodes=targets.nodes))
    errors = list(_errors(faults, targets))
    if errors:
        raise DocumentError("fault schedule", errors)
    return faults


def fault_timeline(faults: Sequence[ScheduledFault], targets: FaultTargets, settings: SimulationSettings) -> FaultTimeline:
    """Return the faults ordered by step."""
    rows = sorted(row for n, fault in enumerate(faults) for row in _rows(fault, islice(faults, n + 1, None), targets, settings))
    columns = list(zip(*rows, strict=True)) if rows else [()] * 5
    step, kind, replica, back = (np.array(column, dtype=np.int64) for column in columns[:4])
    return FaultTimeline(step, kind, replica, back, np.array(columns[4], dtype=np.float64))


def _errors(faults: Sequence[ScheduledFault], targets: FaultTargets) -> Iterator[str]:
    for n, fault in enumerate(faults):
        if fault.kind in LACKS:
            yield f"fault {n} is a {fault.kind} of a {fault.what}; {_without(fault.kind)}"
        elif fault.what not in ("controller", "orchestrator"):
            for target in fault.target:
                if fault.what == "pe" and targets.is_other(target):
                    yield f"fault {n} targets '{target}'; sources and sinks do not fail in a simulation: leave the fault out"
                elif victims(fault, target, targets) is None:
                    known = targets.pes if fault.what == "pe" else targets.nodes
                    listed = ", ".join(known[:8]) + (", ..." if len(known) > 8 else "")
                    kind = "PE" if fault.what == "pe" else "node or rack"
                    yield f"fault {n} targets '{target}', which is not a {kind} of the descriptor; there are: {listed}"


def _without(kind: str) -> str:
    return f"a simulation has no {LACKS[kind]}: give a crash, stall, slow or hog"


def victims(fault: ScheduledFault, target: str, targets: FaultTargets) -> list[int] | None:
    """Return the replicas that a fault of a PE, PE host or node hits at one of its targets, or None for an unknown target."""
    return targets.of_pe(target) if fault.what == "pe" else targets.of_node(target)


def _rows(
    fault: ScheduledFault, later: Iterable[ScheduledFault], targets: FaultTargets, settings: SimulationSettings
) -> Iterable[tuple[int, int, int, int, float]]:
    at = settings.steps(fault.at_s)
    if fault.what == "controller":
        return  # replicas continue without it
    if fault.what == "orchestrator":
        assert fault.lasts_s is not None
        yield at, CONTROL_DOWN, -1, NEVER, 0.0
        yield settings.steps(fault.at_s + fault.lasts_s), CONTROL_UP, -1, NEVER, 0.0
        return
    end = settings.steps(fault.at_s + (fault.for_s or 0.0))
    again = _renewed(fault, later, targets)
    for target in fault.target:
        if fault.kind == "hog":
            for h in targets.node_numbers(target):
                hogs = HOGS * max(1.0, round(targets.cores[h]))
                yield at, HOG, h, NEVER, hogs
                yield end, FREE, h, NEVER, hogs
            continue
        for r in victims(fault, target, targets) or ():
            if fault.kind == "crash":
                back = NEVER if fault.back_after_s is None else settings.steps(fault.at_s + fault.back_after_s)
                yield at, NODE_LOST if fault.what == "node" and not settings.failure_handling.spares else CRASH, r, back, 0.0
            elif fault.kind == "stall":
                yield at, STALL, r, NEVER, 0.0
                if r not in again:
                    yield end, RESUME, r, NEVER, 0.0
            else:
                assert fault.by_s is not None
                epoch_s = settings.epoch_s or EPOCH_S
                yield at, SLOW, r, NEVER, settings.step_s * epoch_s / (epoch_s + fault.by_s)
                if r not in again:
                    yield end, STEADY, r, NEVER, np.inf


def _renewed(fault: ScheduledFault, later: Iterable[ScheduledFault], targets: FaultTargets) -> set[int]:
    """Return the replicas for which a later fault of the same kind begins before this one ends; then the later end counts.

    This holds for stalled and slowed PEs, as in the runtime. A PE host that is stopped twice continues at the first SIGCONT.
    """
    if fault.what != "pe" or fault.for_s is None:
        return set()
    ends_s = fault.at_s + fault.for_s
    soon = takewhile(lambda other: other.at_s <= ends_s, later)
    again = [other for other in soon if (other.kind, other.what) == (fault.kind, "pe")]
    return {r for other in again for target in other.target for r in victims(other, target, targets) or ()}
