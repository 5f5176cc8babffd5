"""The exact solver: LAAR's problem as a mixed-integer linear programme, solved by HiGHS. Any k, any configurations.

What makes the programme hard is not which PEs are full but on which host the others run alone. So the choice of hosts is left
continuous at first; the PEs that the programme makes full are then packed exactly, one configuration at a time. If that
works, the strategy is optimal. If not, a minimal set of PEs that cannot all be full is forbidden, the heaviest PEs' hosts
become binary, and the programme is solved again: its bound holds all along.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, OptimizeResult, milp
from scipy.sparse import csr_array, vstack

from holdfast.errors import HoldfastError
from holdfast.plan.laar.completeness import host_load, internal_completeness
from holdfast.plan.laar.instance import IC_TOLERANCE, Active, Floats, Instance, Ints
from holdfast.plan.laar.packing import PackingUnknownError, cores, pack
from holdfast.plan.laar.programme import Programme
from holdfast.plan.laar.quiet import stdout_closed
from holdfast.plan.laar.solver import Outcome, Solution, base_cost, solved

# HiGHS calls a gap of 1e-6 closed in absolute terms; in thousandths that is 1e-9 of the cost without replication.
_SCALE = 1000.0
_OPTIMAL, _LIMIT, _INFEASIBLE = 0, 1, 2
# PEs of more than this share of a host get binary hosts after the first failure; half of it after each two more.
_HEAVY = 0.25
_PATIENCE = 2
# What is left of the time when the search for a proof gives way to the search for any good strategy.
_RESERVE = 0.5
_ROOM = (0.97, 0.93, 0.85)


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
        search = _Search(instance, programme, programme.price, sla=True, gap=self.gap, deadline=started + seconds)
        search.rows.add(programme.completeness, low=instance.sla - IC_TOLERANCE)
        search.run()
        elapsed = time.perf_counter() - started
        bound = base_cost(instance) * (1 + max(0.0, search.bound))
        if search.status == _INFEASIBLE:
            return Solution(self.name, Outcome.NUL, elapsed, bound=float("inf"), nodes=search.nodes)
        if search.active is None:
            return Solution(self.name, Outcome.TMO, elapsed, bound=bound, nodes=search.nodes)
        optimal = search.status == _OPTIMAL
        return solved(self.name, instance, search.active, optimal=optimal, seconds=elapsed, bound=bound, nodes=search.nodes)


def most_complete(instance: Instance, *, seconds: float = 60.0) -> tuple[Active | None, float]:
    """A strategy of the highest IC that hosts allow, and a proven upper bound on IC; None where Eq. 11 and 12 clash."""
    programme = Programme.of(instance)
    deadline = time.perf_counter() + seconds
    search = _Search(instance, programme, -programme.completeness, sla=False, gap=1e-6, deadline=deadline)
    search.run()
    if search.status == _INFEASIBLE:
        return None, 0.0
    return search.active, min(1.0, -search.bound)


def cheapest_with_shortfall(instance: Instance, *, weight: float, seconds: float = 60.0) -> tuple[Active | None, bool]:
    """The strategy that minimises cost / base cost + weight * max(0, sla - IC), and whether it is proven to do so."""
    programme = Programme.of(instance).with_shortfall(weight)
    deadline = time.perf_counter() + seconds
    search = _Search(instance, programme, programme.price, sla=False, gap=1e-7, deadline=deadline)
    search.rows.add(programme.completeness, low=instance.sla)
    search.run()
    return search.active, search.status == _OPTIMAL


class _Rows:
    """Constraints beside the programme's own."""

    def __init__(self) -> None:
        self.rows: list[Floats] = []
        self.low: list[float] = []
        self.high: list[float] = []

    def add(self, row: Floats, *, low: float = -np.inf, high: float = np.inf) -> None:
        self.rows.append(row)
        self.low.append(low)
        self.high.append(high)

    def joined(self, programme: Programme, high: Floats | None) -> LinearConstraint:
        matrix, low = programme.matrix, programme.low
        high = programme.high if high is None else high
        if self.rows:
            matrix = vstack([matrix, csr_array(np.array(self.rows))], format="csr")
            low, high = np.append(low, self.low), np.append(high, self.high)
        return LinearConstraint(matrix, low, high)


class _Search:
    """One minimisation: what it knows, round after round."""

    def __init__(
        self, instance: Instance, programme: Programme, objective: Floats, *, sla: bool, gap: float, deadline: float
    ) -> None:
        self.instance, self.programme, self.objective = instance, programme, objective
        self.sla, self.gap, self.deadline = sla, gap, deadline
        self.rows = _Rows()
        self.rng = np.random.default_rng(0)  # only the order in which PEs are dropped: same instance, same search
        self.status = _LIMIT
        self.bound = -np.inf
        self.nodes = 0
        self.active: Active | None = None
        self.value = np.inf

    def run(self) -> None:
        """Look for a proof; then, in the time kept back, for the best strategy that can be found."""
        left = self.deadline - time.perf_counter()
        try:
            self._refine(self.deadline - _RESERVE * max(0.0, left))
        except PackingUnknownError:
            self.status = _LIMIT
        if self.status == _LIMIT:
            if self.active is None:
                self._improvise(self.deadline - 0.8 * _RESERVE * max(0.0, left))
            self._solve_whole()

    def _refine(self, until: float) -> None:
        """Solve with continuous hosts, pack, forbid, again."""
        heavy = np.inf
        for attempt in count():
            result = self._solve(self._integrality(heavy), until - time.perf_counter())
            if result.x is None:
                self.status = int(result.status)
                return
            active = self._packed(result.x[self.programme.full] > 0.5)
            broken = [] if active is None else list(self._sla_cuts(active))
            packs = active is not None and not broken
            if active is not None and packs:
                self._keep(active, result)
            if (packs and result.status == _OPTIMAL) or self._proven():
                self.status = _OPTIMAL
                return
            for row, low in broken:
                self.rows.add(row, low=low)
            heavy = _HEAVY * 0.5 ** (attempt // _PATIENCE)
            if time.perf_counter() >= until:
                return

    def _proven(self) -> bool:
        """Whether nothing can be better than what was found."""
        return self.active is not None and self.value / _SCALE - self.bound <= self.gap * abs(self.value / _SCALE) + 1e-9

    def _improvise(self, until: float) -> None:
        """Find strategies by pretending that hosts are a little smaller: what the relaxation then makes full often packs."""
        for room in _ROOM:
            left = until - time.perf_counter()
            if left <= 0:
                return
            high = self.programme.high.copy()
            high[self.programme.host_rows] *= room
            result = self._solve(self._integrality(_HEAVY), left / 2, gap=1e-3, high=high)
            if result.x is None:
                continue
            try:
                active = self._packed(result.x[self.programme.full] > 0.5)
            except PackingUnknownError:
                continue
            if active is not None and not list(self._sla_cuts(active)):
                self._keep(active, result)

    def _keep(self, active: Active, result: OptimizeResult) -> None:
        if result.fun < self.value:
            self.active, self.value = active, float(result.fun)

    def _packed(self, full: Active) -> Active | None:
        """The strategy with these PEs full, or None and a new constraint against each configuration that cannot be."""
        parts = []
        for c in range(self.instance.shape[0]):
            part = pack(self.instance, c, full[c])
            if part is None:
                for core in cores(self.instance, c, full[c], rng=self.rng):
                    row = np.zeros(len(self.objective))
                    row[self.programme.full[c, core]] = 1
                    self.rows.add(row, high=float(core.sum() - 1))
                continue
            parts.append(part)
        return np.stack(parts) if len(parts) == self.instance.shape[0] else None

    def _solve_whole(self) -> None:
        """Solve with binary hosts, and again with a cut while rounding lets through what breaks a constraint."""
        while (left := self.deadline - time.perf_counter()) > 0:
            result = self._solve(self.programme.integral, left)
            if result.x is None:
                self.status = int(result.status)
                return
            active = self.programme.activation(self.instance, result.x)
            cuts = [*self._host_cuts(active), *((row, low, np.inf) for row, low in self._sla_cuts(active))]
            if not cuts:
                self._keep(active, result)
                self.status = _OPTIMAL if self._proven() else int(result.status)
                return
            for row, low, high in cuts:
                self.rows.add(row, low=low, high=high)

    def _solve(self, integrality: Ints, seconds: float, *, gap: float | None = None, high: Floats | None = None) -> OptimizeResult:
        """Run HiGHS. With other right sides than the programme's own, what it proves is not kept."""
        with stdout_closed():
            result = milp(
                self.objective * _SCALE,
                integrality=integrality,
                bounds=Bounds(0, 1),
                constraints=self.rows.joined(self.programme, high),
                options={"time_limit": max(0.01, seconds), "mip_rel_gap": gap or self.gap},
            )
        if result.status not in (_OPTIMAL, _LIMIT, _INFEASIBLE):
            raise HoldfastError(f"the MILP solver stopped with status {result.status}: {result.message}")
        bound = getattr(result, "mip_dual_bound", None)
        if high is None and bound is not None and np.isfinite(bound):
            self.bound = max(self.bound, float(bound) / _SCALE)
        self.nodes += int(getattr(result, "mip_node_count", None) or 0)
        return result

    def _integrality(self, heavy: float) -> Ints:
        """Binary z for all, binary y for PEs that need more than that share of one of their hosts."""
        instance, alone = self.instance, self.programme.alone
        integral = self.programme.integral.copy()
        share = instance.work[:, :, None] / instance.capacity[None, None, :]
        integral[alone[(alone >= 0) & (share < heavy)]] = 0
        return integral

    def _host_cuts(self, active: Active) -> Iterator[tuple[Floats, float, float]]:
        """Covers: these replicas do not all fit on the host."""
        for c, h in np.argwhere(host_load(self.instance, active) > self.instance.limit):
            row = np.zeros(len(self.objective))
            on_host = np.flatnonzero((active[c] & (self.instance.host_of == h)).any(axis=1))
            row[self.programme.full[c, on_host]] = 1
            row[self.programme.alone[c, on_host, h]] = 1
            yield row, -np.inf, float(len(on_host) - 1)

    def _sla_cuts(self, active: Active) -> Iterator[tuple[Floats, float]]:
        """Where rounding let a strategy through that misses the SLA: some PE that is not full must become so."""
        if self.sla and internal_completeness(self.instance, active) < self.instance.sla - IC_TOLERANCE:
            row = np.zeros(len(self.objective))
            row[self.programme.full[~active.all(axis=2)]] = 1
            yield row, 1.0
