"""A rehearsal for a PE host without work: it warms up the JVM, so that the host recovers replicas faster later."""

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from holdfast.app import App, last_rows
from holdfast.engine.analysis import analyse
from holdfast.runtime.pe_compute import PeCompute

app = App("rehearsal")
events = app.source("events", "seq long, time timestamp, key string, kind string, value double", key="key")


@app.operator(inputs=events)
def chosen(events: DataFrame) -> DataFrame:
    return events.where("kind = 'chosen'").select("seq", "key", "value")


@app.operator(inputs=chosen, keep=last_rows(4, by="key"))
def recent(chosen: DataFrame) -> DataFrame:
    window = Window.partitionBy("key").orderBy("seq").rowsBetween(-4, 0)
    return chosen.select("seq", "key", F.sum("value").over(window).alias("total"))


@app.operator(inputs=[recent, events], keep={recent: last_rows(1, by="key")})
def compared(recent: DataFrame, events: DataFrame) -> DataFrame:
    so_far = Window.partitionBy("key").orderBy("seq").rowsBetween(Window.unboundedPreceding, 0)
    newest = recent.unionByName(events, allowMissingColumns=True).withColumn(
        "total", F.last("total", ignorenulls=True).over(so_far)
    )
    return newest.where("value < total").select("seq", "key", (F.col("total") - F.col("value")).alias("below"))


app.sink("out", compared)


def rehearse(spark: SparkSession) -> None:
    """Analyse, plan and run a small application, as a recovery does.

    The JVM then has loaded and compiled most of the code that any application needs.
    """
    graph = app.graph()
    schemas = analyse(graph, spark, name=app.name)
    part = [operator.name for operator in graph.operators]
    PeCompute(spark, graph, part, schemas, name=app.name).warm(schemas)
