"""Walk the analysed plan of a DataFrame."""

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame


def plan_nodes(frame: DataFrame) -> Iterator[Any]:
    """Yield the nodes of a DataFrame's analysed plan."""
    java_frame: Any = frame._jdf
    pending = [java_frame.queryExecution().analyzed()]
    while pending:
        node = pending.pop()
        yield node
        pending += _items(node.children())


def expressions(node: Any) -> Iterator[Any]:
    """Yield all expressions of a plan's node, with those inside them."""
    pending = _items(node.expressions())
    while pending:
        each = pending.pop()
        yield each
        pending += _items(each.children())


def grouping_keys(frame: DataFrame) -> list[tuple[str, ...]]:
    """Return the columns by which the windows and aggregates of a plan divide rows, without `epoch`."""
    keys = []
    for node in plan_nodes(frame):
        columns = _items(node.groupingExpressions()) if _kind(node) == "Aggregate" else None
        keys += [columns] if columns is not None else [_items(each.windowSpec().partitionSpec()) for each in _windows(node)]
    named = [tuple(str(column.name()) for column in key if hasattr(column, "name")) for key in keys]
    return list(dict.fromkeys(tuple(name for name in key if name != "epoch") for key in named))


def looking_ahead(frame: DataFrame) -> list[str]:
    """Return the windows of a plan that reach beyond the current row and into other epochs, and its aggregates over epochs."""
    texts = []
    for node in plan_nodes(frame):
        if _kind(node) == "Aggregate" and "epoch" not in [str(each.sql()) for each in _items(node.groupingExpressions())]:
            texts.append("a groupBy without the column 'epoch'")
        for each in _windows(node):
            columns = [str(column.sql()) for column in _items(each.windowSpec().partitionSpec())]
            if "epoch" not in columns and _reaches_ahead(each.windowSpec().frameSpecification().upper()):
                texts.append(f"'{each.sql()}'")
    return list(dict.fromkeys(texts))


def _windows(node: Any) -> Iterator[Any]:
    return (each for each in expressions(node) if _kind(each) == "WindowExpression")


def _reaches_ahead(upper: Any) -> bool:
    return _kind(upper) == "UnboundedFollowing$" or (_kind(upper) == "Literal" and int(str(upper.toString())) > 0)


def _kind(value: Any) -> str:
    return str(value.getClass().getSimpleName())


def _items(sequence: Any) -> list[Any]:
    return [sequence.apply(index) for index in range(sequence.size())]
