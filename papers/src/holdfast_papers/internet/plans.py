"""Plans which replicas of the data center are active at which level, for ten thousand PEs at once."""

from __future__ import annotations

import numpy as np

from holdfast.documents import TaskOperator, Topology
from holdfast.planning.ppa import Frontier, Measure, StructureAware, output_fidelity
from holdfast_papers.arrays import Flags, Floats, Ints
from holdfast_papers.internet.data_center import CORES, DataCenter

VARIANTS = ("NR", "SR", "LAAR", "PPA", "combined")
SLOWEST = "PPA"  # the variant that takes longest to plan
STRIDE = 3


def strategy(world: DataCenter, variant: str, *, sla: float = 0.7, budget: float = 0.5) -> Flags:
    """Return the active flags of a variant: [level, PE, replica].

    PPA replicates half of the PEs at every level. Structure-aware gives the value of each number of replicas in an application; the
    budget is divided among the applications so that most output survives, and our planner plans each with its share.

    LAAR replicates whole applications, because a replica helps only if everything upstream has one. It takes the applications with
    the most completeness per CPU time, level by level, until the SLA is met, as far as nodes have room (Eq. 9 to 12, by density:
    all applications share the nodes, and no exact solver handles thirty thousand dependent decisions).

    The combined plan is like LAAR up to the capacity of the nodes, with checkpoints.
    """
    levels, pes = world.work.shape
    one = np.zeros((levels, pes, 2), dtype=np.bool_)
    one[:, np.arange(pes), _single_replica(world)] = True
    if variant == "SR":
        return np.ones_like(one)
    if variant == "PPA":
        return _by_fidelity(world, one, budget=int(budget * pes))
    return one if variant == "NR" else _by_density(world, one, sla=sla if variant == "LAAR" else 1.0)


def _single_replica(world: DataCenter) -> Ints:
    """Return which replica of each PE runs if only one does: heaviest PE first, the replica on the emptier node."""
    load = np.zeros(world.scale.machines)
    single = np.zeros(world.work.shape[1], dtype=np.int64)
    for i in np.argsort(-world.work[-1], kind="stable"):
        single[i] = int(np.argmin(load[world.node_of[i]]))
        load[world.node_of[i, single[i]]] += world.work[-1, i]
    return single


def _by_density(world: DataCenter, one: Flags, *, sla: float) -> Flags:
    active, capacity = one.copy(), CORES * (1 - 1e-9)
    apps = int(world.application.max()) + 1
    tuples = np.array([np.bincount(world.application, row, apps) for row in world.tuples]) * world.probability[:, None]
    work = np.array([np.bincount(world.application, row, apps) for row in world.work]) * world.probability[:, None]
    single = one[0].argmax(axis=1)
    all_pes = np.arange(len(single))
    load = np.array([np.bincount(world.node_of[all_pes, single], row, world.scale.machines) for row in world.work])
    completeness, total = 0.0, tuples.sum()
    members = [np.flatnonzero(world.application == a) for a in range(apps)]
    density = tuples / work
    for c, a in sorted(np.ndindex(*tuples.shape), key=lambda ca: (-density[ca], ca)):
        if completeness >= sla * total:
            break
        other = 1 - single[members[a]]
        added = np.bincount(world.node_of[members[a], other], world.work[c, members[a]], world.scale.machines)
        # A node that a single replica overloads must not prevent replication on other nodes.
        if (load[c] + added <= capacity)[added > 0].all():
            load[c] += added
            active[c, members[a]] = True
            completeness += float(tuples[c, a])
    return active


def _by_fidelity(world: DataCenter, one: Flags, *, budget: int) -> Flags:
    """Replicate where most output survives if everything else fails, over all applications (PPA section IV)."""
    number = {pe: i for i, pe in enumerate(world.descriptor.topological_order)}
    topologies = [topology(world, a) for a in range(int(world.application.max()) + 1)]
    measures = [output_fidelity(each) for each in topologies]
    curves = [budget_values(measure) * _output(world, each) for measure, each in zip(measures, topologies, strict=True)]
    active = one.copy()
    for measure, share in zip(measures, divide_budget(curves, budget), strict=True):
        for task in Frontier().plan(measure, share).tasks:
            active[:, number[task.rpartition("/")[0]]] = True
    return active


def topology(world: DataCenter, application: int) -> Topology:
    """Return an application as a topology: each PE is an operator of one task, and the first PE is the source."""
    order = world.descriptor.topological_order
    pes = [order[i] for i in np.flatnonzero(world.application == application)]
    emitted = world.emitted[-1]
    number = {pe: i for i, pe in enumerate(order)}
    operators = {
        pe: TaskOperator(
            inputs={up: "one-to-one" for up in world.descriptor.pes[pe].inputs if up in world.descriptor.pes},
            rate=float(emitted[number[pe]]),
        )
        for pe in pes
    }
    return Topology(topology=f"application {application}", operators=operators)


def _output(world: DataCenter, of: Topology) -> float:
    """Return the tuples per second that leave an application at the highest level."""
    read = {up for operator in of.operators.values() for up in operator.inputs}
    number = {pe: i for i, pe in enumerate(world.descriptor.topological_order)}
    return float(sum(world.emitted[-1][number[pe]] for pe in of.operators if pe not in read))


def budget_values(measure: Measure) -> Floats:
    """Return the value of each number of replicas in one application: by structure-aware for every third number, and in between the
    value of the lower one."""
    tasks = len(measure.weights)
    quality_of = {n: StructureAware(alone=True).plan(measure, n).quality for n in {*range(0, tasks + 1, STRIDE), tasks}}
    return np.array([max(quality_of[n] for n in quality_of if n <= number) for number in range(tasks + 1)])


def divide_budget(curves: list[Floats], budget: int) -> list[int]:
    """Divide a budget among several curves so that the sum of their values is highest; of equals, the first gets less.

    >>> divide_budget([np.array([0.0, 1.0, 1.5]), np.array([0.0, 0.0, 4.0])], 3)
    [1, 2]
    """
    best, best_shares = np.zeros(budget + 1), list[Ints]()
    for budget_values in curves:
        values = np.full((len(budget_values), budget + 1), -np.inf)
        for share, value in enumerate(budget_values[: budget + 1]):
            values[share, share:] = best[: budget + 1 - share] + value
        best_shares.append(values.argmax(axis=0))
        best = values.max(axis=0)
    remaining, shares = budget, list[int]()
    for share_of_budget in reversed(best_shares):
        shares.append(int(share_of_budget[remaining]))
        remaining -= shares[-1]
    return shares[::-1]
