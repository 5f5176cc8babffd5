"""The rehearsal of a standby PE host on Spark."""

from holdfast.runtime.warm_up import rehearse


def test_rehearsal_runs_spark_jobs(spark, jobs_of_group):
    context = spark.sparkContext
    context.setJobGroup("a rehearsal", "distinguishes these jobs from those of other tests")
    try:
        rehearse(spark)
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)
    assert jobs_of_group("a rehearsal")
