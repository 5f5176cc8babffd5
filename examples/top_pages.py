"""Top pages (PPA, query Q1): the hundred most viewed pages of a web site over a sliding window, by hierarchical aggregation.

Requests are counted in slices of a hundred per server; slices are merged a hundred entries at a time; and every epoch the merged
counts of the last twelve epochs are ranked.

    holdfast trace pages --events 200000 --out pages.parquet      # a command of holdfast-papers
    holdfast replay examples/top_pages.py --trace pages.parquet
"""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from holdfast import App, last_epochs, state_table

SLICE = 100
WINDOW_EPOCHS = 12
TOP = 100

app = App("top-pages", epoch_s=5.0)

requests = app.source("requests", "seq long, time timestamp, page string, server int, bytes long", key="server", parallelism=8)


def count_in_slices(rows: DataFrame, open_slices: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Add up `views` per page over every `SLICE` consecutive rows of a server; a slice comes out when its last row has come in.

    `open_slices` has, per server, the counts of the slice that is not full yet and, in a row without a page, how many rows the
    server has had.
    """
    server = Window.partitionBy("server")
    in_order = server.orderBy("seq", "page").rowsBetween(Window.unboundedPreceding, 0)  # rows of the table come first: no seq
    slices = (
        rows.unionByName(open_slices, allowMissingColumns=True)
        .withColumn("before", F.coalesce(F.max("rows").over(server), F.lit(0)))
        .withColumn("number", F.col("before") + F.count("seq").over(in_order))
        .withColumn("total", F.col("before") + F.count("seq").over(server))
        .withColumn("slice", F.expr(f"if(seq is null, before, number - 1) div {SLICE}"))
        .groupBy("server", "slice", "page")
        .agg(F.sum("views").alias("views"), F.max("seq").alias("seq"), F.max("epoch").alias("epoch"), F.max("total").alias("total"))
        .withColumn("seq", F.max("seq").over(Window.partitionBy("server", "slice")))
        .withColumn("epoch", F.max("epoch").over(Window.partitionBy("server", "slice")))
        .withColumn("full", F.expr(f"(slice + 1) * {SLICE} <= total"))
    )
    full = slices.where("full and page is not null").select("seq", "epoch", "server", "page", "views")
    unfinished = slices.where("not full and page is not null").selectExpr("server", "page", "views", "cast(null as bigint) as rows")
    totals = (
        slices.groupBy("server")
        .agg(F.max("total").alias("rows"))
        .selectExpr("server", "cast(null as string) as page", "cast(null as bigint) as views", "rows")
    )
    return full, unfinished.unionByName(totals)


@app.operator(
    inputs=requests, keep=state_table("server int, page string, views long, rows long", by="server"), key="server", parallelism=8
)
def slices(requests: DataFrame, open_slices: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Page counts of every hundred requests of a server."""
    viewed = requests.select("seq", "epoch", "server", "page", F.lit(1).cast("long").alias("views"))
    return count_in_slices(viewed, open_slices)


@app.operator(
    inputs=slices,
    keep=state_table("server int, page string, views long, rows long", by="server"),
    key="server",
    parallelism=4,
    partitioning="merge",
)
def merged(slices: DataFrame, open_merges: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Page counts of every hundred entries of a server's slices."""
    return count_in_slices(slices, open_merges)


@app.operator(inputs=merged, keep=last_epochs(WINDOW_EPOCHS - 1))
def top(merged: DataFrame) -> DataFrame:
    """In every epoch the most viewed pages of the window that ends with it."""
    counts = (
        merged.withColumn("epoch", F.explode(F.expr(f"sequence(epoch, epoch + {WINDOW_EPOCHS - 1})")))
        .groupBy("epoch", "page")
        .agg(F.sum("views").alias("views"), F.max("seq").alias("seq"))
    )
    ranking = Window.partitionBy("epoch").orderBy(F.desc("views"), "page")
    return (
        counts.withColumn("place", F.row_number().over(ranking))
        .where(f"place <= {TOP}")
        .select("seq", "epoch", "place", "page", "views")
    )


app.sink("top_pages", top)
app.score("top_pages", "sum(views)")
