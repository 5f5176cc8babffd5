"""Work of a study spread over a Spark cluster, in place of processes on this machine."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.cli.shared import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

A = TypeVar("A")
T = TypeVar("T")
Spread = Callable[[Callable[[Any], dict[str, Any]], Sequence[Any]], Iterator[dict[str, Any]]]
"""Gives the function's records of all tasks, as they are made."""

JOBS = 128
"""Jobs that are under way at once, or more where a cluster that is there already has more cores."""


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
            yield from on_spark(opened[0], function, tasks)

        yield spread


def on_spark(spark: SparkSession, function: Callable[[A], T], tasks: Sequence[A]) -> Generator[T]:
    """What the function gives of each task, as it is made: every task is a job of its own, and Spark has as many at hand as it can
    work on. Whoever stops asking ends the jobs under way.
    """
    context = spark.sparkContext

    def made(task: A) -> T:
        (result,) = context.parallelize([task], 1).map(function).collect()
        return result

    pool = ThreadPoolExecutor(min(len(tasks), max(JOBS, context.defaultParallelism)))
    jobs = [pool.submit(made, task) for task in tasks]
    try:
        for job in as_completed(jobs):
            yield job.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        if not all(job.done() for job in jobs):
            context.cancelAllJobs()
