"""Bounds from linear duality, for FT-Search: the least cost and the highest IC of any completion of a partial strategy.

The dual values of the root relaxation give each constraint a price. With these prices the Lagrangian is a sum of one term per
(configuration, PE). So the bound at a tree node is the root's bound plus a penalty for each decision that is not the cheapest,
which costs one addition per step. The bound is computed from the dual values, not from the solver's optimum; rounding makes it
weaker but never wrong.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array, vstack

from holdfast.planning.laar import IC_TOLERANCE, Instance, Programme, required_completeness
from holdfast_papers.arrays import Floats

_OPTIMAL, _INFEASIBLE = 0, 2


@dataclass(frozen=True, slots=True, eq=False)
class Penalties:
    """A lower bound on an objective: `root` plus `full[c, i]` or `alone[c, i, node]` for every decision.

    If `root` is infinite, even the relaxation is infeasible. `relaxed_full` is the relaxation's solution for `full`.
    """

    root: float
    full: Floats
    alone: Floats
    relaxed_full: Floats


def cost_penalties(instance: Instance, programme: Programme) -> Penalties | None:
    """Bound the extra cost of strategies that meet the SLA, as a share of the cost without replication."""
    return _penalties(programme, programme.price, sla=required_completeness(instance) - IC_TOLERANCE)


def loss_penalties(programme: Programme) -> Penalties | None:
    """Bound -IC of the strategies that overload no node."""
    return _penalties(programme, -programme.completeness, sla=None)


def _penalties(programme: Programme, objective: Floats, *, sla: float | None) -> Penalties | None:
    equal = programme.low == programme.high
    below = ~equal
    matrix, high = programme.matrix[below], programme.high[below]
    if sla is not None:
        matrix = vstack([matrix, csr_array(-programme.completeness[None, :])], format="csr")
        high = np.append(high, -sla)
    equations, right = programme.matrix[equal], programme.high[equal]
    has_equations = bool(equal.any())
    result = linprog(
        objective,
        A_ub=matrix,
        b_ub=high,
        A_eq=equations if has_equations else None,
        b_eq=right if has_equations else None,
        bounds=(0, 1),
        method="highs",
    )
    if result.status == _INFEASIBLE:
        nothing = np.zeros(programme.full.shape)
        return Penalties(np.inf, full=nothing, alone=np.zeros(programme.alone.shape), relaxed_full=nothing)
    if result.status != _OPTIMAL:
        return None  # the search also works without a bound
    prices = np.minimum(result.ineqlin.marginals, 0.0)
    reduced = objective - matrix.T @ prices
    constant = float(prices @ high)
    if has_equations:
        reduced = reduced - equations.T @ result.eqlin.marginals
        constant += float(result.eqlin.marginals @ right)
    decided = programme.integral == 1
    constant += float(np.minimum(reduced[~decided], 0.0).sum())
    return _split(programme, reduced, constant, result.x)


def _split(programme: Programme, reduced: Floats, constant: float, x: Floats) -> Penalties:
    """Split the Lagrangian by (configuration, PE): exactly one of its columns is 1, or z is free if nodes set no limit."""
    full = reduced[programme.full]
    placed = programme.alone >= 0
    alone = np.where(placed, reduced[programme.alone], np.inf)
    free = ~placed.any(axis=2)
    alone[free] = 0.0  # there is no column, so not being full costs nothing in the Lagrangian
    least = np.minimum(full, alone.min(axis=2))
    return Penalties(
        root=constant + float(least.sum()),
        full=full - least,
        alone=alone - least[:, :, None],
        relaxed_full=x[programme.full],
    )
