"""Row files: stored rows, checksums, and the division of rows by key."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from obstore.store import MemoryStore

from holdfast.errors import HoldfastError
from holdfast.log import Store
from holdfast.log.row_files import checksum, partition_numbers, read_rows, write_rows

ROWS = pa.table({"seq": [1, 2, 3], "ticker": ["a", None, "b"], "gain": [0.1, None, -1.0]})


@pytest.fixture
def store():
    return Store(MemoryStore())


def test_stored_rows_are_read_back(store):
    assert read_rows(store, write_rows(store, ROWS, folder="data")).equals(ROWS)


def test_missing_row_file_is_reported(store):
    with pytest.raises(HoldfastError, match=r"has lost the file 'data/x\.parquet'"):
        read_rows(store, "data/x.parquet")


@given(st.lists(st.tuples(st.integers(-9, 9), st.sampled_from(["a", "b", None]), st.floats(-1e6, 1e6)), max_size=12), st.randoms())
def test_checksum_ignores_the_order_of_rows(values, rng):
    def table(rows):
        names = ("seq", "key", "x")
        types = (pa.int64(), pa.string(), pa.float64())
        columns = [pa.array([row[column] for row in rows], types[column]) for column in range(3)]
        return pa.table(columns, names=names)

    shuffled = list(values)
    rng.shuffle(shuffled)
    assert checksum(table(shuffled)) == checksum(table(values))
    if values:
        assert checksum(table([(values[0][0] + 1, *values[0][1:]), *values[1:]])) != checksum(table(values))
        assert checksum(table(values[1:])) != checksum(table(values))


def test_rows_of_a_key_share_a_part_and_no_part_is_empty():
    rows = pa.table({"user": list(range(100)) * 2, "shop": ["x"] * 200})
    parts = partition_numbers(rows, ("user", "shop"), parts=4)
    assert (parts[:100] == parts[100:]).all()
    assert set(parts) == {0, 1, 2, 3}


@pytest.mark.parametrize(
    "values",
    [
        pa.array([0.0, 1.5, -0.0]),
        pa.array([b"\xff", b"a", b"\xff"]),
        pa.array([{"p": 1}, {"p": 2}, {"p": 1}]),
        pa.array([[1, 2], None, [1, 2]]),
        pa.array([float("nan"), None, float("nan")]),
        pa.array([1, 2, 1], pa.timestamp("us", tz="UTC")),
    ],
)
def test_values_that_are_one_key_to_spark_are_in_one_part(values):
    first, _, third = partition_numbers(pa.table({"k": values}), ("k",), parts=1_000_000)
    assert first == third
