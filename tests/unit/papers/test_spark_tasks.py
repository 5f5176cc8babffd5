"""Tasks on a Spark cluster that is replaced by threads."""

from threading import Barrier, Event
from types import SimpleNamespace

import pytest

from holdfast_papers.spark_tasks import on_spark


class Context:
    """A Spark context as far as it is used: what it is given is worked on in the thread that asks."""

    defaultParallelism = 2

    def __init__(self):
        self.cancelled = Event()

    def parallelize(self, tasks, parts):
        assert parts == len(tasks) == 1
        return SimpleNamespace(map=lambda function: SimpleNamespace(collect=lambda: [function(task) for task in tasks]))

    def cancelAllJobs(self):
        self.cancelled.set()


@pytest.fixture
def spark():
    return SimpleNamespace(sparkContext=Context())


def test_cluster_gets_all_tasks_that_it_can_run_at_once(spark):
    together = Barrier(8, timeout=10)  # broken unless eight work at the same time

    def met(task):
        together.wait()
        return 2 * task

    assert sorted(on_spark(spark, met, range(8))) == [2 * task for task in range(8)]
    assert not spark.sparkContext.cancelled.is_set()


def test_results_arrive_as_they_end(spark):
    released = Event()

    def slow_first(task):
        if task == 0:
            assert released.wait(10)
        return task

    results = on_spark(spark, slow_first, range(4))
    assert sorted(next(results) for _ in range(3)) == [1, 2, 3]
    released.set()
    assert list(results) == [0]


def test_closing_the_generator_cancels_the_jobs(spark):
    results = on_spark(spark, lambda task: task if task == 0 else spark.sparkContext.cancelled.wait(10), range(300))
    assert next(results) == 0
    results.close()
    assert spark.sparkContext.cancelled.is_set()


def test_failing_task_raises(spark):
    with pytest.raises(ZeroDivisionError):
        list(on_spark(spark, lambda task: 1 // task, [0]))
