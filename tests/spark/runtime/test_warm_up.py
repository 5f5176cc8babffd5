"""A standby's rehearsal on real Spark."""

from holdfast.runtime.warm_up import rehearse


def test_a_rehearsal_runs_jobs_as_a_recovery_does(spark):
    context = spark.sparkContext
    context.setJobGroup("a rehearsal", "told from the jobs of other tests")
    try:
        rehearse(spark)
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)
    assert context.statusTracker().getJobIdsForGroup("a rehearsal")
