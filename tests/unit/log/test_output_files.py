"""The Parquet files of a sink, read in three versions."""

import pyarrow as pa
import pytest
from obstore.store import MemoryStore

from holdfast.errors import HoldfastError
from holdfast.log import Quality, Store
from holdfast.log.output_files import file_name, list_output_files, read_output
from holdfast.log.row_files import encode_parquet


@pytest.fixture
def store():
    return Store(MemoryStore())


def test_output_is_read_as_newest_first_or_exact(store):
    def write(epoch, kind, quality, seq):
        store.create(f"out/{file_name(epoch, kind, quality)}", encode_parquet(pa.table({"seq": [seq]})))

    write(1, "first", Quality.EXACT, 10)
    write(2, "first", Quality.TENTATIVE, 20)
    write(2, "final", Quality.EXACT, 21)
    write(3, "first", Quality.TENTATIVE, 30)
    outputs = {which: read_output(store, "out", which=which) for which in ("newest", "first", "exact")}
    assert outputs["newest"].to_pydict() == {"seq": [10, 21, 30], "quality": ["exact", "exact", "tentative"]}
    assert outputs["first"]["seq"].to_pylist() == [10, 20, 30]
    assert outputs["exact"]["seq"].to_pylist() == [10, 21]
    with pytest.raises(HoldfastError, match="'newest', 'first' or 'exact', got 'last'"):
        list_output_files(store, "out", which="last")
