"""Runs the tasks of a study as jobs of a Spark cluster instead of processes on this machine."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.cli import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

A = TypeVar("A")
T = TypeVar("T")
RunTasks = Callable[[Callable[[Any], dict[str, Any]], Sequence[Any]], Generator[dict[str, Any]]]
"""Applies a function to every task and yields the records as they end."""

JOBS = 128
"""Jobs that run at the same time, or as many as the cluster has cores if that is more."""


@contextmanager
def spark_runner(master: str | None, *, name: str) -> Iterator[RunTasks | None]:
    """Yield a function that runs tasks on a Spark master, or None without a master. The session starts with the first task."""
    if master is None:
        yield None
        return
    with ExitStack() as stack:
        sessions: list[SparkSession] = []

        def run(function: Callable[[Any], dict[str, Any]], tasks: Sequence[Any]) -> Generator[dict[str, Any]]:
            if not sessions:
                sessions.append(stack.enter_context(spark_session(master, "2g", name=name)))
            yield from on_spark(sessions[0], function, tasks)

        yield run


def on_spark(spark: SparkSession, function: Callable[[A], T], tasks: Sequence[A]) -> Generator[T]:
    """Yield the function's result for each task as it ends. Every task is a Spark job. Closing the generator cancels the jobs."""
    context = spark.sparkContext

    def run_job(task: A) -> T:
        (result,) = context.parallelize([task], 1).map(function).collect()
        return result

    pool = ThreadPoolExecutor(min(len(tasks), max(JOBS, context.defaultParallelism)))
    jobs = [pool.submit(run_job, task) for task in tasks]
    try:
        for job in as_completed(jobs):
            yield job.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        if not all(job.done() for job in jobs):
            context.cancelAllJobs()
