"""The baselines that LAAR is compared with (section 5.2): no replication, static replication, and a greedy rule."""

import itertools

import numpy as np

from holdfast.errors import HoldfastError
from holdfast.planning.laar.completeness import node_load
from holdfast.planning.laar.infeasibility import overload_error
from holdfast.planning.laar.instance import Active, Instance
from holdfast.planning.laar.milp import Milp
from holdfast.planning.laar.solver import Outcome, Solver


def static_replication(instance: Instance) -> Active:
    """Return SR: every replica is active in every configuration, even if nodes are overloaded.

    >>> from holdfast.planning.laar.examples import figure_1
    >>> bool(static_replication(Instance.of(figure_1())).all())
    True
    """
    return np.ones(instance.shape, dtype=np.bool_)


def non_replicated(instance: Instance, *, solver: Solver | None = None, seconds: float = 60.0) -> Active:
    """Return NR: one replica of each PE, the same in all configurations.

    NR takes the replicas from the strategy for IC 0.5, in the configuration with the most work. For a PE with all replicas active
    there, it keeps the one on the emptier node. If no strategy reaches 0.5, it starts from the cheapest strategy without an SLA.

    >>> from holdfast.planning.laar.examples import figure_1
    >>> non_replicated(Instance.of(figure_1())).sum(axis=2).tolist()
    [[1, 1], [1, 1]]
    """
    planner = solver or Milp()
    for sla in (0.5, 0.0):
        solution = planner.solve(instance.at(sla), seconds=seconds / 2)
        strategy = solution.active
        if strategy is not None:
            break
    else:
        if solution.outcome is Outcome.NUL:
            raise overload_error(instance)
        raise HoldfastError(
            f"no strategy for '{instance.application}' with one replica of each PE was found in {seconds:g} s, nor a proof that "
            "there is none; give more seconds"
        )
    hungriest = int(np.argmax(instance.work.sum(axis=1)))
    single = strategy[hungriest].copy()
    load = node_load(instance, strategy)[hungriest]
    for i in np.flatnonzero(single.sum(axis=1) > 1):
        replicas = np.flatnonzero(single[i])
        stays = min(replicas, key=lambda j: (load[instance.node_of[i, j]] / instance.capacity[instance.node_of[i, j]], j))
        for j in replicas:
            if j != stays:
                load[instance.node_of[i, j]] -= instance.work[hungriest, i]
        single[i] = False
        single[i, stays] = True
    return np.repeat(single[None], instance.shape[0], axis=0)


def greedy(instance: Instance) -> Active:
    """Return GRD: static replication, from which redundant replicas are removed until no node is overloaded.

    Each step takes the most overloaded node and deactivates one of its redundant replicas. Replicas of upstream PEs are deactivated
    first: those with the fewest PEs between them and a source. Among them, the one that uses most CPU is deactivated. A node whose
    replicas are all the last of their PE stays overloaded.

    >>> from holdfast.planning.laar.examples import figure_1
    >>> greedy(Instance.of(figure_1())).sum(axis=2).tolist()
    [[2, 2], [1, 1]]
    """
    active, depth = static_replication(instance), _depth(instance)
    for c in range(instance.shape[0]):
        while True:
            over = node_load(instance, active)[c] / instance.limit
            redundant = active[c] & (active[c].sum(axis=1) > 1)[:, None]
            candidates = [h for h in np.flatnonzero(over > 1) if (redundant & (instance.node_of == h)).any()]
            if not candidates:
                break
            node = max(candidates, key=lambda h: (over[h], -h))
            on_node = np.argwhere(redundant & (instance.node_of == node))
            i, j = min(on_node, key=lambda replica: (depth[replica[0]], -instance.work[c, replica[0]], *replica))
            active[c, i, j] = False
    return active


def _depth(instance: Instance) -> list[int]:
    """Return how many PEs there are on the longest path from a source to each PE, without the PE itself."""
    depth: list[int] = []
    for first, end in itertools.pairwise(instance.first_edge):
        depth.append(max((depth[tail] + 1 for tail in instance.tail[first:end]), default=0))
    return depth


BASELINES = ("NR", "SR", "GRD")


def baseline(name: str, instance: Instance, *, seconds: float = 60.0) -> Active:
    """Return the strategy of a baseline by its name in the paper. Only NR runs a solver, for at most `seconds`."""
    if name == "NR":
        return non_replicated(instance, seconds=seconds)
    if name == "SR":
        return static_replication(instance)
    if name == "GRD":
        return greedy(instance)
    raise HoldfastError(f"there is no baseline '{name}'; baselines are: {', '.join(BASELINES)}")
