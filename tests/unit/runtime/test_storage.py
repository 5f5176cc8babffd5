"""What is stored: rows, checkpoints, timelines, outputs."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from obstore.store import MemoryStore

from holdfast.errors import HoldfastError
from holdfast.log import Quality, Store
from holdfast.log.checkpoints import Checkpoints
from holdfast.log.position import Position
from holdfast.log.row_files import checksum, encode_parquet, partition_numbers, read_rows, write_rows
from holdfast.log.timeline import Timeline, agree_on_timeline, read_timeline
from holdfast.runtime.sinks.output_files import file_name, list_output_files, read_output

ROWS = pa.table({"seq": [1, 2, 3], "ticker": ["a", None, "b"], "gain": [0.1, None, -1.0]})


@pytest.fixture
def store():
    return Store(MemoryStore())


def test_rows_come_back_as_they_were_stored(store):
    assert read_rows(store, write_rows(store, ROWS, folder="data")).equals(ROWS)


def test_a_file_that_a_record_names_and_that_is_gone_is_told(store):
    with pytest.raises(HoldfastError, match=r"has lost the file 'data/x\.parquet'"):
        read_rows(store, "data/x.parquet")


@given(st.lists(st.tuples(st.integers(-9, 9), st.sampled_from(["a", "b", None]), st.floats(-1e6, 1e6)), max_size=12), st.randoms())
def test_the_checksum_of_a_bag_of_rows_ignores_their_order_and_the_noise_of_sums(values, rng):
    def table(rows):
        names = ("seq", "key", "x")
        types = (pa.int64(), pa.string(), pa.float64())
        columns = [pa.array([row[place] for row in rows], types[place]) for place in range(3)]
        return pa.table(columns, names=names)

    shuffled = list(values)
    rng.shuffle(shuffled)
    assert checksum(table(shuffled)) == checksum(table(values))
    if values:
        assert checksum(table([(values[0][0] + 1, *values[0][1:]), *values[1:]])) != checksum(table(values))
        assert checksum(table(values[1:])) != checksum(table(values))


def test_every_row_of_a_key_falls_on_one_part_and_all_parts_are_used():
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
def test_rows_are_divided_by_keys_of_any_type_and_what_is_one_key_to_spark_falls_on_one_part(values):
    first, _, third = partition_numbers(pa.table({"k": values}), ("k",), parts=1_000_000)
    assert first == third


def test_a_checkpoint_comes_back_whole_and_only_the_last_two_stay(store):
    checkpoints = Checkpoints(store)
    for epoch in (3, 5, 9):
        checkpoints.save("vwap/0", Position(epoch, {"trades kept by vwap": ROWS}, after=epoch * 10, tainted=None))
    found = checkpoints.latest("vwap/0")
    assert (found.epoch, found.after, found.tainted) == (9, 90, None)
    assert found.kept["trades kept by vwap"].equals(ROWS)
    assert len(list(store.names("checkpoints/"))) == 2
    assert checkpoints.latest("other/0") is None


def test_what_every_task_has_a_checkpoint_past_is_the_oldest_of_their_newest(store):
    checkpoints = Checkpoints(store)
    checkpoints.save("a/0", Position(4))
    assert checkpoints.epoch_reached_by_all(["a/0", "b/0"]) is None
    checkpoints.save("b/0", Position(7))
    assert checkpoints.epoch_reached_by_all(["a/0", "b/0"]) == 4


def test_a_damaged_checkpoint_is_told_and_not_guessed(store):
    store.create(f"checkpoints/a%2F0/{4:020d}", b"nonsense")
    with pytest.raises(HoldfastError, match="checkpoint 4 of a/0 cannot be read"):
        Checkpoints(store).latest("a/0")


def test_the_first_source_decides_the_timeline_and_all_others_agree(store):
    assert read_timeline(store) is None
    mine = Timeline(first=5, last=9, epoch_s=1.0, opened_s=100.0, speed=2.0)
    assert agree_on_timeline(store, mine) == mine
    assert agree_on_timeline(store, Timeline(first=6, last=9, epoch_s=1.0, opened_s=200.0)) == mine == read_timeline(store)


def test_an_epoch_is_closed_when_its_time_is_over_and_never_past_the_last():
    timeline = Timeline(first=5, last=9, epoch_s=1.0, opened_s=100.0, speed=2.0)
    assert [timeline.last_closed_epoch(at) for at in (99.0, 100.4, 100.5, 101.2, 500.0)] == [4, 4, 5, 6, 9]


def test_an_output_is_read_as_newest_first_or_exact(store):
    def write(epoch, kind, quality, seq):
        store.create(f"out/{file_name(epoch, kind, quality)}", encode_parquet(pa.table({"seq": [seq]})))

    write(1, "first", Quality.EXACT, 10)
    write(2, "first", Quality.TENTATIVE, 20)
    write(2, "final", Quality.EXACT, 21)
    write(3, "first", Quality.TENTATIVE, 30)
    read = {which: read_output(store, "out", which=which) for which in ("newest", "first", "exact")}
    assert read["newest"].to_pydict() == {"seq": [10, 21, 30], "quality": ["exact", "exact", "tentative"]}
    assert read["first"]["seq"].to_pylist() == [10, 20, 30]
    assert read["exact"]["seq"].to_pylist() == [10, 21]
    with pytest.raises(HoldfastError, match="'newest', 'first' or 'exact', got 'last'"):
        list_output_files(store, "out", which="last")
