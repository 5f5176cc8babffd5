"""Work of a study spread over a Spark cluster, in place of processes on this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from holdfast.cli.shared import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Spread = Callable[[Callable[[Any], dict[str, Any]], Sequence[Any]], Iterator[dict[str, Any]]]
"""Gives the function's records of all tasks, as they are made."""

MOST_PARTS = 1000


@contextmanager
def spread_over(master: str | None, *, name: str) -> Iterator[Spread | None]:
    """What spreads tasks over a Spark master, which is asked for at the first of them; None where there is no master."""
    if master is None:
        yield None
        return
    with ExitStack() as stack:
        opened: list[SparkSession] = []

        def spread(function: Callable[[Any], dict[str, Any]], tasks: Sequence[Any]) -> Iterator[dict[str, Any]]:
            if not opened:
                opened.append(stack.enter_context(spark_session(master, "2g", name=name)))
            # A task is a part: each record is kept as soon as it is made.
            parts = opened[0].sparkContext.parallelize(tasks, min(len(tasks), MOST_PARTS))
            yield from parts.map(function).toLocalIterator(prefetchPartitions=True)

        yield spread
