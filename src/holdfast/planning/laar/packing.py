"""Packing: choose the node of each lone replica, given the PEs that are full, in one configuration.

Each PE that is not full gets one replica on one of its nodes, and no node may be overloaded (Eq. 11 and 12). The choice does
not affect the cost.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array, csr_array, vstack

from holdfast.planning.laar.instance import Active, Floats, Instance

Full = NDArray[np.bool_]
_FEASIBLE, _INFEASIBLE = 0, 2


class PackingUnknownError(Exception):
    """Neither a packing nor a proof that there is none was found in time. The exact solver catches it."""


def pack(instance: Instance, c: int, full: Full, *, seconds: float = 5.0) -> Active | None:
    """Return active[PE, replica] of configuration c with these PEs full and the others alone, or None if that does not fit."""
    active = np.zeros(instance.shape[1:], dtype=np.bool_)
    active[full] = True
    room = instance.limit - _load(instance, c, active)
    if (room < 0).any():
        return None
    lone = np.flatnonzero(~full)
    if not len(lone):
        return active
    chosen = _put_emptiest_first(instance, c, lone, room)
    if chosen is None:
        chosen = _put_exactly(instance, c, lone, room, seconds=seconds)
    if chosen is None:
        return None
    active[lone, chosen] = True
    return active


def cores(instance: Instance, c: int, full: Full, *, rng: np.random.Generator, count: int = 4) -> Iterator[Full]:
    """Yield up to `count` minimal subsets of `full` that cannot all be full in configuration c.

    Each results from removing PEs while no packing exists, in a different order: light ones first, heavy ones first, then random.
    """
    by_work = sorted((int(i) for i in np.flatnonzero(full)), key=lambda i: (instance.work[c, i], i))
    earlier: set[bytes] = set()
    for n in range(count):
        order = (by_work, by_work[::-1])[n] if n < 2 else [int(i) for i in rng.permutation(by_work)]
        core = _shrink(instance, c, full, order)
        if core.tobytes() not in earlier:
            earlier.add(core.tobytes())
            yield core


def _shrink(instance: Instance, c: int, full: Full, order: list[int]) -> Full:
    """Remove PEs from `full` in this order while it stays unpackable."""
    core = full.copy()
    step, at = max(1, len(order) // 4), 0
    while at < len(order):
        trial = core.copy()
        trial[order[at : at + step]] = False
        if _unpackable(instance, c, trial):
            core = trial
            at += step
        elif step > 1:
            step //= 2
        else:
            at += 1
    return core


def _unpackable(instance: Instance, c: int, full: Full) -> bool:
    try:
        return pack(instance, c, full, seconds=1.0) is None
    except PackingUnknownError:
        return False


def _load(instance: Instance, c: int, active: Active) -> Floats:
    load = np.zeros(len(instance.nodes))
    where, replica = np.nonzero(active)
    np.add.at(load, instance.node_of[where, replica], instance.work[c, where])
    return load


def _put_emptiest_first(instance: Instance, c: int, lone: NDArray[np.intp], room: Floats) -> NDArray[np.intp] | None:
    """Assign each PE to its node with most room, heaviest PE first. Returns None if that overloads a node."""
    room = room.copy()
    chosen = np.zeros(len(lone), dtype=np.intp)
    for n in sorted(range(len(lone)), key=lambda n: (-instance.work[c, lone[n]], n)):
        nodes = instance.node_of[lone[n]]
        chosen[n] = int(np.argmax(room[nodes]))
        room[nodes[chosen[n]]] -= instance.work[c, lone[n]]
        if room[nodes[chosen[n]]] < 0:
            return None
    return chosen


def _put_exactly(instance: Instance, c: int, lone: NDArray[np.intp], room: Floats, *, seconds: float) -> NDArray[np.intp] | None:
    """Assign PEs to nodes by a feasibility programme. Returns None if there is no packing."""
    count, replicas, nodes = len(lone), instance.shape[2], len(instance.nodes)
    columns = np.arange(count * replicas)
    on = instance.node_of[lone].ravel()
    work = np.repeat(instance.work[c, lone], replicas)
    matrix = vstack(
        [
            coo_array((work / instance.capacity[on], (on, columns)), shape=(nodes, len(columns))),
            coo_array((np.ones(len(columns)), (np.repeat(np.arange(count), replicas), columns)), shape=(count, len(columns))),
        ],
        format="csr",
    )
    low = np.concatenate([np.full(nodes, -np.inf), np.ones(count)])
    high = np.concatenate([room / instance.capacity, np.ones(count)])
    while True:
        result = milp(
            np.zeros(len(columns)),
            integrality=np.ones(len(columns)),
            bounds=Bounds(0, 1),
            constraints=LinearConstraint(matrix, low, high),
            options={"time_limit": seconds},
        )
        if result.status == _INFEASIBLE:
            return None
        if result.x is None:
            raise PackingUnknownError
        chosen: NDArray[np.intp] = np.argmax(result.x.reshape(count, replicas), axis=1)
        loaded = np.zeros(nodes)
        np.add.at(loaded, instance.node_of[lone, chosen], instance.work[c, lone])
        over = np.flatnonzero(loaded > room)
        if not len(over):
            return chosen
        # The solver tolerates rounding errors, but these PEs do not all fit on that node: forbid the combination.
        cuts = np.zeros((len(over), len(columns)))
        for row, node in zip(cuts, over, strict=True):
            together = np.flatnonzero(instance.node_of[lone, chosen] == node)
            row[together * replicas + chosen[together]] = 1
        matrix = vstack([matrix, csr_array(cuts)], format="csr")
        low, high = np.append(low, np.full(len(over), -np.inf)), np.append(high, cuts.sum(axis=1) - 1)
