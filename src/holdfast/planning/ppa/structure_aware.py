"""PPA Algorithm 5, structure-aware: expands the plan where the gain per replica is highest, by the kind of sub-topology."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, combinations, islice

import numpy as np

from holdfast.planning.ppa.decomposition import Segment, decompose, segments
from holdfast.planning.ppa.expansion_pool import ExpansionPool
from holdfast.planning.ppa.fidelity import Measure
from holdfast.planning.ppa.greedy import Greedy
from holdfast.planning.ppa.planner import (
    QUALITY_TOLERANCE,
    Plan,
    build_plan,
    check_budget,
    sorted_by_name,
    task_numbers,
    without_useless,
)
from holdfast.planning.ppa.tree_completion import Completion, Links

# Further growths after the paper's own: many for a few dozen tasks, none for hundreds, where each takes a second.
MOST_GROWTHS = 160
TASK_GROWTHS = 4_000


@dataclass(frozen=True, slots=True)
class StructureAware:
    """Divides the topology into full and structured sub-topologies, and expands the plan where the gain per replica is highest.

    A structured sub-topology offers its segments (Algorithm 3), a full one the heaviest remaining task of each operator
    (Algorithm 4). The gain is that of the whole topology's measure, so that offers of different sub-topologies are comparable.
    The first offers are completed to whole MC-trees; the paper starts with a task of every operator.

    With `alone` it is the paper's algorithm, which never reverses an expansion: the first expansion can exclude a join whose
    inputs pay off only together, or leave a rest of the budget in which nothing fits. Otherwise the planner also considers the
    greedy plan, tries other first expansions, and then tries to remove one or two tasks of the best plan.

    >>> from holdfast.documents.topology import TaskOperator, Topology
    >>> from holdfast.planning.ppa.fidelity import output_fidelity
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
        growth = _Growth(measure, budget)
        best = growth.grow()
        if not self.alone:
            best = _better(measure, best, [set(task_numbers(measure, Greedy().plan(measure, budget)))])
            growths = max(0, min(MOST_GROWTHS, TASK_GROWTHS // len(measure.weights) - 8))
            best = _better(measure, best, islice(growth.from_other_starts(), growths // 2))
            best = growth.exchange_tasks(best, growths - growths // 2)
        return build_plan(self, measure, budget, chosen=best)


def _better(measure: Measure, best: set[int], others: Iterable[set[int]]) -> set[int]:
    """Return the best of these plans, the first among equals."""
    value = measure.of(best)
    for other in others:
        other_value = measure.of(other)
        if other_value > value + QUALITY_TOLERANCE:
            best, value = other, other_value
    return best


def queues_of(measure: Measure) -> list[list[int]]:
    """Return each operator's tasks, most useful first: by the gain over no task of the operator, with all others alive."""
    topology, queues = measure.topology, []
    for at, span in enumerate(topology.spans):
        others = np.where(topology.operator_of == at, 0.0, 1.0)
        tasks = np.arange(span.start, span.stop, dtype=np.int64)
        gains = np.round(measure.extended(others, list(tasks[:, None])), 12)
        queues.append([int(i) for i in tasks[np.lexsort((topology.rank[span], -gains))]])
    return queues


class _Growth:
    """Grows plans: holds the segments of structured sub-topologies and the queues of full ones."""

    def __init__(self, measure: Measure, budget: int) -> None:
        self.measure, self.budget = measure, budget
        self.links = Links(measure)
        self.segments: list[Segment] = []
        self.queues: list[list[int]] = []
        by_operator = queues_of(measure)
        for sub in decompose(measure.topology):
            if sub.full:
                self.queues += [by_operator[at] for at in sub.operators]
            else:
                self.segments += segments(measure, sub.operators)

    def grow(self, *, start: Iterable[int] = (), barred: Iterable[int] = ()) -> set[int]:
        """Return the plan that results from repeating the densest expansion."""
        barred = set(barred)
        pool = ExpansionPool(self.measure, self.segments, links=self.links, start=start, barred=barred)
        queues = [[task for task in queue if not pool.alive[task] and task not in barred] for queue in self.queues]
        pool.add([(queue[0],) for queue in queues if queue])
        while added := pool.expand(self.budget):
            for queue in queues:
                moved = False
                while queue and (queue[0] in added or pool.alive[queue[0]]):
                    queue.pop(0)
                    moved = True
                if moved and queue:
                    pool.add([(queue[0],)])
        return set(pool.chosen())

    def from_other_starts(self) -> Iterator[set[int]]:
        """Yield the plans that grow from each MC-tree that completes a segment or a task of a queue."""
        empty = ExpansionPool(
            self.measure, [*self.segments, *((task,) for queue in self.queues for task in queue)], links=self.links
        )
        completion = Completion(self.measure, self.links, empty.alive)
        trees: set[frozenset[int]] = set()
        for segment, (unsupplied, unread) in zip(empty.candidates, empty.loose, strict=True):
            tree = frozenset(completion.of(segment, unsupplied=unsupplied, unread=unread))
            if tree and len(tree) <= self.budget and tree not in trees:
                trees.add(tree)
                yield self.grow(start=tree)

    def exchange_tasks(self, best: set[int], attempts: int) -> set[int]:
        """Improve a plan: remove one or two tasks, with those that are useless without them, and grow it from other tasks."""
        while attempts > 0:
            better = best
            singles = [{task} for task in sorted_by_name(self.measure, best)]
            pairs = (one | other for one, other in combinations(singles, 2))
            for removed in islice(chain(singles, pairs), attempts):
                attempts -= 1
                start = without_useless(self.measure, best - removed)
                better = _better(self.measure, best, [self.grow(start=start, barred=removed)])
                if better is not best:
                    break
            if better is best:
                break
            best = better
        return best
