"""Measures how long planning of topologies takes, how the time grows, and what the frontier planner gains over structure-aware.

    python benchmarks/ppa_planners.py [--tasks 1000] [--seeds 3] [--json]

The topologies have ten operators, of every kind, half with joins, at an eighth, a quarter, a half and all of the given number
of tasks. Each is planned with replicas for half its tasks. Seconds are CPU time of this process and of its solver process, so
other work on the machine matters little. The growth is the exponent of time in tasks times budget (1 is linear), fitted over
all sizes. One plan before the measurement loads the compiled code.
"""

import argparse
import json
import sys
import time
from dataclasses import dataclass

import numpy as np
import psutil

from holdfast.planning.ppa import Frontier, Measure, Planner, StructureAware, output_fidelity
from holdfast_papers.ppa.generator import Kind, Ranges, generate

SECONDS = 10.0
EXPONENT = 1.3
KINDS: tuple[Kind, ...] = ("structured", "full", "general")


@dataclass(frozen=True)
class Run:
    """One plan: kind and tasks of its topology, planner, CPU seconds, quality and bound."""

    kind: str
    tasks: int
    budget: int
    planner: str
    seconds: float
    quality: float
    bound: float


def topology(kind: Kind, tasks: int, seed: int) -> Measure:
    """Return a topology of ten operators with about this many tasks."""
    rng = np.random.default_rng([seed, tasks])
    ranges = Ranges(operators=(10, 10), parallelism=(tasks // 20, tasks * 3 // 20), kind=kind, zipf=0.5)
    drawn = [generate(rng, ranges=ranges) for _ in range(20)]
    return output_fidelity(min(drawn, key=lambda t: abs(len(t.tasks) - tasks)))


def cpu_seconds() -> float:
    """Return the CPU time of this process and its solver processes."""
    solvers = [child.cpu_times() for child in psutil.Process().children()]
    return time.process_time() + sum(times.user + times.system for times in solvers)


def timed(planner: Planner, measure: Measure, kind: str) -> Run:
    budget = len(measure.weights) // 2
    started = cpu_seconds()
    plan = planner.plan(measure, budget)
    seconds = cpu_seconds() - started
    return Run(kind, len(measure.weights), budget, planner.name, seconds, plan.quality, plan.bound)


def growth(runs: list[Run]) -> float:
    """Return the exponent of time in tasks times budget."""
    size = np.log([run.tasks * run.budget for run in runs])
    return float(np.polyfit(size, np.log([max(run.seconds, 1e-4) for run in runs]), 1)[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    planners: tuple[Planner, ...] = (Frontier(), StructureAware())
    runs: list[Run] = []
    timed(planners[0], topology("full", 100, 0), "full")
    for tasks in (options.tasks // 8, options.tasks // 4, options.tasks // 2, options.tasks):
        for kind in KINDS:
            for seed in range(options.seeds):
                measure = topology(kind, tasks, seed)
                for planner in planners:
                    runs.append(timed(planner, measure, kind))
                    run = runs[-1]
                    print(
                        f"{kind:10} {run.tasks:5} tasks {run.planner:16} {run.seconds:7.2f} s  OF {run.quality:.4f}"
                        f" of at most {run.bound:.4f}",
                        file=sys.stderr,
                    )
    by_planner = {p.name: [run for run in runs if run.planner == p.name] for p in planners}
    largest = {name: [r for r in own if r.tasks > 0.75 * options.tasks] for name, own in by_planner.items()}
    worst = {name: max(r.seconds for r in own) for name, own in largest.items()}
    exponents = {name: growth(own) for name, own in by_planner.items()}
    gains = [a.quality - b.quality for a, b in zip(*by_planner.values(), strict=True)]
    ours, theirs = (worst[p.name] for p in planners)
    outcome = {
        "claim": f"a topology of {options.tasks:,} tasks is planned in under {SECONDS:g} s, time grows near-linearly in tasks"
        " times budget, and ours is never below structure-aware; worst CPU seconds at that size, ours and structure-aware",
        "ours": round(ours, 3),
        "theirs": round(theirs, 3),
        "ratio": round(ours / theirs, 3),
        "bound": SECONDS,
        "holds": ours < SECONDS and max(exponents.values()) <= EXPONENT and min(gains) >= -1e-9,
        "growth": {name: round(value, 3) for name, value in exponents.items()},
        "growth_bound": EXPONENT,
        "gain": {"least": min(gains), "mean": round(float(np.mean(gains)), 4), "most": round(max(gains), 4)},
        "gap": {
            "mean": round(float(np.mean([r.bound - r.quality for r in by_planner["frontier"]])), 4),
            "proven": sum(r.bound - r.quality <= 1e-9 for r in by_planner["frontier"]),
            "plans": len(by_planner["frontier"]),
        },
    }
    if options.json:
        print(json.dumps(outcome, indent=2))
        return
    print(f"worst at {options.tasks:,} tasks: ours {ours:.2f} s, structure-aware {theirs:.2f} s (bound {SECONDS:g} s)")
    print(f"growth in tasks times budget: {outcome['growth']} (bound {EXPONENT})")
    print(f"OF gained over structure-aware: {outcome['gain']}; gap to the bound: {outcome['gap']}")
    print(f"holds: {outcome['holds']}")


if __name__ == "__main__":
    main()
