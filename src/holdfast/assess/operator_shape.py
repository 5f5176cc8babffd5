"""What an operator's output depends on: single tuples, kept rows, or whole epochs. Derived from the operator's Spark plan."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pyspark.sql import SparkSession

from holdfast.app import Graph, LastEpochs, LastRows, Operator
from holdfast.engine.analysis import Schemas, empty
from holdfast.engine.operator_call import call_operator

Scope = Literal["tuple", "rows", "epoch", "history"]
"""What an output tuple depends on besides its triggering tuple: nothing ("tuple"), the last rows of its key ("rows"), its own epoch
and the kept epochs ("epoch"), or everything before it ("history")."""

ROW_BY_ROW = {
    "Project", "Filter", "Union", "SubqueryAlias", "LocalRelation", "LogicalRDD", "Generate", "OneRowRelation", "ResolvedHint",
    "View",
}  # fmt: skip

ONE_TO_ONE = {"Project", "Window", "SubqueryAlias", "LocalRelation", "LogicalRDD"}


@dataclass(frozen=True)
class Shape:
    """An operator's scope, and the sets of columns by which it groups rows. An empty set groups all rows."""

    scope: Scope
    groups: tuple[tuple[str, ...], ...]
    same_seqs: bool = False
    """Whether the operator has one input and produces exactly one tuple per input tuple, so that the seqs are the same."""


def shape_of(operator: Operator, spark: SparkSession, schemas: Schemas) -> Shape:
    """Return the shape of one operator, from its keep rules and its analysed plan."""
    if operator.state is not None:
        return Shape("history", (operator.state.by,))
    nodes = set(_plan_nodes(operator, spark, schemas))
    rules = operator.keep.values()
    groups = [rule.by for rule in rules if isinstance(rule, LastRows)]
    groups += [operator.key] if operator.key else []
    one_to_one = len(operator.inputs) == 1 and nodes <= ONE_TO_ONE
    if nodes <= ROW_BY_ROW and not operator.keep:
        return Shape("tuple", (), one_to_one)
    if nodes <= ROW_BY_ROW | {"Window"} and operator.keep and not operator.windowed:
        return Shape("rows", tuple(groups), one_to_one)
    return Shape("epoch", tuple(groups) if groups else ((),))


def shapes_of(graph: Graph, spark: SparkSession, schemas: Schemas) -> Mapping[str, Shape]:
    """Return the shape of every operator."""
    return {operator.name: shape_of(operator, spark, schemas) for operator in graph.operators}


def window_epochs(operator: Operator) -> int:
    """Return how many earlier epochs an operator's output depends on."""
    return max((rule.n for rule in operator.keep.values() if isinstance(rule, LastEpochs)), default=0)


def _plan_nodes(operator: Operator, spark: SparkSession, schemas: Schemas) -> Iterator[str]:
    output, _ = call_operator(operator, [empty(spark, schemas[stream]) for stream in operator.inputs])
    yield from _names(output._jdf.queryExecution().analyzed())


def _names(plan: Any) -> Iterator[str]:
    yield str(plan.nodeName())
    children = plan.children()
    for at in range(children.size()):
        yield from _names(children.apply(at))
