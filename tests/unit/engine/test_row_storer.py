"""What executors store and report. It runs in Spark's Python workers, but needs no Spark itself."""

import json

import pyarrow as pa

from holdfast.engine.epochs import Span
from holdfast.engine.stored_jobs import NULLS, RowStorer, by_span
from holdfast.log import Store
from holdfast.log.row_files import read_rows

SCHEMA = pa.schema({"seq": pa.int64(), "x": pa.float64()})


def stored(tmp_path, rows):
    spans = (Span(1, 1, 0, 2), Span(2, 2, 2, 2), Span(3, 3, 2, 4))
    storer = RowStorer(str(tmp_path), False, "data/s/0", "s", SCHEMA, lambda table: by_span(table, spans), ("seq",))
    batches = pa.Table.from_pylist(rows, SCHEMA).to_batches()
    results = [row for batch in storer(iter(batches)) for row in batch.to_pylist()]
    return [(row["label"], row["part"], json.loads(row["stored"])) for row in results]


def test_each_span_with_rows_has_a_file_with_its_bounds(tmp_path):
    results = stored(tmp_path, [{"seq": seq, "x": 0.5} for seq in (3, 1, 2, 4)])
    assert [(label, part, about["rows"], about["first_seq"], about["last_seq"]) for label, part, about in results] == [
        ("s", 0, 2, 1, 2),
        ("s", 2, 2, 3, 4),
    ]
    files = [file for _, _, about in results for file in about["files"]]
    assert [read_rows(Store(tmp_path), file)["seq"].to_pylist() for file in files] == [[1, 2], [3, 4]]


def test_rows_without_a_seq_are_reported_and_nothing_is_stored(tmp_path):
    ((label, _, about),) = stored(tmp_path, [{"seq": 1, "x": 0.5}, {"seq": None, "x": 0.5}])
    assert (label, about["files"]) == (f"{NULLS}s", ["seq", "1 of 2"])
    assert list(Store(tmp_path).names("data/")) == []
