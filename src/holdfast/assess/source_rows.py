"""Seq, epoch and integer-coded keys of every source tuple."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from holdfast.assess.case import Tempo
from holdfast.assess.keyed_seqs import Ints
from holdfast.engine.epochs import spans_of
from holdfast.errors import TraceError


@dataclass(frozen=True)
class SourceRows:
    """The rows of all sources in seq order: their epochs, and the integer-coded values of the requested columns."""

    seq: Ints
    epoch: Ints
    tempo: Tempo
    codes: Mapping[str, Ints]
    values: Mapping[str, pa.Array]


def source_rows(sources: Mapping[str, DataFrame], columns: Sequence[str], epoch_s: float) -> SourceRows:
    """Return the rows of all sources; TraceError if their seqs or times are missing, duplicate or out of order."""
    tables = [frame.select("seq", F.unix_micros("time").alias("us"), *columns).toArrow() for frame in sources.values()]
    table = pa.concat_tables(tables)
    seq, us = table["seq"].to_numpy(), table["us"].to_numpy()
    if table["us"].null_count or table["seq"].null_count:
        raise TraceError("the trace has rows without a seq or a time; every row needs both")
    order = np.argsort(seq, kind="stable")
    seq, us = seq[order], us[order]
    if len(seq) and seq[0] < 0:
        raise TraceError(f"the trace has a seq below 0: {seq[0]}; seqs start at 0 or above")
    if (np.diff(seq) == 0).any():
        raise TraceError("two source tuples have the same seq; across all sources of an application, seq must ascend")
    epoch = us // round(epoch_s * 1e6)
    if (np.diff(epoch) < 0).any():
        spans_of(sources)  # raises the error that names the rows
    codes, values = {}, {}
    for name in columns:
        encoded = table[name].combine_chunks().dictionary_encode()
        codes[name] = pc.fill_null(encoded.indices, 0).to_numpy().astype(np.int64)[order]
        values[name] = (
            pa.concat_arrays([encoded.dictionary, pa.nulls(1, encoded.dictionary.type)])
            if encoded.null_count
            else encoded.dictionary
        )
    span_s = max((int(us.max()) - int(us.min())) / 1e6, 1e-6)
    per_second = np.unique(us // 1_000_000, return_counts=True)[1]
    return SourceRows(seq, epoch, Tempo(len(seq) / span_s, float(per_second.max())), codes, values)
