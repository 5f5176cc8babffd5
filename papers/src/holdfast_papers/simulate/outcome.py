"""The outcome of a simulation: tuples by PE and interval, CPU time by node, internal completeness, recoveries and events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast.documents import ScheduledFault
from holdfast_papers.simulate.deployment import Deployment
from holdfast_papers.simulate.faults import victims
from holdfast_papers.simulate.settings import SimulationSettings
from holdfast_papers.simulate.state import (
    CONFIGURED,
    DETECTED,
    EVENTS,
    FAULT,
    RECOVERED,
    REPLAYS,
    RESTORED,
    TAKEN_OVER,
    UP,
    ClusterArrays,
    Floats,
    Ledger,
    State,
)

KINDS = {
    FAULT: "fault",
    DETECTED: "detected",
    TAKEN_OVER: "taken over",
    RESTORED: "restored",
    REPLAYS: "restored",
    RECOVERED: "recovered",
    CONFIGURED: "configuration",
}


@dataclass(frozen=True, slots=True)
class SimulatedEvent:
    """An event of a simulated run, in the format of a real run's history."""

    at_s: float
    kind: str
    about: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Recovery:
    """A recovery of a PE: by a takeover, or by replay up to where it had been. Times are in seconds."""

    pe: str
    failed_s: float
    detected_s: float
    recovered_s: float
    by: str

    @property
    def latency_s(self) -> float:
        """The time from detection to recovery: PPA's recovery latency (section VI)."""
        return self.recovered_s - self.detected_s


@dataclass(frozen=True, eq=False)
class SimulationOutcome:
    """A finished simulation. The ledger's arrays are indexed [interval, PE] in the deployment's order, or [interval, node].

    `arrived`, `processed`, `missed` and `output` of a PE count each tuple once, as the application sees it. `taken`, `worked`,
    `dropped`, `cleared` and `queued` are sums over replicas since the start, and taken = worked + dropped + cleared + queued.
    """

    deployment: Deployment
    settings: SimulationSettings
    cluster: ClusterArrays
    state: State
    ledger: Ledger
    source_tuples: Floats
    steps: int
    faults: tuple[ScheduledFault, ...] = ()

    @property
    def pes(self) -> tuple[str, ...]:
        return self.deployment.pes

    @property
    def seconds(self) -> float:
        return self.steps * self.settings.step_s

    @property
    def interval_s(self) -> float:
        """The length of an interval of the ledger: that of the settings, in whole steps."""
        return max(1, self.settings.steps(self.settings.interval_s)) * self.settings.step_s

    @property
    def cpu_s(self) -> Floats:
        """CPU seconds used on each node."""
        return np.asarray(self.ledger.cpu.sum(axis=0), dtype=np.float64)

    @property
    def dropped(self) -> float:
        """Tuples that did not fit in a queue, at any replica."""
        return float(self.state.dropped.sum())

    @property
    def missed(self) -> float:
        """Tuples that reached a PE and that its primary did not accept, because its queue was full or it was dead."""
        return float(self.ledger.missed.sum())

    @property
    def internal_completeness(self) -> float:
        """The measured share of tuples that PEs processed, of those they would process without any loss (LAAR Eq. 5 to 8)."""
        ideal = float(self.deployment.ideal(self.source_tuples).sum())
        return float(self.ledger.processed.sum()) / ideal if ideal > 0 else 1.0

    def output(self, sink: str) -> Floats:
        """Return the tuples that reached a sink, by interval."""
        names = self.deployment.descriptor.sinks[sink].inputs
        number = {pe: i for i, pe in enumerate(self.pes)}
        total: Floats = np.zeros(len(self.ledger.output))
        for name in names:
            if name in number:
                total = total + self.ledger.output[:, number[name]]
        return total

    @property
    def output_tuples(self) -> Floats:
        """Tuples that reached all sinks, by interval."""
        total: Floats = np.zeros(len(self.ledger.output))
        for sink in self.deployment.descriptor.sinks:
            total = total + self.output(sink)
        return total

    @property
    def imbalance(self) -> Floats:
        """The error of each PE's balance at the end of each interval, as a share of the tuples taken."""
        ledger = self.ledger
        gap = np.abs(ledger.taken - ledger.worked - ledger.dropped - ledger.cleared - ledger.queued)
        return np.asarray(gap / np.maximum(1.0, ledger.taken), dtype=np.float64)

    def history(self) -> list[SimulatedEvent]:
        """Return the events by time, in the format of a real run's history."""
        return sorted(self._events(), key=lambda event: event.at_s)

    def _events(self) -> Iterator[SimulatedEvent]:
        """Yield the events in the order in which they were recorded: a takeover comes where it began, with the time of its end."""
        for step, kind, pe, replica in self.state.events[: self.state.counters[EVENTS]].tolist():
            at_s, name = round(step * self.settings.step_s, 9), KINDS[kind]
            if kind == CONFIGURED:
                yield SimulatedEvent(at_s, name, {"configuration": self.deployment.configurations[pe]})
                continue
            about: dict[str, Any] = {"pe": self.pes[pe], "replica": replica}
            # The runtime's checkers expect tasks.
            about |= {"tasks": [self.pes[pe]]} if kind in (FAULT, DETECTED) else {"task": self.pes[pe]}
            if name == "restored":
                about["replays"] = kind == REPLAYS
            yield SimulatedEvent(at_s, name, about)

    def injected_faults(self) -> list[SimulatedEvent]:
        """Return an event for each fault injected before the end. `dead` lists targets that were dead already."""
        k, known = self.deployment.replicas, self.deployment.fault_targets
        events = self.state.events[: self.state.counters[EVENTS]].tolist()
        crashed = {(step, pe * k + replica) for step, kind, pe, replica in events if kind == FAULT}
        faults = []
        for fault in self.faults:
            step = self.settings.steps(fault.at_s)
            if step >= self.steps:
                continue
            crash = fault.kind == "crash" and fault.what in ("pe", "host", "node")
            targets = [target for target in fault.target if crash and victims(fault, target, known)]
            dead = [t for t in targets if not any((step, r) in crashed for r in victims(fault, t, known) or ())]
            what = f"{fault.kind} {fault.what} {' '.join(fault.target)}".strip()
            faults.append(SimulatedEvent(fault.at_s, "fault", {"what": what, "tasks": [], "for_s": fault.for_s, "dead": dead}))
        return faults

    def recoveries(self) -> list[Recovery]:
        """Return the recoveries of primaries by takeover, checkpoint or replay, in order of their end."""
        return sorted(_recoveries(self._events(), self.settings), key=lambda recovery: recovery.recovered_s)

    def working(self) -> set[str]:
        """Return the PEs with a replica that works at the end: active, alive, with its state and nothing to replay."""
        state = self.state
        works = state.active & (state.status == UP) & (state.ready_step <= self.steps) & ~state.recovering
        return {self.pes[r // self.deployment.replicas] for r in np.flatnonzero(works)}

    def document(self) -> dict[str, Any]:
        """Return the outcome as plain values: totals, and one row per PE and node."""
        ledger, end = self.ledger, -1
        ideal = self.deployment.ideal(self.source_tuples)
        return {
            "application": self.deployment.descriptor.application,
            "seconds": self.seconds,
            "source_tuples": dict(zip(self.deployment.descriptor.sources, self.source_tuples.tolist(), strict=True)),
            "internal_completeness": self.internal_completeness,
            "cpu_s": float(self.cpu_s.sum()),
            "dropped": self.dropped,
            "missed": self.missed,
            "output": {sink: float(self.output(sink).sum()) for sink in self.deployment.descriptor.sinks},
            "output_rate": {sink: float(self.output(sink).sum()) / self.seconds for sink in self.deployment.descriptor.sinks},
            "recoveries": [
                {"pe": r.pe, "by": r.by, "failed_s": r.failed_s, "detected_s": r.detected_s, "latency_s": r.latency_s}
                for r in self.recoveries()
            ],
            "pes": [
                {
                    "pe": pe,
                    "in": float(ledger.arrived[:, i].sum()),
                    "ideal": float(ideal[i]),
                    "processed": float(ledger.processed[:, i].sum()),
                    "out": float(ledger.output[:, i].sum()),
                    "missed": float(ledger.missed[:, i].sum()),
                    "dropped": float(ledger.dropped[end, i]),
                    "queued": float(ledger.queued[end, i]),
                }
                for i, pe in enumerate(self.pes)
            ],
            "nodes": [
                {
                    "node": node,
                    "cpu_s": float(used),
                    "busy": float(used) / (self.seconds * self.deployment.descriptor.nodes[node].cores),
                }
                for node, used in zip(self.deployment.descriptor.nodes, self.cpu_s, strict=True)
            ],
        }


def _recoveries(events: Iterable[SimulatedEvent], settings: SimulationSettings) -> Iterator[Recovery]:
    """Yield a recovery for each detected failure that a takeover or a replay ended."""
    failed: dict[tuple[str, int], float] = {}
    detected: dict[tuple[str, int], float] = {}
    for event in events:
        about = event.about
        if "pe" not in about:
            continue
        key = about["pe"], about["replica"]
        if event.kind == "fault":
            failed[key] = event.at_s
        elif event.kind == "detected":
            detected[key] = event.at_s
        elif event.kind == "restored" and not about["replays"]:
            detected.pop(key, None)  # another replica continued, or the scheme recovers nothing
        elif event.kind in ("taken over", "recovered"):
            pe = about["pe"]
            # The replica that recovers the PE may differ from the one that was detected dead.
            others = (k for k in detected if k[0] == pe and k != key)
            last = max(others, key=detected.__getitem__, default=None)
            dead = key if event.kind == "recovered" and key in detected else last
            if dead is None:
                continue
            by = "takeover" if event.kind == "taken over" else settings.failure_handling.scheme_of(pe)
            at = detected.pop(dead)
            yield Recovery(pe, failed.get(dead, at), at, event.at_s, by)
