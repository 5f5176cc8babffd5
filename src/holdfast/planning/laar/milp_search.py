"""One search of the exact solver: HiGHS minimises LAAR's programme, in one of two ways.

The hard part of the programme is to choose the nodes of lone replicas (the variables y). The *whole* search makes y binary from
the start. The *refined* search makes y continuous at first, and then packs the PEs that are not full exactly, one configuration
at a time. If the packing succeeds, the strategy is optimal. If not, the search forbids minimal sets of PEs that cannot all be
full, makes y of the heaviest PEs binary, and solves the programme again. Its bound stays valid throughout. Each way is faster
for many applications.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Literal

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, OptimizeResult, milp
from scipy.sparse import csr_array, vstack

from holdfast.errors import HoldfastError
from holdfast.planning.laar.completeness import internal_completeness, node_load, required_completeness
from holdfast.planning.laar.instance import IC_TOLERANCE, Active, Floats, Instance, Ints
from holdfast.planning.laar.linear_programme import Programme
from holdfast.planning.laar.packing import PackingUnknownError, cores, pack

Way = Literal["refined", "whole", "both"]
Goal = Literal["cost", "completeness", "shortfall"]

# HiGHS treats an absolute gap of 1e-6 as closed; with this scale that is 1e-9 of the cost without replication.
_SCALE = 1000.0
OPTIMAL, LIMIT, INFEASIBLE = 0, 1, 2
# After the first failed packing, PEs that need more than this share of a node get binary y; the share halves every two failures.
_HEAVY = 0.25
_PATIENCE = 2
# The share of the time that a refined search reserves to find any good strategy or, in one process, for the whole search.
_RESERVE = {"refined": 0.1, "both": 0.65, "whole": 1.0}
_ROOM = (0.97, 0.93, 0.85)


@dataclass(frozen=True, slots=True, eq=False)
class SearchQuestion:
    """What to minimise: extra cost, negative completeness, or extra cost plus `weight` times the shortfall from the SLA."""

    instance: Instance
    goal: Goal
    gap: float
    weight: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class SearchAnswer:
    """The result of a search: its best strategy, that strategy's value, and a proven bound on the value of all strategies."""

    status: int
    active: Active | None
    value: float
    bound: float
    tree_nodes: int

    @property
    def decided(self) -> bool:
        return self.status != LIMIT


def search(question: SearchQuestion, way: Way, deadline: float) -> SearchAnswer:
    """Search until there is a proof, or until `deadline` on `time.monotonic`."""
    instance = question.instance
    programme = Programme.of(instance)
    if question.goal == "shortfall":
        programme = programme.with_shortfall(question.weight)
    objective = -programme.completeness if question.goal == "completeness" else programme.price
    task = _Minimisation(instance, programme, objective, sla=question.goal == "cost", gap=question.gap, deadline=deadline)
    if question.goal != "completeness":
        task.rows.add(programme.completeness, low=required_completeness(instance) - (IC_TOLERANCE if task.sla else 0.0))
    task.run(way)
    return SearchAnswer(task.status, task.active, task.value / _SCALE, task.bound, task.tree_nodes)


class _Rows:
    """Constraints in addition to the programme's own."""

    def __init__(self) -> None:
        self.rows: list[Floats] = []
        self.low: list[float] = []
        self.high: list[float] = []

    def add(self, row: Floats, *, low: float = -np.inf, high: float = np.inf) -> None:
        self.rows.append(row)
        self.low.append(low)
        self.high.append(high)

    def constraint(self, programme: Programme, high: Floats | None) -> LinearConstraint:
        matrix, low = programme.matrix, programme.low
        high = programme.high if high is None else high
        if self.rows:
            matrix = vstack([matrix, csr_array(np.array(self.rows))], format="csr")
            low, high = np.append(low, self.low), np.append(high, self.high)
        return LinearConstraint(matrix, low, high)


class _Minimisation:
    """One minimisation: its constraints, its bound and the best strategy so far."""

    def __init__(
        self, instance: Instance, programme: Programme, objective: Floats, *, sla: bool, gap: float, deadline: float
    ) -> None:
        self.instance, self.programme, self.objective = instance, programme, objective
        self.sla, self.gap, self.deadline = sla, gap, deadline
        self.rows = _Rows()
        self.rng = np.random.default_rng(0)  # a fixed seed: the same instance gives the same search
        self.status = LIMIT
        self.bound = -np.inf
        self.tree_nodes = 0
        self.active: Active | None = None
        self.value = np.inf

    def run(self, way: Way) -> None:
        """Search for a proof; then, in the reserved time, for the best strategy."""
        remaining = max(0.0, self.deadline - time.monotonic())
        if way != "whole":
            try:
                self._refine(self.deadline - _RESERVE[way] * remaining)
            except PackingUnknownError:
                self.status = LIMIT
            if self.status == LIMIT and self.active is None:
                until = self.deadline if way == "refined" else self.deadline - 0.8 * _RESERVE[way] * remaining
                self._search_smaller_nodes(until)
        if way != "refined" and self.status == LIMIT:
            self._solve_whole()

    def _refine(self, until: float) -> None:
        """Solve with continuous y, pack, forbid what does not fit, and repeat."""
        heavy = np.inf
        for attempt in count():
            result = self._solve(self._integrality(heavy), until - time.monotonic())
            if result.x is None:
                self.status = int(result.status)
                return
            active = self._pack_all(result.x[self.programme.full] > 0.5)
            cuts = [] if active is None else list(self._sla_cuts(active))
            packs = active is not None and not cuts
            if active is not None and packs:
                self._keep(active, result)
            if (packs and result.status == OPTIMAL) or self._proven():
                self.status = OPTIMAL
                return
            for row, low in cuts:
                self.rows.add(row, low=low)
            heavy = _HEAVY * 0.5 ** (attempt // _PATIENCE)
            if time.monotonic() >= until:
                return

    def _proven(self) -> bool:
        """Return whether no strategy can be better than the best one so far."""
        return self.active is not None and self.value / _SCALE - self.bound <= self.gap * abs(self.value / _SCALE) + 1e-9

    def _search_smaller_nodes(self, until: float) -> None:
        """Find strategies by assuming slightly smaller nodes: the PEs that the relaxation then makes full can often be packed."""
        for room in _ROOM:
            remaining = until - time.monotonic()
            if remaining <= 0:
                return
            high = self.programme.high.copy()
            high[self.programme.node_rows] *= room
            result = self._solve(self._integrality(_HEAVY), remaining / 2, gap=1e-3, high=high)
            if result.x is None:
                continue
            try:
                active = self._pack_all(result.x[self.programme.full] > 0.5)
            except PackingUnknownError:
                continue
            if active is not None and not list(self._sla_cuts(active)):
                self._keep(active, result)

    def _keep(self, active: Active, result: OptimizeResult) -> None:
        if result.fun < self.value:
            self.active, self.value = active, float(result.fun)

    def _pack_all(self, full: Active) -> Active | None:
        """Return the strategy with these PEs full, or add a constraint for each configuration that does not fit and return None."""
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
        """Solve with binary y, and again with a cut while a rounded solution violates a constraint."""
        while (remaining := self.deadline - time.monotonic()) > 0:
            result = self._solve(self.programme.integral, remaining)
            if result.x is None:
                self.status = int(result.status)
                return
            active = self.programme.activation(self.instance, result.x)
            cuts = [*self._node_cuts(active), *((row, low, np.inf) for row, low in self._sla_cuts(active))]
            if not cuts:
                self._keep(active, result)
                self.status = OPTIMAL if self._proven() else int(result.status)
                return
            for row, low, high in cuts:
                self.rows.add(row, low=low, high=high)

    def _solve(self, integrality: Ints, seconds: float, *, gap: float | None = None, high: Floats | None = None) -> OptimizeResult:
        """Run HiGHS. With other right-hand sides (`high`) than the programme's own, its bound is not kept."""
        result = milp(
            self.objective * _SCALE,
            integrality=integrality,
            bounds=Bounds(0, 1),
            constraints=self.rows.constraint(self.programme, high),
            options={"time_limit": max(0.01, seconds), "mip_rel_gap": gap or self.gap},
        )
        if result.status not in (OPTIMAL, LIMIT, INFEASIBLE):
            raise HoldfastError(f"the MILP solver stopped with status {result.status}: {result.message}")
        bound = getattr(result, "mip_dual_bound", None)
        if high is None and bound is not None and np.isfinite(bound):
            self.bound = max(self.bound, float(bound) / _SCALE)
        self.tree_nodes += int(getattr(result, "mip_node_count", None) or 0)
        return result

    def _integrality(self, heavy: float) -> Ints:
        """Return binary z for all PEs, and binary y for PEs that need more than this share of one of their nodes."""
        instance, alone = self.instance, self.programme.alone
        integral = self.programme.integral.copy()
        share = instance.work[:, :, None] / instance.capacity[None, None, :]
        integral[alone[(alone >= 0) & (share < heavy)]] = 0
        return integral

    def _node_cuts(self, active: Active) -> Iterator[tuple[Floats, float, float]]:
        """Yield cover cuts: the replicas on an overloaded node do not all fit there."""
        for c, h in np.argwhere(node_load(self.instance, active) > self.instance.limit):
            row = np.zeros(len(self.objective))
            on_node = np.flatnonzero((active[c] & (self.instance.node_of == h)).any(axis=1))
            row[self.programme.full[c, on_node]] = 1
            row[self.programme.alone[c, on_node, h]] = 1
            yield row, -np.inf, float(len(on_node) - 1)

    def _sla_cuts(self, active: Active) -> Iterator[tuple[Floats, float]]:
        """Yield a cut if a rounded strategy misses the SLA: at least one more PE must be full."""
        if self.sla and internal_completeness(self.instance, active) < self.instance.sla - IC_TOLERANCE:
            row = np.zeros(len(self.objective))
            row[self.programme.full[~active.all(axis=2)]] = 1
            yield row, 1.0
