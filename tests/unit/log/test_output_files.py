"""The Parquet files of a sink, read in three versions."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from obstore.store import MemoryStore

from holdfast.errors import HoldfastError
from holdfast.log import Quality, Store
from holdfast.log.output_files import list_output_files, read_output, write_correction, write_first
from holdfast.log.row_files import encode_parquet


@pytest.fixture
def store():
    return Store(MemoryStore())


def rows(seq):
    return encode_parquet(pa.table({"seq": [seq]}))


def test_output_is_read_as_newest_first_or_exact(store):
    assert write_first(store, "out", 1, Quality.EXACT, rows(10))
    assert write_first(store, "out", 2, Quality.TENTATIVE, rows(20))
    assert write_correction(store, "out", 2, rows(21))
    assert write_first(store, "out", 3, Quality.TENTATIVE, rows(30))
    outputs = {which: read_output(store, "out", which=which) for which in ("newest", "first", "exact")}
    assert outputs["newest"].to_pydict() == {"seq": [10, 21, 30], "quality": ["exact", "exact", "tentative"]}
    assert outputs["first"]["seq"].to_pylist() == [10, 20, 30]
    assert outputs["exact"]["seq"].to_pylist() == [10, 21]
    with pytest.raises(HoldfastError, match="'newest', 'first' or 'exact', got 'last'"):
        list_output_files(store, "out", which="last")


class Killed(Exception):
    pass


@pytest.mark.parametrize("calls", range(5))
def test_folder_has_each_epoch_once_after_a_crash_before_any_step(tmp_path, calls):
    """A replica dies before one of its calls to the storage; another one then repeats its writes."""

    class Dying(Store):
        remaining = calls

        def count(self):
            if self.remaining == 0:
                raise Killed
            self.remaining -= 1

        def create(self, name, content):
            self.count()
            return super().create(name, content)

        def replace(self, name, content):
            self.count()
            super().replace(name, content)

    def write(store):
        write_first(store, "out", 1, Quality.TENTATIVE, rows(1))
        write_correction(store, "out", 1, rows(2))
        write_first(store, "out", 2, Quality.EXACT, rows(3))

    with pytest.raises(Killed):
        write(Dying(tmp_path))
    store = Store(tmp_path)
    if calls > 1:  # until then there is no file
        assert pq.read_table(tmp_path / "out")["seq"].to_pylist() == [1 if calls == 2 else 2]
        assert read_output(store, "out")["quality"].to_pylist() == ["exact" if calls == 4 else "tentative"]
    write(store)
    assert sorted(pq.read_table(tmp_path / "out")["seq"].to_pylist()) == [2, 3]
    assert read_output(store, "out").to_pydict() == {"seq": [2, 3], "quality": ["exact", "exact"]}
    assert read_output(store, "out", which="first")["seq"].to_pylist() == [1, 3]


def test_delayed_first_output_does_not_replace_the_correction(store):
    write_first(store, "out", 1, Quality.TENTATIVE, rows(1))
    assert write_correction(store, "out", 1, rows(2))
    assert not write_first(store, "out", 1, Quality.TENTATIVE, rows(1))
    assert not write_correction(store, "out", 1, rows(2))
    assert read_output(store, "out").to_pydict() == {"seq": [2], "quality": ["exact"]}
