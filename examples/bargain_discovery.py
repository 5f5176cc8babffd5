"""Bargain Discovery (DEBS'11, section 6.1): which quotes ask less than the stock has lately been traded for?

Trades and quotes arrive as one stream. One branch keeps a moving average price over each ticker's five most recent trades; the
other carries the quotes; the last operator compares every quote with the newest average of its ticker.

    holdfast trace market --events 200000 --out market.parquet
    holdfast replay examples/bargain_discovery.py --trace market.parquet
"""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from holdfast import App, last_rows

app = App("bargain-discovery", epoch_s=1.0)

market = app.source(
    "market",
    "seq long, time timestamp, ticker string, kind string, price double, volume long, ask_price double, ask_size long",
    key="ticker",
)


@app.operator(inputs=market)
def trade_quote(events: DataFrame) -> DataFrame:
    """Keep only the columns that anything downstream uses."""
    return events.select("seq", "ticker", "kind", "price", "volume", "ask_price", "ask_size")


@app.operator(inputs=trade_quote)
def trade_filter(events: DataFrame) -> DataFrame:
    return events.where("kind = 'trade'").select("seq", "ticker", "price", "volume")


@app.operator(inputs=trade_filter, keep=last_rows(4, by="ticker"), key="ticker")
def aggregator(trades: DataFrame) -> DataFrame:
    """Total volume and total price of the ticker's five most recent trades, at every trade."""
    recent = Window.partitionBy("ticker").orderBy("seq").rowsBetween(-4, 0)
    return trades.select(
        "seq",
        "ticker",
        F.sum("volume").over(recent).alias("total_volume"),
        F.sum(F.col("price") * F.col("volume")).over(recent).alias("total_price"),
    )


@app.operator(inputs=aggregator)
def vwap(totals: DataFrame) -> DataFrame:
    """The moving average price, weighted by volume; none where nothing was traded."""
    return totals.select("seq", "ticker", F.try_divide("total_price", "total_volume").alias("vwap"))


@app.operator(inputs=trade_quote)
def quote_filter(events: DataFrame) -> DataFrame:
    return events.where("kind = 'quote'").select("seq", "ticker", "ask_price", "ask_size")


@app.operator(inputs=[vwap, quote_filter], keep={vwap: last_rows(1, by="ticker")}, correlated=True, key="ticker")
def bargain_index(averages: DataFrame, quotes: DataFrame) -> DataFrame:
    """The money to be gained by each quote that asks less than the newest average price of its ticker."""
    so_far = Window.partitionBy("ticker").orderBy("seq").rowsBetween(Window.unboundedPreceding, 0)
    return (
        averages.unionByName(quotes, allowMissingColumns=True)
        .withColumn("vwap", F.last("vwap", ignorenulls=True).over(so_far))
        .where("ask_price < vwap")
        .select("seq", "ticker", (F.col("ask_size") * (F.col("vwap") - F.col("ask_price"))).alias("gain"))
    )


app.sink("bargains", bargain_index)
app.score("bargains", "sum(gain)")
