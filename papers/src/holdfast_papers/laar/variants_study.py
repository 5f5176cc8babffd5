"""LAAR's evaluation (section 5), simulated: six replication variants of generated applications in three failure scenarios."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast.documents import Descriptor, Schedule, ScheduledFault
from holdfast.planning.laar import (
    Active,
    BestOfTwo,
    Instance,
    Outcome,
    Ranges,
    Solution,
    generate,
    greedy,
    non_replicated,
    static_replication,
)
from holdfast.simulate import Deployment, Glitches, RateTrace, SimulationOutcome, SimulationSettings, drawn_rates, simulate

LAAR = {"L.5": 0.5, "L.6": 0.6, "L.7": 0.7}
VARIANTS = ("NR", "SR", "GRD", *LAAR)
SCENARIOS = ("best", "worst", "crash", "worst, even")
"""The paper's three, and its worst case with input rates that have no glitches: what the promise of an IC is made for."""
RANGES = Ranges(nodes=(4, 4), pes_per_node=(6, 6))
"""24 PEs on four servers: of the paper's five, one nodeed only the management (section 5.2)."""
SECONDS, VISITS, CRASH_S = 300.0, 2, 16.0
SETTINGS = SimulationSettings(drain_s=5.0)


@dataclass(frozen=True, slots=True)
class Task:
    """One application of the corpus to take through every variant and scenario; `seconds` limits each solver run."""

    seed: int
    application: int
    seconds: float = 20.0

    @property
    def key(self) -> str:
        return str(self.application)


def plan(task: Task) -> dict[str, Any]:
    """The strategies of one application, replica by replica, and which of LAAR's are proved to be the cheapest.

    `strategies` is empty where none for an IC of 0.7 was found, so that the application cannot be compared. Follows from the
    seed and the application's number alone, as far as the solver ends in time.
    """
    instance = Instance.of(_application(task)[0])
    found, proved = _strategies(instance, task.seconds)
    bits = {name: active.astype(int).tolist() for name, active in (found or {}).items()}
    return {"key": task.key, "application": task.application, "optimal": proved, "strategies": bits}


def play(planned: tuple[Task, dict[str, Any]]) -> dict[str, Any]:
    """Every figure of one application whose strategies are known."""
    task, plans = planned
    descriptor, rng = _application(task)
    instance = Instance.of(descriptor)
    record: dict[str, Any] = {"key": task.key, "application": task.application, "optimal": plans["optimal"], "runs": {}}
    trace = drawn_rates(descriptor, rng, seconds=SECONDS, visits=VISITS, glitches=Glitches())
    even = drawn_rates(descriptor, rng, seconds=SECONDS, visits=VISITS)
    crash = _node_crash(descriptor, trace, rng)
    for variant, bits in plans["strategies"].items():
        deployment = Deployment.planned(descriptor, instance, np.array(bits, dtype=np.bool_))
        worst = pessimistic(deployment, instance)
        schedules = {"best": Schedule(), "worst": worst, "crash": crash, "worst, even": worst}
        for scenario in SCENARIOS:
            rates = even if scenario == "worst, even" else trace
            outcome = simulate(deployment, rates, schedule=schedules[scenario], settings=SETTINGS)
            record["runs"][f"{variant}/{scenario}"] = _figures(outcome, _is_high(descriptor, trace))
    return record


def _application(task: Task) -> tuple[Descriptor, np.random.Generator]:
    """The application, and the rng that goes on to draw its trace and crash."""
    rng = np.random.default_rng([task.seed, task.application])
    return generate(rng, ranges=RANGES, name=f"app{task.application:04d}"), rng


def pessimistic(deployment: Deployment, instance: Instance) -> Schedule:
    """All replicas of each PE but one are dead from the start, and the one that lives is idle for as much of the time as can be.

    Eq. 14 lets the survivor differ from configuration to configuration; replicas that are dead throughout cannot, so this is the
    worst that can really happen.
    """
    dead = []
    share = np.einsum("c,cij->ij", instance.probability, deployment.active.astype(np.float64))
    for i, pe in enumerate(deployment.pes):
        survivor = int(np.argmin(share[i]))
        dead += [f"{pe}.{j}" for j in range(deployment.replicas) if j != survivor]
    return Schedule(faults=(ScheduledFault(at_s=0.0, kind="crash", what="pe", target=tuple(dead)),) if dead else ())


def _strategies(instance: Instance, seconds: float) -> tuple[dict[str, Active] | None, list[str]]:
    """The variants' strategies, None where one of LAAR's is missing; and which of LAAR's are proved to be the cheapest."""
    solver, found, proved = BestOfTwo(workers=1), dict[str, Active](), list[str]()
    solution = None
    for name, sla in reversed(LAAR.items()):  # the strictest first: most applications fall out there
        solution = solver.solve(instance.at(sla), seconds=seconds)
        if solution.active is None:
            return None, proved
        found[name] = solution.active
        if solution.outcome is Outcome.BST:
            proved.append(name)
    assert solution is not None
    found |= {"NR": non_replicated(instance, solver=_Known(solution)), "SR": static_replication(instance)}
    found["GRD"] = greedy(instance)
    return {name: found[name] for name in VARIANTS}, proved


@dataclass(frozen=True, slots=True)
class _Known:
    """A solver that has the answer already: NR is made from the strategy for an IC of 0.5."""

    solution: Solution
    name: str = "known"

    def solve(self, instance: Instance, *, seconds: float = 60.0) -> Solution:
        return self.solution


def _is_high(descriptor: Descriptor, trace: RateTrace) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Which of the trace's seconds belong to High, glitches aside."""
    plain = drawn_rates(descriptor, np.random.default_rng(0), seconds=SECONDS, visits=VISITS)
    high = descriptor.input_configurations[-1].rates["source"]
    return np.asarray(plain.rates[: len(trace.rates), 0] == high)


def _node_crash(descriptor: Descriptor, trace: RateTrace, rng: np.random.Generator) -> Schedule:
    """One node drawn by chance is away for 16 s that lie within a High period."""
    high = _is_high(descriptor, trace)
    whole = [t for t in range(len(high) - int(CRASH_S)) if high[t : t + int(CRASH_S)].all()]
    at_s, node = float(rng.choice(whole)), str(rng.choice(list(descriptor.nodes)))
    return Schedule(faults=(ScheduledFault(at_s=at_s, kind="crash", what="node", target=(node,), back_after_s=CRASH_S),))


def _figures(outcome: SimulationOutcome, high: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> dict[str, float]:
    output = outcome.output_tuples[: len(high)]
    return {
        "cpu_s": float(outcome.cpu_s.sum()),
        "dropped": outcome.dropped,
        "missed": outcome.missed,
        "processed": float(outcome.ledger.processed.sum()),
        "ic": outcome.internal_completeness,
        "peak_rate": float(output[high].mean()),
        "high_s": float((outcome.ledger.configuration[: len(high)] == len(outcome.deployment.configurations) - 1).sum()),
    }
