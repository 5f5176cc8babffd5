"""Who is active when in the data center, by variant: planned for ten thousand PEs at once."""

from __future__ import annotations

import numpy as np

from holdfast.documents import TaskOperator, Topology
from holdfast.planning.ppa import Frontier, Measure, StructureAware, output_fidelity
from holdfast_papers.arrays import Flags, Floats, Ints
from holdfast_papers.internet.data_center import CORES, World

VARIANTS = ("NR", "SR", "LAAR", "PPA", "combined")
SLOWEST = "PPA"  # to plan
STRIDE = 3


def strategy(world: World, variant: str, *, sla: float = 0.7, budget: float = 0.5) -> Flags:
    """Who is active at which level: [level, PE, replica].

    PPA: replicas for half of the PEs, whatever the load. What a number of them is worth in each application is asked of
    structure-aware, the budget is shared out among the applications so that most output stays alive, and our planner then plans
    each with its share. LAAR: replicas pay only where everything upstream has them too, so
    applications are taken whole: those that bring most completeness for their CPU time, level by level, until the SLA is met, where
    the nodes can carry them (Eq. 9 to 12, by density; nodes are shared by all applications, and no exact solver takes thirty
    thousand decisions that hang together). Combined: as LAAR, to all that the nodes can carry, over checkpoints.
    """
    levels, pes = world.work.shape
    one = np.zeros((levels, pes, 2), dtype=np.bool_)
    one[:, np.arange(pes), _lone(world)] = True
    if variant == "SR":
        return np.ones_like(one)
    if variant == "PPA":
        return _by_fidelity(world, one, budget=int(budget * pes))
    return one if variant == "NR" else _by_density(world, one, sla=sla if variant == "LAAR" else 1.0)


def _lone(world: World) -> Ints:
    """Which replica of each PE runs where only one does: heaviest first, the one on the emptier node."""
    load = np.zeros(world.scale.machines)
    lone = np.zeros(world.work.shape[1], dtype=np.int64)
    for i in np.argsort(-world.work[-1], kind="stable"):
        lone[i] = int(np.argmin(load[world.node_of[i]]))
        load[world.node_of[i, lone[i]]] += world.work[-1, i]
    return lone


def _by_density(world: World, one: Flags, *, sla: float) -> Flags:
    active, capacity = one.copy(), CORES * (1 - 1e-9)
    apps = int(world.application.max()) + 1
    tuples = np.array([np.bincount(world.application, row, apps) for row in world.tuples]) * world.probability[:, None]
    work = np.array([np.bincount(world.application, row, apps) for row in world.work]) * world.probability[:, None]
    lone = one[0].argmax(axis=1)
    everyone = np.arange(len(lone))
    load = np.array([np.bincount(world.node_of[everyone, lone], row, world.scale.machines) for row in world.work])
    kept, total = 0.0, tuples.sum()
    members = [np.flatnonzero(world.application == a) for a in range(apps)]
    density = tuples / work
    for c, a in sorted(np.ndindex(*tuples.shape), key=lambda ca: (-density[ca], ca)):
        if kept >= sla * total:
            break
        other = 1 - lone[members[a]]
        adds = np.bincount(world.node_of[members[a], other], world.work[c, members[a]], world.scale.machines)
        # A node that one replica alone overloads keeps nobody from being replicated elsewhere.
        if (load[c] + adds <= capacity)[adds > 0].all():
            load[c] += adds
            active[c, members[a]] = True
            kept += float(tuples[c, a])
    return active


def _by_fidelity(world: World, one: Flags, *, budget: int) -> Flags:
    """Replicas where they keep most output alive when all else fails, over all applications (PPA section IV)."""
    number = {pe: i for i, pe in enumerate(world.descriptor.topological_order)}
    topologies = [topology(world, a) for a in range(int(world.application.max()) + 1)]
    measures = [output_fidelity(each) for each in topologies]
    worth = [curve(measure) * _output(world, each) for measure, each in zip(measures, topologies, strict=True)]
    active = one.copy()
    for measure, spent in zip(measures, shared_out(worth, budget), strict=True):
        for task in Frontier().plan(measure, spent).tasks:
            active[:, number[task.rpartition("/")[0]]] = True
    return active


def topology(world: World, application: int) -> Topology:
    """An application's PEs as operators of one task each; the first, which reads the source, is the topology's own source."""
    order = world.descriptor.topological_order
    pes = [order[i] for i in np.flatnonzero(world.application == application)]
    made = world.made[-1]
    number = {pe: i for i, pe in enumerate(order)}
    operators = {
        pe: TaskOperator(
            inputs={up: "one-to-one" for up in world.descriptor.pes[pe].inputs if up in world.descriptor.pes},
            rate=float(made[number[pe]]),
        )
        for pe in pes
    }
    return Topology(topology=f"application {application}", operators=operators)


def _output(world: World, of: Topology) -> float:
    """Tuples a second that leave an application at the highest level."""
    read = {up for operator in of.operators.values() for up in operator.inputs}
    number = {pe: i for i, pe in enumerate(world.descriptor.topological_order)}
    return float(sum(world.made[-1][number[pe]] for pe in of.operators if pe not in read))


def curve(measure: Measure) -> Floats:
    """What every number of replicas is worth in one application: by structure-aware for every third, and between two of them what
    the lower is worth."""
    tasks = len(measure.weights)
    asked = {spent: StructureAware(alone=True).plan(measure, spent).quality for spent in {*range(0, tasks + 1, STRIDE), tasks}}
    return np.array([max(asked[spent] for spent in asked if spent <= number) for number in range(tasks + 1)])


def shared_out(worth: list[Floats], budget: int) -> list[int]:
    """How much of a budget each of several curves gets, so that their sum is highest; of equals the first gets less.

    >>> shared_out([np.array([0.0, 1.0, 1.5]), np.array([0.0, 0.0, 4.0])], 3)
    [1, 2]
    """
    best, chosen = np.zeros(budget + 1), list[Ints]()
    for curve in worth:
        tried = np.full((len(curve), budget + 1), -np.inf)
        for spent, value in enumerate(curve[: budget + 1]):
            tried[spent, spent:] = best[: budget + 1 - spent] + value
        chosen.append(tried.argmax(axis=0))
        best = tried.max(axis=0)
    left, found = budget, list[int]()
    for choice in reversed(chosen):
        found.append(int(choice[left]))
        left -= found[-1]
    return found[::-1]
