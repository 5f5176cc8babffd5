"""Traffic incidents (PPA, query Q2): which reported incidents have led to a traffic jam?

Cars report their speed; drivers report incidents. Segment speeds are joined with distinct incidents over a window of five minutes
that moves every ten seconds, which is one epoch.

    holdfast trace traffic --events 2000000 --out traffic         # a command of holdfast-papers
    holdfast replay examples/traffic_incidents.py --trace traffic
"""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from holdfast import App, last_epochs, last_rows

WINDOW_S = 300
WINDOW_EPOCHS = 30
JAM_SPEED = 40.0

app = App("traffic-incidents", epoch_s=10.0)

locations = app.source("locations", "seq long, time timestamp, user long, segment int, speed double", key="segment", parallelism=4)
incidents = app.source("incidents", "seq long, time timestamp, user long, segment int", key="segment", parallelism=2)


@app.operator(inputs=locations, key="segment", parallelism=4)
def segment_speed(locations: DataFrame) -> DataFrame:
    """The average speed on every segment in every second."""
    return locations.groupBy("epoch", "segment", F.date_trunc("second", "time").alias("second")).agg(
        F.max("seq").alias("seq"), F.avg("speed").alias("speed")
    )


@app.operator(inputs=incidents, keep=last_rows(1, by="segment"), key="segment", parallelism=2)
def distinct_incidents(reports: DataFrame) -> DataFrame:
    """One row per incident: a report on a segment that had none in the five minutes before it."""
    before = F.lag("time").over(Window.partitionBy("segment").orderBy("seq"))
    return (
        reports.withColumn("before", before)
        .where(f"before is null or time > before + interval {WINDOW_S} seconds")
        .select("seq", "epoch", "segment", F.col("seq").alias("incident"))
    )


@app.operator(
    inputs=[segment_speed, distinct_incidents],
    keep=last_epochs(WINDOW_EPOCHS - 1),
    correlated=True,
    key="segment",
    parallelism=4,
)
def jams(speeds: DataFrame, incidents: DataFrame) -> DataFrame:
    """In every epoch the incidents of the window on whose segment traffic has been slow since they were reported."""
    ages = F.explode(F.expr(f"sequence(0L, {WINDOW_EPOCHS - 1}L)"))
    watched = incidents.select("segment", "incident", F.col("epoch").alias("reported"), ages.alias("age")).withColumn(
        "epoch", F.expr("reported + age")
    )
    spans = watched.withColumn("at", F.explode(F.expr("sequence(reported, epoch)")))
    measured = speeds.select("segment", F.col("epoch").alias("at"), "speed", F.col("seq").alias("speed_seq"))
    return (
        spans.join(measured, ["segment", "at"])
        .groupBy("epoch", "segment", "incident")
        .agg(F.avg("speed").alias("speed"), F.max("speed_seq").alias("speed_seq"))
        .where(f"speed < {JAM_SPEED}")
        .select(F.greatest("incident", "speed_seq").alias("seq"), "epoch", "segment", "incident", "speed")
    )


@app.operator(inputs=jams)
def incident_report(jams: DataFrame) -> DataFrame:
    """In every epoch how many jams there are, how slow they are, and which is the worst."""
    return jams.groupBy("epoch").agg(
        F.max("seq").alias("seq"),
        F.count("*").alias("jams"),
        F.avg("speed").alias("speed"),
        F.min_by("incident", F.struct("speed", "incident")).alias("worst"),
        F.sort_array(F.collect_set("incident")).alias("incidents"),
    )


app.sink("reports", incident_report)
app.score("reports", "sum(jams)")
