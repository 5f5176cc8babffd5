"""The structure-aware planner (PPA Algorithm 5): sub-topologies planned each in its way, the densest expansion first."""

from dataclasses import dataclass, field

from holdfast.plan.ppa.decomposition import decompose, segments
from holdfast.plan.ppa.fidelity import Measure
from holdfast.plan.ppa.full import queues_of
from holdfast.plan.ppa.greedy import Greedy
from holdfast.plan.ppa.planner import SAME, Plan, check_budget, made, numbers_of
from holdfast.plan.ppa.structured import Pool


@dataclass(frozen=True, slots=True)
class StructureAware:
    """Cuts the topology into full and structured sub-topologies and expands whichever gains most a replica.

    A structured one offers its segments (Algorithm 3), a full one the heaviest task left in each operator (Algorithm
    4). The gain is that of the whole topology's measure, so that offers of different sub-topologies compare; the first
    offers are completed to whole MC-trees, where the paper starts with a task of every operator.

    Expanding by the densest offer can shut out a join whose inputs pay only together, and end far below greedy. Unless
    `alone`, the greedy plan is taken where it is the better one; `alone` is the paper's algorithm.

    >>> from holdfast.model.topology import TaskOperator, Topology
    >>> from holdfast.plan.ppa.fidelity import output_fidelity
    >>> t = Topology(topology="t", operators={
    ...     "a": TaskOperator(parallelism=4, rates=(4.0, 3.0, 2.0, 1.0)),
    ...     "b": TaskOperator(parallelism=2, inputs={"a": "merge"}),
    ...     "c": TaskOperator(inputs={"b": "full"})})
    >>> plan = StructureAware().plan(output_fidelity(t), budget=4)
    >>> plan.tasks, round(plan.quality, 3)
    (('a/0', 'a/1', 'b/0', 'c/0'), 0.7)
    """

    name: str = "structure-aware"
    alone: bool = field(default=False, kw_only=True)

    def plan(self, measure: Measure, budget: int) -> Plan:
        check_budget(measure, budget)
        pool = Pool(measure, [])
        queues: list[list[int]] = []
        by_operator = queues_of(measure)
        for sub in decompose(measure.topology):
            if sub.full:
                queues += [by_operator[at] for at in sub.operators]
            else:
                pool.add(segments(measure, sub.operators))
        pool.add([(queue[0],) for queue in queues])
        while taken := pool.expand(budget):
            for queue in queues:
                moved = False
                while queue and (queue[0] in taken or pool.alive[queue[0]]):
                    queue.pop(0)
                    moved = True
                if moved and queue:
                    pool.add([(queue[0],)])
        grown = made(self, measure, budget, chosen=pool.chosen())
        if self.alone:
            return grown
        greedy = Greedy().plan(measure, budget)
        if greedy.quality <= grown.quality + SAME:
            return grown
        return made(self, measure, budget, chosen=numbers_of(measure, greedy))
