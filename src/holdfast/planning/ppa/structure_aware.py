"""The structure-aware planner (PPA Algorithm 5): sub-topologies planned each in its way, the densest expansion first."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, combinations, islice

from holdfast.planning.ppa.decomposition import Segment, decompose, segments
from holdfast.planning.ppa.fidelity import Measure
from holdfast.planning.ppa.full import queues_of
from holdfast.planning.ppa.greedy import Greedy
from holdfast.planning.ppa.planner import SAME, Plan, by_name, check_budget, made, numbers_of, pruned
from holdfast.planning.ppa.structured import Pool
from holdfast.planning.ppa.tree_completion import Completion, Links

# Further growths after the paper's own: many for a few dozen tasks, none for hundreds, where each takes a second.
MOST_GROWTHS = 160
TASK_GROWTHS = 4_000


@dataclass(frozen=True, slots=True)
class StructureAware:
    """Cuts the topology into full and structured sub-topologies and expands whichever gains most a replica.

    A structured one offers its segments (Algorithm 3), a full one the heaviest task left in each operator (Algorithm
    4). The gain is that of the whole topology's measure, so that offers of different sub-topologies compare; the first
    offers are completed to whole MC-trees, where the paper starts with a task of every operator.

    `alone` is the paper's algorithm, which never takes back an expansion: the densest first one can shut out a join
    whose inputs pay only together, or leave a rest of the budget in which nothing fits. Unless `alone`, the greedy plan
    is a candidate too, other first expansions are tried, and then giving up a task or two of the best plan for good.

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
        ground = _Ground(measure, budget)
        best = ground.grown()
        if not self.alone:
            best = _better(measure, best, [set(numbers_of(measure, Greedy().plan(measure, budget)))])
            growths = max(0, min(MOST_GROWTHS, TASK_GROWTHS // len(measure.weights) - 8))
            best = _better(measure, best, islice(ground.from_other_starts(), growths // 2))
            best = ground.exchanged(best, growths - growths // 2)
        return made(self, measure, budget, chosen=best)


def _better(measure: Measure, best: set[int], others: Iterable[set[int]]) -> set[int]:
    """The best of these plans; of equals the first."""
    value = measure.of(best)
    for other in others:
        worth = measure.of(other)
        if worth > value + SAME:
            best, value = other, worth
    return best


class _Ground:
    """What every growth of a plan shares: the segments of structured sub-topologies, the queues of full ones."""

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

    def grown(self, *, start: Iterable[int] = (), barred: Iterable[int] = ()) -> set[int]:
        """The plan that the densest expansion, again and again, makes of a start."""
        barred = set(barred)
        pool = Pool(self.measure, self.segments, links=self.links, start=start, barred=barred)
        queues = [[task for task in queue if not pool.alive[task] and task not in barred] for queue in self.queues]
        pool.add([(queue[0],) for queue in queues if queue])
        while taken := pool.expand(self.budget):
            for queue in queues:
                moved = False
                while queue and (queue[0] in taken or pool.alive[queue[0]]):
                    queue.pop(0)
                    moved = True
                if moved and queue:
                    pool.add([(queue[0],)])
        return set(pool.chosen())

    def from_other_starts(self) -> Iterator[set[int]]:
        """Plans grown from each MC-tree that a segment or a task of a queue completes to."""
        empty = Pool(self.measure, [*self.segments, *((task,) for queue in self.queues for task in queue)], links=self.links)
        completion = Completion(self.measure, self.links, empty.alive)
        seen: set[frozenset[int]] = set()
        for tasks, (unsupplied, unread) in zip(empty.candidates, empty.loose, strict=True):
            tree = frozenset(completion.of(tasks, unsupplied=unsupplied, unread=unread))
            if tree and len(tree) <= self.budget and tree not in seen:
                seen.add(tree)
                yield self.grown(start=tree)

    def exchanged(self, best: set[int], attempts: int) -> set[int]:
        """The plan improved by giving up a task or two for good, with what only they made useful, and growing anew."""
        while attempts > 0:
            better = best
            singles = [{task} for task in by_name(self.measure, best)]
            pairs = (one | other for one, other in combinations(singles, 2))
            for given_up in islice(chain(singles, pairs), attempts):
                attempts -= 1
                start = pruned(self.measure, best - given_up)
                better = _better(self.measure, best, [self.grown(start=start, barred=given_up)])
                if better is not best:
                    break
            if better is best:
                break
            best = better
        return best
