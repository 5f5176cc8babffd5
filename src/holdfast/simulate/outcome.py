"""What a simulation gave: tuples by PE and interval, CPU time by node, what was promised against what was kept, and its history."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast.documents.fault_schedule import ScheduledFault
from holdfast.simulate.deployment import Deployment
from holdfast.simulate.faults import victims
from holdfast.simulate.settings import SimulationSettings
from holdfast.simulate.state import (
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
class Happening:
    """An event of a simulated run, in the words of a real one's history."""

    at_s: float
    kind: str
    about: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Return:
    """How a PE that failed came back: by whom it was taken over, or when it was where it had been. Times in seconds."""

    pe: str
    failed_s: float
    detected_s: float
    recovered_s: float
    by: str

    @property
    def latency_s(self) -> float:
        """From the failure being noticed to its being made good: PPA's recovery latency (section VI)."""
        return self.recovered_s - self.detected_s


@dataclass(frozen=True, eq=False)
class SimulationOutcome:
    """A finished simulation. Arrays are indexed [interval, PE] in the deployment's order, or [interval, node].

    Of a PE, `arrived`, `processed`, `missed` and `output` count each tuple once, as the application sees it; `taken`, `worked`,
    `dropped`, `cleared` and `queued` sum over replicas, and balance: taken = worked + dropped + cleared + queued, from the start.
    """

    deployment: Deployment
    settings: SimulationSettings
    plant: ClusterArrays
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
        """What one line of the ledger covers: the interval of the settings, in whole steps."""
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
        """Tuples that reached a PE and that its primary did not take, for a full queue or for being dead."""
        return float(self.ledger.missed.sum())

    @property
    def internal_completeness(self) -> float:
        """Tuples that PEs processed, of those they would have processed had none been lost anywhere (LAAR Eq. 5 to 8, measured)."""
        ideal = float(self.deployment.ideal(self.source_tuples).sum())
        return float(self.ledger.processed.sum()) / ideal if ideal > 0 else 1.0

    def output(self, sink: str) -> Floats:
        """Tuples that reached a sink, by interval."""
        names = self.deployment.descriptor.sinks[sink].inputs
        number = {pe: i for i, pe in enumerate(self.pes)}
        made: Floats = np.zeros(len(self.ledger.output))
        for name in names:
            if name in number:
                made = made + self.ledger.output[:, number[name]]
        return made

    @property
    def output_tuples(self) -> Floats:
        """Tuples that reached all sinks, by interval."""
        made: Floats = np.zeros(len(self.ledger.output))
        for sink in self.deployment.descriptor.sinks:
            made = made + self.output(sink)
        return made

    @property
    def imbalance(self) -> Floats:
        """By how much the books of each PE are out, at the end of each interval, as a share of the tuples taken."""
        ledger = self.ledger
        gap = np.abs(ledger.taken - ledger.worked - ledger.dropped - ledger.cleared - ledger.queued)
        return np.asarray(gap / np.maximum(1.0, ledger.taken), dtype=np.float64)

    def history(self) -> list[Happening]:
        """What happened, in the order of time, in the words of a real run's history."""
        return sorted(self._happenings(), key=lambda happening: happening.at_s)

    def _happenings(self) -> Iterator[Happening]:
        """What happened, cause before effect: a takeover that takes its time stands where it began."""
        for step, kind, pe, replica in self.state.events[: self.state.counters[EVENTS]].tolist():
            at_s, name = round(step * self.settings.step_s, 9), KINDS[kind]
            if kind == CONFIGURED:
                yield Happening(at_s, name, {"configuration": self.deployment.configurations[pe]})
                continue
            about: dict[str, Any] = {"pe": self.pes[pe], "replica": replica}
            # The runtime's checkers speak of tasks.
            about |= {"tasks": [self.pes[pe]]} if kind in (FAULT, DETECTED) else {"task": self.pes[pe]}
            if name == "restored":
                about["replays"] = kind == REPLAYS
            yield Happening(at_s, name, about)

    def struck(self) -> list[Happening]:
        """The faults of the schedule that came about before the end, one each; `dead` are their targets that were dead already."""
        k, places = self.deployment.replicas, self.deployment.places
        events = self.state.events[: self.state.counters[EVENTS]].tolist()
        crashed = {(step, pe * k + replica) for step, kind, pe, replica in events if kind == FAULT}
        found = []
        for fault in self.faults:
            step = self.settings.steps(fault.at_s)
            if step >= self.steps:
                continue
            crash = fault.kind == "crash" and fault.what in ("pe", "host", "node")
            targets = [target for target in fault.target if crash and victims(fault, target, places)]
            dead = [t for t in targets if not any((step, r) in crashed for r in victims(fault, t, places) or ())]
            said = f"{fault.kind} {fault.what} {' '.join(fault.target)}".strip()
            found.append(Happening(fault.at_s, "fault", {"what": said, "tasks": [], "for_s": fault.for_s, "dead": dead}))
        return found

    def returns(self) -> list[Return]:
        """Each failure of a PE's primary that was made good, by takeover, checkpoint or replay, in the order in which they were."""
        return sorted(_returns(self._happenings(), self.settings), key=lambda back: back.recovered_s)

    def working(self) -> set[str]:
        """The PEs that have a replica which works at the end: active, alive, with its state and nothing to replay."""
        state = self.state
        works = state.active & (state.status == UP) & (state.ready <= self.steps) & ~state.recovering
        return {self.pes[r // self.deployment.replicas] for r in np.flatnonzero(works)}

    def document(self) -> dict[str, Any]:
        """The outcome in plain values: totals, and one row per PE and node."""
        ledger, end = self.ledger, -1
        ideal = self.deployment.ideal(self.source_tuples)
        returns = self.returns()
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
                for r in returns
            ],
            "pes": [
                {
                    "pe": pe,
                    "in": float(ledger.arrived[:, i].sum()),
                    "wanted": float(ideal[i]),
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


def _returns(happenings: Iterable[Happening], settings: SimulationSettings) -> Iterator[Return]:
    failed: dict[tuple[str, int], float] = {}
    noticed: dict[tuple[str, int], float] = {}
    for happening in happenings:
        about = happening.about
        if "pe" not in about:
            continue
        key = about["pe"], about["replica"]
        if happening.kind == "fault":
            failed[key] = happening.at_s
        elif happening.kind == "detected":
            noticed[key] = happening.at_s
        elif happening.kind == "restored" and not about["replays"]:
            noticed.pop(key, None)  # another replica had gone on, or nothing is made good; the next failure is another matter
        elif happening.kind in ("taken over", "recovered"):
            pe = about["pe"]
            # Who makes it good may be another replica than the one that was noticed dead.
            others = (k for k in noticed if k[0] == pe and k != key)
            last = max(others, key=noticed.__getitem__, default=None)
            dead = key if happening.kind == "recovered" and key in noticed else last
            if dead is None:
                continue
            by = "takeover" if happening.kind == "taken over" else settings.care.scheme_of(pe)
            at = noticed.pop(dead)
            yield Return(pe, failed.get(dead, at), at, happening.at_s, by)
