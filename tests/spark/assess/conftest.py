"""Traces for trials on Spark."""

import pytest

from holdfast.trace import write_market


@pytest.fixture(scope="module")
def orders(spark):
    return spark.range(40).selectExpr(
        "id as seq", "timestamp_seconds(id) as time", "concat('c', id % 3) as customer", "cast(id as double) as amount"
    )


@pytest.fixture(scope="module")
def market(spark, tmp_path_factory):
    path = tmp_path_factory.mktemp("market") / "market.parquet"
    write_market(path, events=6000, seed=5, tickers=60)
    return spark.read.parquet(str(path)).cache()
