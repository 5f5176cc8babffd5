"""Fixtures for the tests that share one Spark session."""

from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

LISTENERS_MS = 120_000


@pytest.fixture
def jobs_of_group(spark: SparkSession) -> Callable[[str], list[int]]:
    """Return a function that gives the Spark jobs of a group.

    The status tracker learns of jobs through the listener bus, which works behind the jobs: wait until it has caught up.
    """

    def jobs(group: str) -> list[int]:
        spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(LISTENERS_MS)
        return list(spark.sparkContext.statusTracker().getJobIdsForGroup(group))

    return jobs
