"""The step of PPA Algorithm 3: add the segment, completed to MC-trees, with the highest gain per replica."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from holdfast.documents.topology import Floats, Ints
from holdfast.planning.ppa.decomposition import Segment
from holdfast.planning.ppa.fidelity import Measure
from holdfast.planning.ppa.planner import QUALITY_TOLERANCE
from holdfast.planning.ppa.tree_completion import Completion, Links

EXAMINED = 64  # candidates whose density is recomputed in each step, in addition to those near the last expansion


class ExpansionPool:
    """A growing plan and the candidates for its expansion. It grows from `start`, and never includes `barred` tasks.

    The density of a candidate is its gain per missing replica, after completion to whole trees. Densities are cached: an expansion
    changes those of candidates near it, and scales the others roughly alike.
    """

    def __init__(
        self,
        measure: Measure,
        candidates: Sequence[Segment],
        *,
        links: Links | None = None,
        start: Iterable[int] = (),
        barred: Iterable[int] = (),
    ) -> None:
        self.measure = measure
        self.alive: Floats = np.zeros(len(measure.weights))
        self.alive[list(start)] = 1.0
        self.value = float(measure.values(self.alive[:, None])[0])
        self.links = links or Links(measure)
        self.barred = frozenset(barred)
        self.candidates: list[Segment] = []
        self.loose: list[tuple[list[int], list[int]]] = []  # per candidate: tasks without input, tasks without reader
        self.density: list[float] = []
        self.of_task: dict[int, list[int]] = {}
        self.add(candidates)

    def add(self, candidates: Sequence[Segment]) -> None:
        """Add candidates. The next step examines each."""
        for tasks in candidates:
            for task in tasks:
                self.of_task.setdefault(task, []).append(len(self.candidates))
            self.candidates.append(tasks)
            self.loose.append((self.links.unsupplied(tasks), self.links.unread(tasks)))
            self.density.append(np.inf)

    def chosen(self) -> list[int]:
        return [int(task) for task in np.flatnonzero(self.alive)]

    def expand(self, budget: int) -> set[int]:
        """Add the candidate of the highest density that fits. Returns the added tasks; none if nothing that fits adds quality."""
        room = budget - int(self.alive.sum())
        if room <= 0:
            return set()
        completion = Completion(self.measure, self.links, self.alive)
        density = np.array(self.density)
        order = np.argsort(-density, kind="stable")
        order = order[density[order] > -np.inf]
        fresh = int(np.isinf(density[order]).sum())
        first, rest = order[: fresh + EXAMINED], order[fresh + EXAMINED :]
        best = self._best(completion, first, room) or self._best(completion, rest, room)
        if best:
            self._add_to_plan(best)
        return best

    def _best(self, completion: Completion, numbers: Ints, room: int) -> set[int]:
        """Compute the densities of these candidates, and return the missing tasks of the densest one."""
        sets: dict[int, set[int]] = {}
        for number in map(int, numbers):
            unsupplied, unread = self.loose[number]
            missing = completion.of(self.candidates[number], unsupplied=unsupplied, unread=unread)
            if not missing or not self.barred.isdisjoint(missing):
                self.density[number] = -np.inf
            elif len(missing) <= room:
                sets[number] = missing
            else:
                self.density[number] = 0.0
        gains = self.measure.extended(self.alive, [np.array(sorted(s)) for s in sets.values()]) - self.value
        for gain, (number, missing) in zip(gains, sets.items(), strict=True):
            self.density[number] = float(gain) / len(missing)
        if not sets or gains.max() <= QUALITY_TOLERANCE:
            return set()
        most = max(self.density[number] for number in sets)
        top = [number for number in sets if self.density[number] >= most * (1 - 1e-9)]
        return sets[min(top, key=lambda number: self._rank(sets[number]))]

    def _rank(self, tasks: set[int]) -> list[int]:
        return sorted(int(self.measure.topology.rank[task]) for task in tasks)

    def _add_to_plan(self, tasks: set[int]) -> None:
        self.alive[sorted(tasks)] = 1.0
        self.value = float(self.measure.values(self.alive[:, None])[0])
        for task in self._near(tasks):
            for number in self.of_task.get(task, ()):
                if self.density[number] > -np.inf:
                    self.density[number] = np.inf

    def _near(self, tasks: set[int]) -> set[int]:
        """Return the tasks and their neighbours along edges that are not full."""
        topology, near = self.measure.topology, set(tasks)
        for task in tasks:
            at = int(topology.operator_of[task])
            local = task - topology.spans[at].start
            for stream in topology.streams[at]:
                if stream.partitioning != "full":
                    members = np.flatnonzero(stream.groups_up == stream.groups_down[local])
                    near.update(int(i) + topology.spans[stream.up].start for i in members)
            for stream in topology.readers[at]:
                if stream.partitioning != "full":
                    members = np.flatnonzero(stream.groups_down == stream.groups_up[local])
                    near.update(int(i) + topology.spans[stream.down].start for i in members)
        return near
