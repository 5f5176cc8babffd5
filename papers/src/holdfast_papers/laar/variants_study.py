"""LAAR's evaluation (section 5): simulates six replication variants of generated applications in three failure scenarios."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from holdfast.documents import Descriptor, Schedule, ScheduledFault
from holdfast.planning.laar import Active, Instance, Milp, Outcome, Solution, greedy, non_replicated, static_replication
from holdfast_papers.laar.generator import Ranges, generate
from holdfast_papers.laar.glitches import Glitches
from holdfast_papers.simulate import Deployment, RateTrace, SimulationOutcome, SimulationSettings, rates_by_probability, simulate

LAAR = {"L.5": 0.5, "L.6": 0.6, "L.7": 0.7}
VARIANTS = ("NR", "SR", "GRD", *LAAR)
SCENARIOS = ("best", "worst", "crash", "worst, even")
"""The paper's three scenarios, and its worst case without glitches of the input rate, for which the IC is guaranteed."""
RANGES = Ranges(nodes=(4, 4), pes_per_node=(6, 6))
"""24 PEs on four servers: of the paper's five, one ran only the management (section 5.2)."""
SECONDS, VISITS, CRASH_S = 300.0, 2, 16.0
SETTINGS = SimulationSettings(drain_s=5.0)


@dataclass(frozen=True, slots=True)
class Task:
    """One application of the corpus, for all variants and scenarios. `seconds` limits each solver run."""

    seed: int
    application: int
    seconds: float = 20.0

    @property
    def key(self) -> str:
        return str(self.application)


def plan(task: Task) -> dict[str, Any]:
    """Plan the strategies of one application. `optimal` lists LAAR's strategies that are proved to be the cheapest.

    `strategies` is empty if no strategy for an IC of 0.7 was found; the application cannot be compared then. The result
    depends only on the seed and the number of the application, if the solver ends in time.
    """
    instance = Instance.of(_application(task)[0])
    strategies, proved = _strategies(instance, task.seconds)
    bits = {name: active.astype(int).tolist() for name, active in (strategies or {}).items()}
    return {"key": task.key, "application": task.application, "optimal": proved, "strategies": bits}


def play(planned: tuple[Task, dict[str, Any]]) -> dict[str, Any]:
    """Simulate every variant and scenario of one planned application, and return all figures."""
    task, plans = planned
    descriptor, rng = _application(task)
    instance = Instance.of(descriptor)
    record: dict[str, Any] = {"key": task.key, "application": task.application, "optimal": plans["optimal"], "runs": {}}
    even = rates_by_probability(descriptor, seconds=SECONDS, visits=VISITS)
    trace = replace(even, rates=even.rates * Glitches().factors(even.rates.shape, rng))
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
    """Return the application, and the random generator for its trace and crash."""
    rng = np.random.default_rng([task.seed, task.application])
    return generate(rng, ranges=RANGES, name=f"app{task.application:04d}"), rng


def pessimistic(deployment: Deployment, instance: Instance) -> Schedule:
    """Return a schedule that crashes all replicas of each PE but one at the start.

    The survivor is the replica that is idle for most of the time. Eq. 14 lets the survivor differ between configurations. Replicas
    that are dead throughout cannot, so this is the worst case that can happen.
    """
    dead = []
    share = np.einsum("c,cij->ij", instance.probability, deployment.active.astype(np.float64))
    for i, pe in enumerate(deployment.pes):
        survivor = int(np.argmin(share[i]))
        dead += [f"{pe}.{j}" for j in range(deployment.replicas) if j != survivor]
    return Schedule(faults=(ScheduledFault(at_s=0.0, kind="crash", what="pe", target=tuple(dead)),) if dead else ())


def _strategies(instance: Instance, seconds: float) -> tuple[dict[str, Active] | None, list[str]]:
    """Return the strategies of all variants, or None if one of LAAR's is missing, and which of LAAR's are proved optimal."""
    solver, strategies, proved = Milp(workers=1), dict[str, Active](), list[str]()
    solution = None
    for name, sla in reversed(LAAR.items()):  # the strictest first: most applications fail there
        solution = solver.solve(instance.at(sla), seconds=seconds)
        if solution.active is None:
            return None, proved
        strategies[name] = solution.active
        if solution.outcome is Outcome.BST:
            proved.append(name)
    assert solution is not None
    strategies |= {"NR": non_replicated(instance, solver=_Known(solution)), "SR": static_replication(instance)}
    strategies["GRD"] = greedy(instance)
    return {name: strategies[name] for name in VARIANTS}, proved


@dataclass(frozen=True, slots=True)
class _Known:
    """A solver that returns a known solution: NR is derived from the strategy for an IC of 0.5."""

    solution: Solution
    name: str = "known"

    def solve(self, instance: Instance, *, seconds: float = 60.0) -> Solution:
        return self.solution


def _is_high(descriptor: Descriptor, trace: RateTrace) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Return which seconds of the trace belong to High, ignoring glitches."""
    plain = rates_by_probability(descriptor, seconds=SECONDS, visits=VISITS)
    high = descriptor.input_configurations[-1].rates["source"]
    return np.asarray(plain.rates[: len(trace.rates), 0] == high)


def _node_crash(descriptor: Descriptor, trace: RateTrace, rng: np.random.Generator) -> Schedule:
    """Return a schedule that crashes one random node for 16 s within a High period."""
    high = _is_high(descriptor, trace)
    starts = [t for t in range(len(high) - int(CRASH_S)) if high[t : t + int(CRASH_S)].all()]
    at_s, node = float(rng.choice(starts)), str(rng.choice(list(descriptor.nodes)))
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
