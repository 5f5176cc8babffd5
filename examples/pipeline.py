"""LAAR's smallest application (EDBT'14, section 2): two PEs in a row, each of which needs a tenth of a second for every tuple.

holdfast reproduce laar-pipeline
"""

import time
from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame

from holdfast import App

COST_S = 0.1
SCHEMA = "seq long, time timestamp, value double"

app = App("pipeline", epoch_s=1.0)

source = app.source("source", SCHEMA)


def laborious(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Pass every tuple on once the processor has been kept busy with it."""
    for batch in batches:
        until = time.perf_counter() + COST_S * batch.num_rows
        while time.perf_counter() < until:
            pass
        yield batch


@app.operator(inputs=source)
def pe1(tuples: DataFrame) -> DataFrame:
    return tuples.select("seq", "time", "value").mapInArrow(laborious, SCHEMA)


@app.operator(inputs=pe1)
def pe2(tuples: DataFrame) -> DataFrame:
    return tuples.mapInArrow(laborious, SCHEMA)


app.sink("results", pe2)
app.score("results", "count(*)")
