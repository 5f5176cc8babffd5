"""Decide whether a Spark plan can be reused: run again on other rows, it must give the same output as a new plan."""

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
"""Operators of Spark that compute their output from their input every time. An exchange, a broadcast, a cache and a subquery
keep their first result."""


class JobDetector:
    """Detects Spark jobs that this thread runs inside the `with` block.

    A plan that is built there may depend on the results of these jobs, and so on the rows of the moment.
    """

    def __init__(self, context: SparkContext) -> None:
        self._context, self._tag = context, f"holdfast-{uuid4().hex}"

    def __enter__(self) -> None:
        self._context.addJobTag(self._tag)

    def __exit__(self, *error: object) -> None:
        self._context.removeJobTag(self._tag)

    def saw_jobs(self) -> bool:
        """Return whether there were jobs. Also true if Spark is too busy to answer within ten seconds."""
        jvm: Any = self._context._jsc.sc()
        try:
            jvm.listenerBus().waitUntilEmpty()
        except Py4JJavaError:  # a TimeoutException
            return True
        return len(jvm.statusTracker().getJobIdsForTag(self._tag)) > 0


def is_reusable(frame: DataFrame, leaves: Collection[int]) -> bool:
    """Return whether a DataFrame depends only on the rows of its leaves, which are identified by their RDDs."""
    context = frame.sparkSession.sparkContext
    execution: Any = frame._jdf.queryExecution()
    clock = context._jvm.org.apache.spark.sql.catalyst.trees.TreePattern.CURRENT_LIKE()  # type: ignore[union-attr]  # py4j
    if not execution.analyzed().deterministic() or execution.analyzed().containsPattern(clock):
        return False
    plan = execution.executedPlan()
    recomputes_all = plan.subqueriesAll().isEmpty() and all(_is_recomputed(node, leaves) for node in _nodes(plan))
    return recomputes_all and not _has_shuffle(plan.execute())


def _is_recomputed(node: Any, leaves: Collection[int]) -> bool:
    kind = node.getClass().getSimpleName().removesuffix("Exec")
    return kind in RECOMPUTED and (kind != "RDDScan" or node.rdd().id() in leaves)


def _has_shuffle(rdd: Any) -> bool:
    """Return whether the lineage of an RDD contains a shuffle, whose files Spark would reuse.

    Some operators shuffle an input of several partitions although the plan shows no exchange.
    """
    dependencies = rdd.dependencies()
    for index in range(dependencies.size()):
        dependency = dependencies.apply(index)
        if dependency.getClass().getSimpleName() == "ShuffleDependency" or _has_shuffle(dependency.rdd()):
            return True
    return False


def _nodes(plan: Any) -> Iterator[Any]:
    yield plan
    children = plan.children()
    for index in range(children.size()):
        yield from _nodes(children.apply(index))
