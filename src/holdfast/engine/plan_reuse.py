"""Whether a plan gives, run again, what a plan built anew would give."""

from collections.abc import Collection, Iterator
from typing import Any
from uuid import uuid4

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # py4j has no types
from pyspark import SparkContext
from pyspark.sql import DataFrame

RECOMPUTED = {
    "AggregateInPandas",
    "ArrowAggregatePython",
    "ArrowEvalPython",
    "ArrowEvalPythonUDTF",
    "ArrowWindowPython",
    "BatchEvalPython",
    "BatchEvalPythonUDTF",
    "CartesianProduct",
    "Coalesce",
    "CollectLimit",
    "Expand",
    "Filter",
    "FlatMapCoGroupsInArrow",
    "FlatMapCoGroupsInPandas",
    "FlatMapGroupsInArrow",
    "FlatMapGroupsInPandas",
    "Generate",
    "GlobalAndLocalLimit",
    "GlobalLimit",
    "HashAggregate",
    "LocalLimit",
    "LocalTableScan",
    "MapInArrow",
    "MapInPandas",
    "ObjectHashAggregate",
    "Project",
    "RDDScan",
    "Sort",
    "SortAggregate",
    "SortMergeJoin",
    "TakeOrderedAndProject",
    "Union",
    "Window",
    "WindowGroupLimit",
    "WindowInPandas",
}
"""Spark's operators that compute all they give from what they read, each time. An exchange, a broadcast, a cache and a subquery
hold on to what they made the first time."""


class Watch:
    """Tells whether this thread ran jobs within it: a plan that was built meanwhile may hang on the rows of that moment."""

    def __init__(self, context: SparkContext) -> None:
        self._context, self._tag = context, f"holdfast-{uuid4().hex}"

    def __enter__(self) -> None:
        self._context.addJobTag(self._tag)

    def __exit__(self, *error: object) -> None:
        self._context.removeJobTag(self._tag)

    def saw_jobs(self) -> bool:
        """Whether there were any; also where Spark has so much to tell that it cannot be known soon."""
        jvm: Any = self._context._jsc.sc()
        try:
            jvm.listenerBus().waitUntilEmpty()
        except Py4JJavaError:  # a TimeoutException, after ten seconds
            return True
        return len(jvm.statusTracker().getJobIdsForTag(self._tag)) > 0


def repeatable(frame: DataFrame, leaves: Collection[int]) -> bool:
    """Whether a frame depends on nothing but the rows of its leaves, named by their RDDs, whenever it is evaluated."""
    context = frame.sparkSession.sparkContext
    execution: Any = frame._jdf.queryExecution()
    clock = context._jvm.org.apache.spark.sql.catalyst.trees.TreePattern.CURRENT_LIKE()  # type: ignore[union-attr]  # py4j
    if not execution.analyzed().deterministic() or execution.analyzed().containsPattern(clock):
        return False
    plan = execution.executedPlan()
    recomputed = plan.subqueriesAll().isEmpty() and all(_recomputed(node, leaves) for node in _nodes(plan))
    return recomputed and not _shuffles(plan.execute())


def _recomputed(node: Any, leaves: Collection[int]) -> bool:
    kind = node.getClass().getSimpleName().removesuffix("Exec")
    return kind in RECOMPUTED and (kind != "RDDScan" or node.rdd().id() in leaves)


def _shuffles(rdd: Any) -> bool:
    """Whether rows are exchanged on the way to an RDD: some operators do so without an exchange in the plan where what they read
    has several partitions, and Spark finds the files of a shuffle again."""
    dependencies = rdd.dependencies()
    for place in range(dependencies.size()):
        dependency = dependencies.apply(place)
        if dependency.getClass().getSimpleName() == "ShuffleDependency" or _shuffles(dependency.rdd()):
            return True
    return False


def _nodes(plan: Any) -> Iterator[Any]:
    yield plan
    children = plan.children()
    for place in range(children.size()):
        yield from _nodes(children.apply(place))
