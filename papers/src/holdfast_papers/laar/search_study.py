"""The paper's study of FT-Search (section 4.5, Figures 4 to 6): runs solvers over a corpus and summarises the runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from holdfast.planning.laar import Instance, Milp, Outcome, Solver
from holdfast_papers.laar.ftsearch import FTSearch
from holdfast_papers.laar.ftsearch_kernel import PRUNINGS
from holdfast_papers.laar.generator import generate

CONSTRAINTS = (0.5, 0.6, 0.7, 0.8, 0.9)
CONTENDERS: Mapping[str, Callable[[int], Solver]] = {
    "ft-search-paper": lambda workers: FTSearch(workers=workers, bounds="paper", clock=_clock(workers)),
    "ft-search": lambda workers: FTSearch(workers=workers, clock=_clock(workers)),
    "milp": lambda workers: Milp(workers=min(2, workers)),
}


def _clock(workers: int) -> Callable[[], float]:
    """Return the clock of a search: on one core it counts CPU time, so that other processes do not shorten the search."""
    return time.process_time if workers == 1 else time.perf_counter


# The paper's values, from runs of 10 minutes on 6 cores at 3.5 GHz.
PAPER = {"first_cost": 1.057, "first_time": 0.37}


@dataclass(frozen=True, slots=True)
class Task:
    """One run to make: an application of the corpus, an SLA, a solver and its time limit."""

    seed: int
    application: int
    sla: float
    solver: str
    seconds: float
    threads: int = 1

    @property
    def key(self) -> str:
        return f"{self.application}/{self.sla:g}/{self.solver}"


@dataclass(frozen=True, slots=True)
class Run:
    """The result of one run. `first` and `last` are (cost, seconds) of the first solution and of the best one."""

    key: str
    application: int
    sla: float
    solver: str
    nodes: int
    pes: int
    outcome: str
    seconds: float
    cost: float | None
    gap: float | None
    tree_nodes: int
    first: tuple[float, float] | None = None
    last: tuple[float, float] | None = None
    prunings: Mapping[str, tuple[int, float]] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """Return the run in plain values."""
        return asdict(self)

    @property
    def decided(self) -> bool:
        return Outcome(self.outcome).decided


def evaluate(task: Task) -> Run:
    """Make one run. The application depends only on the seed of the corpus and on its number."""
    descriptor = generate(np.random.default_rng([task.seed, task.application]), name=f"app{task.application:04d}")
    instance = Instance.of(descriptor, sla=task.sla)
    solution = CONTENDERS[task.solver](task.threads).solve(instance, seconds=task.seconds)
    first, last = solution.first, solution.last
    return Run(
        key=task.key,
        application=task.application,
        sla=task.sla,
        solver=task.solver,
        nodes=len(instance.nodes),
        pes=len(instance.pes),
        outcome=solution.outcome.value,
        seconds=solution.seconds,
        cost=solution.cost,
        gap=solution.gap if np.isfinite(solution.gap) else None,
        tree_nodes=solution.tree_nodes,
        first=(first.cost, first.seconds) if first else None,
        last=(last.cost, last.seconds) if last else None,
        prunings={rule: (cut.count, cut.height) for rule, cut in solution.prunings.items()},
    )


def evaluate_to_document(task: Task) -> dict[str, Any]:
    """Make one run and return it in plain values."""
    return evaluate(task).document()


def run_of(document: Mapping[str, Any]) -> Run:
    """Return the run that `Run.document` wrote."""
    values = dict(document)
    for name in ("first", "last"):
        values[name] = tuple(values[name]) if values[name] else None
    values["prunings"] = {rule: tuple(cut) for rule, cut in values["prunings"].items()}
    return Run(**values)


def outcomes(runs: Iterable[Run]) -> dict[tuple[str, float], dict[str, float]]:
    """Return the share of each outcome by solver and IC constraint (Figure 4)."""
    groups: dict[tuple[str, float], list[str]] = {}
    for run in runs:
        groups.setdefault((run.solver, run.sla), []).append(run.outcome)
    return {
        key: {outcome.value: endings.count(outcome.value) / len(endings) for outcome in Outcome}
        for key, endings in sorted(groups.items())
    }


def decided_by_any(runs: Iterable[Run], solvers: Sequence[str]) -> float:
    """Return the share of (application, SLA) pairs for which one of the solvers proved an optimum or infeasibility."""
    decided: dict[tuple[int, float], bool] = {}
    for run in runs:
        if run.solver in solvers:
            pair = (run.application, run.sla)
            decided[pair] = decided.get(pair, False) or run.decided
    return sum(decided.values()) / len(decided) if decided else 0.0


@dataclass(frozen=True, slots=True)
class FirstSolution:
    """The first solution compared with the optimum (Figure 5): one ratio for each run that found the optimum."""

    cost: tuple[float, ...]
    time: tuple[float, ...]

    @property
    def mean_cost(self) -> float | None:
        return float(np.mean(self.cost)) if self.cost else None

    @property
    def mean_time(self) -> float | None:
        return float(np.mean(self.time)) if self.time else None


def first_solutions(runs: Iterable[Run]) -> FirstSolution:
    """Return cost and time of the first solutions, as shares of the optimum's."""
    optimal = [run for run in runs if run.outcome == Outcome.BST and run.first and run.last]
    return FirstSolution(
        cost=tuple(run.first[0] / run.last[0] for run in optimal if run.first and run.last and run.last[0] > 0),
        time=tuple(run.first[1] / run.last[1] for run in optimal if run.first and run.last and run.last[1] > 0),
    )


def prunings(runs: Iterable[Run]) -> dict[str, tuple[float, float]]:
    """Return each rule's mean share of the pruned values and the mean height of the branches that it cut (Figure 6).

    Every run has the same weight.
    """
    shares: dict[str, list[float]] = {rule: [] for rule in PRUNINGS}
    heights: dict[str, list[float]] = {rule: [] for rule in PRUNINGS}
    for run in runs:
        total = sum(count for count, _ in run.prunings.values())
        for rule in PRUNINGS if total else ():
            count, height = run.prunings[rule]
            shares[rule].append(count / total)
            if count:
                heights[rule].append(height)
    return {
        rule: (
            float(np.mean(shares[rule])) if shares[rule] else 0.0,
            float(np.mean(heights[rule])) if heights[rule] else 0.0,
        )
        for rule in PRUNINGS
    }
