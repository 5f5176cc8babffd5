"""How accurate tentative output is under a plan (PPA, Figures 12 and 13), with tasks failed in real applications on Spark.

A plan predicts an output fidelity (or completeness) for the worst case, in which every task outside it fails. Here all of those
fail over a whole trace. The accuracy (section VI-B) is the share of the correct output that is still produced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from holdfast.app import Graph, load_app, topology_of
from holdfast.documents import Topology
from holdfast.engine import ByTime, build_whole_trace, open_trace, spans_of, with_epochs
from holdfast.errors import HoldfastError
from holdfast.planning.ppa import (
    Frontier,
    Greedy,
    Measure,
    Planner,
    StructureAware,
    internal_completeness,
    output_fidelity,
)
from holdfast.profile import task_shares
from holdfast_papers.ppa.dynamic import Dynamic
from holdfast_papers.ppa.page_trace import write_pages
from holdfast_papers.ppa.task_failures import run_without
from holdfast_papers.ppa.traffic_trace import write_traffic

RATIOS = (0.2, 0.4, 0.6, 0.8)
PLANNERS: Mapping[str, Planner] = {
    "DP": Dynamic(),
    "structure-aware": StructureAware(alone=True),
    "greedy": Greedy(),
    "ours": Frontier(),
}
OBJECTIVES: Mapping[str, Callable[[Topology], Measure]] = {"OF": output_fidelity, "IC": internal_completeness}
WARM = 3
"""The first of this many parts of a trace does not count, because windows are still filling."""


@dataclass(frozen=True, slots=True)
class Query:
    """One of the paper's two queries: its application, its trace, and the columns that make up an answer."""

    name: str
    example: str
    stream: str
    answer: tuple[str, ...]
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
"""Q1: entries of the ranking in each epoch. Q2: incidents. The traffic trace has few drivers and roads, so that it lasts longer."""


@dataclass(frozen=True, eq=False)
class Trial:
    """An application on a trace, with its answers when nothing fails."""

    query: Query
    graph: Graph
    sources: Mapping[str, DataFrame]
    epochs: tuple[int, int]
    topology: Topology
    accurate: frozenset[tuple[Any, ...]]

    def accuracy(self, failed: Sequence[str]) -> float:
        """Return the share of the correct answers that are still given while these tasks are dead."""
        streams = run_without(self.graph, self.sources, failed, epochs=self.epochs)
        return len(_answers(streams[self.query.stream], self.query, self.epochs) & self.accurate) / len(self.accurate)


def prepare(spark: SparkSession, query: Query, example: Path, trace: Path, *, scratch: Path) -> Trial:
    """Run the application on its trace without failures. Measure the rates of its streams and the shares of its tasks."""
    app = load_app(example)
    graph = app.graph()
    rows = open_trace(spark, graph, str(trace), scratch=scratch)
    sources = {name: frame.cache() for name, frame in with_epochs(rows, ByTime(app.epoch_s)).items()}
    spans = spans_of(sources)
    epochs = spans[0].first, spans[-1].last
    streams = {name: frame.cache() for name, frame in build_whole_trace(graph, sources, epochs=epochs).items()}
    seconds = (epochs[1] - epochs[0] + 1) * app.epoch_s
    rates = {name: frame.count() / seconds for name, frame in streams.items()}
    topology = topology_of(graph, name=app.name, rates=rates, shares=task_shares(graph, streams))
    accurate = _answers(streams[query.stream], query, epochs)
    for frame in streams.values():
        frame.unpersist()
    if not accurate:
        raise HoldfastError(f"{query.name} gives no answers over this trace, so accuracy is undefined; use a longer trace")
    return Trial(query, graph, sources, epochs, topology, accurate)


def _answers(frame: DataFrame, query: Query, epochs: tuple[int, int]) -> frozenset[tuple[Any, ...]]:
    first = epochs[0] + (epochs[1] - epochs[0] + 1) // WARM
    return frozenset(map(tuple, frame.where(f"epoch >= {first}").selectExpr(*query.answer).distinct().collect()))


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan of one planner for one objective and budget, with its fidelity and completeness."""

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
    """Yield every plan to try: all planners for output fidelity, and structure-aware for completeness (Figure 12)."""
    measures = {name: of(topology) for name, of in OBJECTIVES.items()}
    for objective, names in (("OF", tuple(PLANNERS)), ("IC", ("structure-aware",))):
        for ratio in RATIOS:
            for name in names:
                plan = PLANNERS[name].plan(measures[objective], int(ratio * len(topology.tasks)))
                task_numbers = [topology.number[task] for task in plan.tasks]
                value_of = {measure: float(measures[measure].of(task_numbers)) for measure in measures}
                yield Planned(query.name, name, objective, ratio, plan.tasks, value_of["OF"], value_of["IC"])
