"""The exact solver: LAAR's problem as a mixed-integer linear programme, solved by HiGHS. Any k, any configurations."""

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, OptimizeResult, milp
from scipy.sparse import csr_array, vstack

from holdfast.errors import HoldfastError
from holdfast.plan.laar.completeness import host_load, internal_completeness
from holdfast.plan.laar.instance import IC_TOLERANCE, Active, Floats, Instance
from holdfast.plan.laar.programme import Programme
from holdfast.plan.laar.solver import Outcome, Solution, base_cost, solved

# HiGHS calls a gap of 1e-6 closed in absolute terms; in thousandths that is 1e-9 of the cost without replication.
_SCALE = 1000.0
_OPTIMAL, _LIMIT, _INFEASIBLE = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Milp:
    """Solves to proven optimality, or until time runs out with a proven gap.

    >>> from holdfast.plan.laar.examples import figure_1
    >>> solution = Milp().solve(Instance.of(figure_1(sla=0.6)))
    >>> solution.outcome.value, round(solution.ic, 3), round(solution.cost / 2592000, 3)
    ('BST', 0.667, 1.6)
    """

    gap: float = 1e-7
    name: str = field(default="milp", init=False)

    def solve(self, instance: Instance, *, seconds: float = 60.0) -> Solution:
        started = time.perf_counter()
        programme = Programme.of(instance)
        goal = _Rows([programme.completeness], [instance.sla - IC_TOLERANCE], [np.inf])
        result, active = _solve_exactly(
            programme, instance, programme.price, goal, gap=self.gap, deadline=started + seconds, wants_sla=True
        )
        elapsed = time.perf_counter() - started
        if result.status == _INFEASIBLE:
            return Solution(self.name, Outcome.NUL, elapsed, bound=float("inf"))
        base = base_cost(instance)
        bound = base * (1 + max(0.0, _dual_bound(result)))
        if active is None:
            return Solution(self.name, Outcome.TMO, elapsed, bound=bound, nodes=_nodes(result))
        return solved(
            self.name,
            instance,
            active,
            optimal=result.status == _OPTIMAL,
            seconds=elapsed,
            bound=bound,
            nodes=_nodes(result),
        )


def most_complete(instance: Instance, *, seconds: float = 60.0) -> tuple[Active | None, float]:
    """A strategy of the highest IC that hosts allow, and a proven upper bound on IC; None where Eq. 11 and 12 clash."""
    programme = Programme.of(instance)
    result, active = _solve_exactly(
        programme,
        instance,
        -programme.completeness,
        _Rows([], [], []),
        gap=1e-6,
        deadline=time.perf_counter() + seconds,
        wants_sla=False,
    )
    if result.status == _INFEASIBLE:
        return None, 0.0
    return active, min(1.0, -_dual_bound(result))


def cheapest_with_shortfall(instance: Instance, *, weight: float, seconds: float = 60.0) -> tuple[Active | None, bool]:
    """The strategy that minimises cost / base cost + weight * max(0, sla - IC), and whether it is proven to do so."""
    programme = Programme.of(instance).with_shortfall(weight)
    goal = _Rows([programme.completeness], [instance.sla], [np.inf])
    result, active = _solve_exactly(
        programme,
        instance,
        programme.price,
        goal,
        gap=1e-7,
        deadline=time.perf_counter() + seconds,
        wants_sla=False,
    )
    return active, bool(result.status == _OPTIMAL)


@dataclass(slots=True)
class _Rows:
    """Constraints beside the programme's own."""

    rows: list[Floats]
    low: list[float]
    high: list[float]


def _solve_exactly(
    programme: Programme,
    instance: Instance,
    objective: Floats,
    extra: _Rows,
    *,
    gap: float,
    deadline: float,
    wants_sla: bool,
) -> tuple[OptimizeResult, Active | None]:
    """Solve, and solve again with a cut for as long as rounding let through a strategy that breaks a constraint.

    HiGHS keeps constraints to about 1e-6. Its answer is checked to the last digit; what fails is cut off by an
    inequality that every truly feasible strategy satisfies, so that the answer stays exact.
    """
    while True:
        result = _run(programme, objective, extra, gap=gap, seconds=max(0.01, deadline - time.perf_counter()))
        if result.x is None:
            return result, None
        active = programme.activation(instance, result.x)
        cuts = list(_cuts(programme, instance, active, wants_sla=wants_sla))
        if not cuts:
            return result, active
        if time.perf_counter() >= deadline:
            result.status = _LIMIT
            return result, None
        for row, low, high in cuts:
            extra.rows.append(row)
            extra.low.append(low)
            extra.high.append(high)


def _cuts(programme: Programme, instance: Instance, active: Active, *, wants_sla: bool) -> Iterator[tuple[Floats, float, float]]:
    width = len(programme.price)
    for c, h in np.argwhere(host_load(instance, active) > instance.limit):
        row = np.zeros(width)  # a cover: these replicas do not all fit on the host
        on_host = np.flatnonzero((active[c] & (instance.host_of == h)).any(axis=1))
        row[programme.full[c, on_host]] = 1
        row[programme.alone[c, on_host, h]] = 1
        yield row, -np.inf, float(len(on_host) - 1)
    if wants_sla and internal_completeness(instance, active) < instance.sla - IC_TOLERANCE:
        row = np.zeros(width)  # IC is monotone: some PE that is not full must become so
        row[programme.full[~active.all(axis=2)]] = 1
        yield row, 1.0, np.inf


def _run(programme: Programme, objective: Floats, extra: _Rows, *, gap: float, seconds: float) -> OptimizeResult:
    matrix, low, high = programme.matrix, programme.low, programme.high
    if extra.rows:
        matrix = vstack([matrix, csr_array(np.array(extra.rows))], format="csr")
        low, high = np.append(low, extra.low), np.append(high, extra.high)
    with _stdout_closed():
        result = milp(
            objective * _SCALE,
            integrality=programme.integral,
            bounds=Bounds(0, 1),
            constraints=LinearConstraint(matrix, low, high),
            options={"time_limit": seconds, "mip_rel_gap": gap},
        )
    if result.status not in (_OPTIMAL, _LIMIT, _INFEASIBLE):
        raise HoldfastError(f"the MILP solver stopped with status {result.status}: {result.message}")
    return result


def _dual_bound(result: OptimizeResult) -> float:
    bound = getattr(result, "mip_dual_bound", None)
    return -np.inf if bound is None or not np.isfinite(bound) else float(bound) / _SCALE


def _nodes(result: OptimizeResult) -> int:
    return int(getattr(result, "mip_node_count", None) or 0)


_STDOUT = threading.Lock()


@contextmanager
def _stdout_closed() -> Iterator[None]:
    """Send the process's standard output to nowhere: HiGHS prints notes there that no option silences."""
    with _STDOUT:
        sys.stdout.flush()
        kept, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(nowhere, 1)
            yield
        finally:
            os.dup2(kept, 1)
            os.close(kept)
            os.close(nowhere)
