"""PPA's study of recovery (section VI-A), simulated: single and correlated failures, and partially active plans.

The paper states neither the cost of a tuple on its nodes nor that of a checkpoint. Here a node is half busy at 2,000 tuples a
second and source task, and writing or loading a tuple of state takes a tenth of processing it. So only the order of techniques is
comparable.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast.documents import (
    Descriptor,
    DescriptorNode,
    DescriptorSink,
    DescriptorSource,
    Input,
    Pe,
    Rate,
    Schedule,
    ScheduledFault,
)
from holdfast_papers.simulate import Deployment, FailureHandling, SimulationOutcome, SimulationSettings, simulate, steady_rates

OPERATORS = {"O1": 8, "O2": 4, "O3": 2, "O4": 1}
SOURCES = 16
TUPLE_S = 0.5 / 4000
STATE_TUPLE_S = TUPLE_S / 10
RESEND_S = TUPLE_S / 10
RATES, WINDOWS_S = (1000.0, 2000.0), (10.0, 30.0)
SYNCS_S, CHECKPOINTS_S = (5.0, 30.0), (5.0, 15.0, 30.0)
COST_INTERVALS_S = (1.0, 5.0, 15.0, 30.0)
FIRST_FAULT_S, SECONDS = 90.0, 180.0


def figure_6(rate: float) -> Descriptor:
    """Return the topology of Figure 6: 16 source tasks, then 8, 4, 2 and 1 tasks of selectivity 0.5 that each read two tasks.

    Every task and every replica has its own node.
    """
    pes, before = {}, [f"S/{n}" for n in range(SOURCES)]
    for operator, tasks in OPERATORS.items():
        names = [f"{operator}/{n}" for n in range(tasks)]
        for n, name in enumerate(names):
            pes[name] = Pe(inputs={up: Input(selectivity=0.5, cost=TUPLE_S) for up in before[2 * n : 2 * n + 2]})
        before = names
    return Descriptor(
        application="figure-6",
        sources={f"S/{n}": DescriptorSource(rates=(Rate(name="steady", rate=rate, probability=1.0),)) for n in range(SOURCES)},
        pes=pes,
        sinks={"sink": DescriptorSink(inputs=tuple(before))},
        nodes={f"{kind} {name}": DescriptorNode() for kind in ("node", "backup") for name in pes},
        placement={name: (f"node {name}", f"backup {name}") for name in pes},
    )


HALF = ("O1/0", "O1/1", "O1/2", "O1/3", "O2/0", "O2/1", "O3/0", "O4/0")
"""PPA-0.5: half of the tree and its root, so that the replicated tasks produce output on their own."""


def deployed(descriptor: Descriptor, replicated: Iterable[str]) -> Deployment:
    """Deploy primaries on the nodes, and active replicas of some tasks on the backup nodes."""
    chosen, pes = set(replicated), descriptor.topological_order
    nodes = {node: n for n, node in enumerate(descriptor.nodes)}
    assert descriptor.placement is not None
    return Deployment(
        descriptor=descriptor,
        node_of=np.array([[nodes[node] for node in descriptor.placement[pe]] for pe in pes], dtype=np.int64),
        configurations=("steady",),
        active=np.array([[[True, pe in chosen] for pe in pes]]),
        rates=np.array([[source.rates[0].rate for source in descriptor.sources.values()]]),
    )


@dataclass(frozen=True, slots=True)
class Technique:
    """A recovery technique: its name in the figures, the tasks with active replicas, and the failure handling of the others."""

    name: str
    replicated: tuple[str, ...]
    care: Mapping[str, Any]


def techniques(tasks: Sequence[str]) -> list[Technique]:
    """Return the techniques of Figures 7 and 8."""
    return [
        *(Technique(f"active, sync {s:g} s", tuple(tasks), {"scheme": "checkpoint", "sync_s": s}) for s in SYNCS_S),
        *(Technique(f"checkpoint {s:g} s", (), {"scheme": "checkpoint", "checkpoint_s": s}) for s in CHECKPOINTS_S),
        Technique("source replay", (), {"scheme": "source"}),
    ]


def plans(tasks: Sequence[str]) -> list[Technique]:
    """Return the plans of Figure 10."""
    care = {"scheme": "checkpoint", "checkpoint_s": 15.0, "sync_s": 5.0}
    return [Technique("PPA-1.0", tuple(tasks), care), Technique("PPA-0.5", HALF, care), Technique("PPA-0", (), care)]


def settings_of(technique: Technique, window_s: float) -> SimulationSettings:
    care = {
        "detect_s": 5.0,
        "restart_s": 1.0,
        "takeover_s": 0.2,
        "window_s": window_s,
        "checkpoint_tuple_s": STATE_TUPLE_S,
        "load_tuple_s": STATE_TUPLE_S,
        "resend_s": RESEND_S,
    }
    return SimulationSettings(interval_s=5.0, failure_handling=FailureHandling(**{**care, **technique.care}))


def failed(technique: Technique, *, rate: float, window_s: float, nodes: Sequence[str], at_s: float) -> SimulationOutcome:
    """Simulate a run in which nodes die at `at_s`."""
    descriptor = figure_6(rate)
    fault = ScheduledFault(at_s=at_s, kind="crash", what="node", target=tuple(nodes))
    configuration = descriptor.input_configurations[0].name
    return simulate(
        deployed(descriptor, technique.replicated),
        steady_rates(descriptor, configuration, seconds=SECONDS),
        schedule=Schedule(faults=(fault,)),
        settings=settings_of(technique, window_s),
    )


def moments(seed: int, count: int) -> list[float]:
    """Return random times of failures, so that they come at any phase of checkpoints and synchronisations."""
    return [round(float(at), 2) for at in np.random.default_rng(seed).uniform(FIRST_FAULT_S, FIRST_FAULT_S + 30, count)]


@dataclass(frozen=True, slots=True)
class Cell:
    """One line of a figure ("recovery" or "partial"): a technique or plan at a rate and window, with random failures."""

    figure: str
    name: str
    rate: float
    window_s: float
    seed: int
    repetitions: int

    @property
    def key(self) -> str:
        return f"{self.figure}/{self.name}/{self.rate:g}/{self.window_s:g}"


def cells(seed: int, repetitions: int) -> list[Cell]:
    """Return every line of Figures 7, 8 and 10."""
    return [
        *(Cell("recovery", t.name, r, w, seed, repetitions) for t in techniques(()) for r in RATES for w in WINDOWS_S),
        *(Cell("partial", t.name, r, 30.0, seed, repetitions) for r in RATES for t in plans(())),
    ]


def measure_cell(cell: Cell) -> dict[str, Any]:
    """Simulate a cell and return its rows of the figure."""
    tasks = figure_6(1.0).topological_order
    candidates = techniques(tasks) if cell.figure == "recovery" else plans(tasks)
    (technique,) = (each for each in candidates if each.name == cell.name)
    rows = _recovery(cell, technique, tasks) if cell.figure == "recovery" else _partial(cell, technique, tasks)
    return {"key": cell.key, "rows": rows}


def _recovery(cell: Cell, technique: Technique, tasks: Sequence[str]) -> list[dict[str, Any]]:
    """Return the rows of Figures 7 and 8: mean latency of one failed node (by operator, and over all), and of all at once."""

    def latency_s(of: Sequence[str]) -> float:
        nodes = [f"node {task}" for task in of]
        times = moments(cell.seed, cell.repetitions)
        runs = (failed(technique, rate=cell.rate, window_s=cell.window_s, nodes=nodes, at_s=at_s) for at_s in times)
        return float(np.mean([_last(run, of) for run in runs]))

    at = {operator: latency_s([f"{operator}/0"]) for operator in OPERATORS}
    figures = {"single_s": float(np.mean(list(at.values()))), "by_operator_s": at, "correlated_s": latency_s(tasks)}
    return [{"technique": technique.name, "rate": cell.rate, "window_s": cell.window_s, **figures}]


def _last(outcome: SimulationOutcome, tasks: Sequence[str]) -> float:
    """Return the latency until the last of the tasks has recovered; infinity if one has not."""
    latency_of = {back.pe: back.latency_s for back in outcome.recoveries()}
    return max(latency_of.get(task, float("inf")) for task in tasks)


def checkpoint_cost() -> list[dict[str, float]]:
    """Return the CPU time of checkpoints as a share of that of processing, with windows of 30 s (Figure 9)."""
    return [{"rate": rate, "checkpoint_s": s, "share": share} for rate in RATES for s, share in _checkpoint_shares(rate)]


def _checkpoint_shares(rate: float) -> Iterator[tuple[float, float]]:
    """Yield each interval between checkpoints, and the share of CPU time."""
    descriptor = figure_6(rate)
    trace = steady_rates(descriptor, descriptor.input_configurations[0].name, seconds=SECONDS)

    def cpu_s_of(technique: Technique) -> float:
        # Large nodes: this measures the cost, not what a full node can still do.
        roomy = {name: node.model_copy(update={"cores": 8.0}) for name, node in descriptor.nodes.items()}
        deployment = deployed(descriptor.model_copy(update={"nodes": roomy}), ())
        outcome = simulate(deployment, trace, settings=settings_of(technique, 30.0))
        late = outcome.ledger.cpu[len(outcome.ledger.cpu) // 3 :]  # once windows are full
        return float(late.sum())

    bare = cpu_s_of(Technique("none", (), {"scheme": "none"}))
    for every_s in COST_INTERVALS_S:
        with_checkpoints = cpu_s_of(Technique("kept", (), {"scheme": "checkpoint", "checkpoint_s": every_s}))
        yield every_s, with_checkpoints / bare - 1


def _partial(cell: Cell, technique: Technique, tasks: Sequence[str]) -> list[dict[str, Any]]:
    """Return the rows of Figure 10: latency of a correlated failure under a plan; for PPA-0.5 also of its replicated tasks."""
    all_tasks_s, takeover_s = [], []
    for at_s in moments(cell.seed, cell.repetitions):
        outcome = failed(technique, rate=cell.rate, window_s=cell.window_s, nodes=[f"node {task}" for task in tasks], at_s=at_s)
        all_tasks_s.append(_last(outcome, tasks))
        takeover_s += [max((back.latency_s for back in outcome.recoveries() if back.by == "takeover"), default=0.0)]
    rows = [{"plan": technique.name, "rate": cell.rate, "latency_s": float(np.mean(all_tasks_s))}]
    if technique.name == "PPA-0.5":
        rows.append({"plan": "PPA-0.5-active", "rate": cell.rate, "latency_s": float(np.mean(takeover_s))})
    return rows


def study(lines: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return Figures 7 to 10 in plain values, from the results of all cells."""
    rows = [row for line in lines for row in line["rows"]]
    return {
        "recovery": [row for row in rows if "technique" in row],
        "checkpoint_cost": checkpoint_cost(),
        "partial": [row for row in rows if "plan" in row],
    }
