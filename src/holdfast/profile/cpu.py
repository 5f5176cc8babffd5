"""CPU time from Spark's task metrics."""

from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession

LISTENERS_MS = 60_000


def cpu_seconds(spark: SparkSession, frame: DataFrame) -> float:
    """Compute all rows of a frame, discard them, and return the CPU seconds that Spark's tasks spent."""
    context = spark.sparkContext
    group = f"cpu-{uuid4().hex}"
    context.setJobGroup(group, "measure CPU time")
    try:
        frame.write.format("noop").mode("overwrite").save()
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]  # None clears a local property
    java = context._jsc.sc()
    java.listenerBus().waitUntilEmpty(LISTENERS_MS)  # the tracker and the store learn of jobs and tasks through it
    tracker = context.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    stages = {stage for job in jobs if job for stage in job.stageIds}
    return sum(int(java.statusStore().lastStageAttempt(stage).executorCpuTime()) for stage in stages) / 1e9
