"""Kept rows against the plainest model of each rule."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.app import last_epochs, last_rows
from holdfast.engine.epochs import Span
from holdfast.engine.kept_rows import rows_added, still_needed

SCHEMA = pa.schema([("seq", pa.int64()), ("epoch", pa.int64()), ("a", pa.string()), ("b", pa.int32())])
ANYWHEN = Span(0, 0, 0, 0)

rows = st.lists(
    st.fixed_dictionaries(
        {
            "seq": st.integers(1, 12),
            "epoch": st.integers(0, 6),
            "a": st.sampled_from(["x", "y", None]),
            "b": st.sampled_from([1, 2, None]),
        }
    ),
    max_size=15,
)


def seqs(table: pa.Table) -> list[int]:
    return table["seq"].to_pylist()


@given(rows, st.integers(1, 4), st.sampled_from([(), ("a",), ("a", "b"), ("b", "a")]))
def test_last_rows_keeps_the_newest_n_rows_per_key(rows, n, by):
    def needed(row):
        mine = [other for other in rows if all(other[name] == row[name] for name in by)]
        return sum(other["seq"] > row["seq"] for other in mine) < n

    kept = still_needed(pa.Table.from_pylist(rows, SCHEMA), last_rows(n, by=by), ANYWHEN)
    assert kept.to_pylist() == [row for row in rows if needed(row)]


@given(rows, st.integers(1, 4), st.integers(0, 6))
def test_last_epochs_keeps_rows_of_the_next_window(rows, n, last):
    kept = still_needed(pa.Table.from_pylist(rows, SCHEMA), last_epochs(n), Span(last, last, 0, 0))
    window = range(last + 1 - n, last + 2)
    assert kept.to_pylist() == [row for row in rows if row["epoch"] in window or row["epoch"] > last]


@given(rows, st.integers(1, 3), st.lists(st.integers(0, 15), max_size=3))
def test_trimming_early_loses_no_needed_row(rows, n, cuts):
    rule, rows = last_rows(n, by="a"), sorted(rows, key=lambda row: row["seq"])
    at_once = still_needed(pa.Table.from_pylist(rows, SCHEMA), rule, ANYWHEN)
    kept, done = pa.Table.from_pylist([], SCHEMA), 0
    for cut in [*sorted(cuts), len(rows)]:
        new = pa.Table.from_pylist(rows[done:cut], SCHEMA)
        kept, done = still_needed(pa.concat_tables([kept, new]), rule, ANYWHEN), max(done, cut)
    assert kept.to_pylist() == at_once.to_pylist()


def test_rows_that_share_the_oldest_kept_seq_are_all_kept():
    table = pa.table({"seq": [1, 2, 2, 3], "a": ["x"] * 4})
    assert seqs(still_needed(table, last_rows(2, by="a"), ANYWHEN)) == [2, 2, 3]


def test_null_is_a_key_of_its_own():
    table = pa.table({"seq": [1, 2, 3, 4], "a": [None, "x", None, ""]})
    assert seqs(still_needed(table, last_rows(1, by="a"), ANYWHEN)) == [2, 3, 4]


def test_key_of_several_columns_uses_all_of_them():
    table = pa.table({"seq": [1, 2, 3, 4], "a": ["x", "xy", "x", "xy"], "b": ["yz", "z", "yz", "yz"]})
    assert seqs(still_needed(table, last_rows(1, by=("a", "b")), ANYWHEN)) == [2, 3, 4]


@pytest.mark.parametrize(
    "values",
    [
        pa.array([{"p": 1}, {"p": 2}, {"p": 1}]),
        pa.array([[1, 2], [2, 1], [1, 2]]),
        pa.array([True, False, True]),
        pa.array([1.5, None, 1.5]),
        pa.array([1, 2, 1], pa.timestamp("us", tz="UTC")),
        pa.chunked_array([["a"], ["b", "a"]]),
    ],
)
def test_any_type_can_be_a_key(values):
    assert seqs(still_needed(pa.table({"seq": [1, 2, 3], "a": values}), last_rows(1, by="a"), ANYWHEN)) == [2, 3]


def test_empty_table_keeps_no_rows():
    assert still_needed(SCHEMA.empty_table(), last_rows(3, by="a"), ANYWHEN).num_rows == 0


def test_new_rows_of_a_span_are_selected_by_epoch():
    table = pa.table({"seq": [9, 1, 5], "epoch": [2, 3, 4]})
    assert seqs(rows_added(table, Span(3, 4, 6, 8))) == [1, 5]


def test_new_rows_of_a_span_are_selected_by_seq_without_epoch():
    assert seqs(rows_added(pa.table({"seq": [6, 7, 8]}), Span(3, 4, 6, 8))) == [7, 8]
