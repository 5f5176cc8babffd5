"""Moving averages of prices, from a Kafka topic to another: `make demo-kafka` runs it.

It needs the topics `trades` and `averages`. KAFKA_SERVERS has the address of a broker.

    KAFKA_SERVERS=localhost:9092 holdfast run examples/kafka_averages.py --for 60 --no-verify
"""

import os

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from holdfast import App, KafkaWriter, last_rows

servers = os.environ.get("KAFKA_SERVERS", "localhost:9092")
app = App("kafka-averages", epoch_s=1.0)
trades = app.source(
    "trades",
    "seq long, time timestamp, ticker string, price double",
    key="ticker",
    parallelism=2,
    kafka={"servers": servers, "topic": "trades", "starting_offsets": "earliest"},
)


@app.operator(inputs=trades, keep=last_rows(4, by="ticker"))
def moving_average(trades: DataFrame) -> DataFrame:
    """The average price of the ticker's five most recent trades, at every trade."""
    recent = Window.partitionBy("ticker").orderBy("seq").rowsBetween(-4, 0)
    return trades.select("seq", "ticker", "price", F.avg("price").over(recent).alias("average"))


app.sink("averages", moving_average, writer=KafkaWriter(servers, "averages", key="ticker"))
app.score("averages", "sum(average)")
