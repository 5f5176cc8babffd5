"""What a tentative output is worth, by plan: PPA's Figures 12 and 13, with tasks failed in the real applications on Spark.

A plan promises an output fidelity (or completeness) for the worst case, in which every task outside it fails. Here all of those do
fail, over a whole trace, and what comes out is compared with what should have: the accuracy of the paper's section VI-B.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from holdfast.app import Graph, load_app, topology_of
from holdfast.documents import Topology
from holdfast.engine import ByTime, open_trace, run_batch, spans_of, with_epochs
from holdfast.errors import HoldfastError
from holdfast.planning.ppa import (
    Dynamic,
    Frontier,
    Greedy,
    Measure,
    Planner,
    StructureAware,
    internal_completeness,
    output_fidelity,
)
from holdfast.profile import task_shares
from holdfast.trace import write_pages, write_traffic
from holdfast_papers.ppa.task_failures import run_without

RATIOS = (0.2, 0.4, 0.6, 0.8)
PLANNERS: Mapping[str, Planner] = {
    "DP": Dynamic(),
    "structure-aware": StructureAware(alone=True),
    "greedy": Greedy(),
    "ours": Frontier(),
}
OBJECTIVES: Mapping[str, Callable[[Topology], Measure]] = {"OF": output_fidelity, "IC": internal_completeness}
WARM = 3
"""Of how many parts of a trace the first one does not count: windows fill up in it."""


@dataclass(frozen=True, slots=True)
class Query:
    """One of the paper's two: its application, the trace it reads, and the things that its output says."""

    name: str
    example: str
    stream: str
    said: tuple[str, ...]
    write: Callable[..., object]
    trace: Mapping[str, float]

    def write_trace(self, path: Path, *, events: int, seed: int) -> None:
        self.write(path, events=events, seed=seed, **self.trace)


QUERIES = (
    Query("Q1", "top_pages.py", "top", ("epoch", "page"), write_pages, {}),
    Query(
        "Q2",
        "traffic_incidents.py",
        "incident_report",
        ("explode(incidents) as incident",),
        write_traffic,
        {"users": 4000, "segments": 200, "rate": 250.0},
    ),
)
"""Q1: entries of the ranking, epoch by epoch. Q2: incidents. A traffic trace of fewer drivers and roads, so that it lasts."""


@dataclass(frozen=True, eq=False)
class Trial:
    """An application on a recorded trace, with what it says when nothing fails."""

    query: Query
    graph: Graph
    sources: Mapping[str, DataFrame]
    epochs: tuple[int, int]
    topology: Topology
    accurate: frozenset[tuple[Any, ...]]

    def accuracy(self, failed: Sequence[str]) -> float:
        """The share of what should have been said that is said although these tasks are dead."""
        made = run_without(self.graph, self.sources, failed, epochs=self.epochs)
        return len(_said(made[self.query.stream], self.query, self.epochs) & self.accurate) / len(self.accurate)


def prepare(spark: SparkSession, query: Query, example: Path, trace: Path, *, scratch: Path) -> Trial:
    """Run the application on its trace as it should be, and measure its streams' rates and how they fall on tasks."""
    app = load_app(example)
    graph = app.graph()
    opened = open_trace(spark, graph, str(trace), scratch=scratch)
    cut = {name: frame.cache() for name, frame in with_epochs(opened, ByTime(app.epoch_s)).items()}
    spans = spans_of(cut)
    epochs = spans[0].first, spans[-1].last
    streams = {name: frame.cache() for name, frame in run_batch(graph, cut, epochs=epochs).items()}
    seconds = (epochs[1] - epochs[0] + 1) * app.epoch_s
    rates = {name: frame.count() / seconds for name, frame in streams.items()}
    topology = topology_of(graph, name=app.name, rates=rates, shares=task_shares(graph, streams))
    accurate = _said(streams[query.stream], query, epochs)
    for frame in streams.values():
        frame.unpersist()
    if not accurate:
        raise HoldfastError(
            f"{query.name} says nothing over this trace, so that there is nothing to be accurate about; make it longer"
        )
    return Trial(query, graph, cut, epochs, topology, accurate)


def _said(frame: DataFrame, query: Query, epochs: tuple[int, int]) -> frozenset[tuple[Any, ...]]:
    first = epochs[0] + (epochs[1] - epochs[0] + 1) // WARM
    return frozenset(map(tuple, frame.where(f"epoch >= {first}").selectExpr(*query.said).distinct().collect()))


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan of one planner for one objective and budget, and what both measures say of it."""

    query: str
    planner: str
    objective: str
    ratio: float
    tasks: tuple[str, ...]
    fidelity: float
    completeness: float

    @property
    def key(self) -> str:
        return f"{self.query}/{self.objective}/{self.planner}/{self.ratio:g}"


def plans(query: Query, topology: Topology) -> Iterator[Planned]:
    """Every plan that is tried: all planners for output fidelity, structure-aware for completeness too (Figure 12)."""
    measures = {name: of(topology) for name, of in OBJECTIVES.items()}
    for objective, names in (("OF", tuple(PLANNERS)), ("IC", ("structure-aware",))):
        for ratio in RATIOS:
            for name in names:
                plan = PLANNERS[name].plan(measures[objective], int(ratio * len(topology.tasks)))
                chosen = [topology.number[task] for task in plan.tasks]
                worth = {measure: float(measures[measure].of(chosen)) for measure in measures}
                yield Planned(query.name, name, objective, ratio, plan.tasks, worth["OF"], worth["IC"])
