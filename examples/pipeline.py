"""LAAR's smallest application (EDBT'14, section 2): two PEs in a row, each of which needs 0.1 s of CPU time for every tuple.

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
    """Pass every tuple on after it has used COST_S of CPU time. On a processor that others use, too, that takes longer."""
    for batch in batches:
        until = time.thread_time() + COST_S * batch.num_rows
        while time.thread_time() < until:
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
