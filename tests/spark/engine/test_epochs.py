"""Cutting streams into epochs on Spark."""

import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.engine.epochs import ByBounds, ByCount, ByTime, Span, spans_of, with_epochs
from holdfast.errors import TraceError

START = datetime.datetime(2024, 5, 1, tzinfo=datetime.UTC)


def timed(spark, *rows):
    """Rows of (seq, seconds after the start)."""
    data = [(seq, None if s is None else START + datetime.timedelta(seconds=s)) for seq, s in rows]
    return spark.createDataFrame(data, "seq long, time timestamp")


def epochs(frame, cut):
    return [row.epoch for row in with_epochs({"s": frame}, cut)["s"].orderBy("seq").collect()]


def test_epochs_by_time_start_at_1970(spark):
    first = int(START.timestamp() // 10)
    frame = timed(spark, (1, 0), (2, 9.999999), (3, 10), (4, 35))
    assert epochs(frame, ByTime(10)) == [first, first, first + 1, first + 3]


def test_epochs_may_be_shorter_than_a_second(spark):
    first = int(START.timestamp() * 4)
    assert epochs(timed(spark, (1, 0), (2, 0.2499), (3, 0.25), (4, 1)), ByTime(0.25)) == [first, first, first + 1, first + 4]


def test_epochs_by_count_have_equal_numbers_of_seqs(spark):
    frame = spark.range(1, 8).withColumnRenamed("id", "seq")
    assert epochs(frame, ByCount(3)) == [0, 0, 0, 1, 1, 1, 2]


@settings(max_examples=10)
@given(st.lists(st.integers(0, 12), max_size=5))
def test_epochs_by_bounds_end_with_them(spark, bounds):
    frame = spark.range(1, 11).withColumnRenamed("id", "seq")
    assert epochs(frame, ByBounds(tuple(sorted(bounds)))) == [sum(bound < seq for bound in bounds) for seq in range(1, 11)]


def test_spans_cover_all_sources_without_gaps(spark):
    sources = {"a": timed(spark, (3, 1), (4, 12)), "b": timed(spark, (5, 13), (9, 41))}
    first = int(START.timestamp() // 10)
    assert spans_of(with_epochs(sources, ByTime(10))) == [
        Span(first, first, 2, 3),
        Span(first + 1, first + 1, 3, 5),
        Span(first + 2, first + 2, 5, 5),
        Span(first + 3, first + 3, 5, 5),
        Span(first + 4, first + 4, 5, 9),
    ]


def test_empty_epochs_are_listed_while_they_can_have_output(spark):
    cut = with_epochs({"s": timed(spark, (1, 0), (2, 5), (3, 6))}, ByTime(1))
    first = int(START.timestamp())
    assert [span.first - first for span in spans_of(cut, lull=2)] == [0, 1, 2, 5, 6]
    assert [span.first - first for span in spans_of(cut, lull=0)] == [0, 5, 6]
    assert spans_of(cut, lull=9) == spans_of(cut)


def test_row_far_in_time_is_reported(spark, monkeypatch):
    monkeypatch.setattr("holdfast.engine.epochs.MAX_EPOCHS", 100)
    cut = with_epochs({"s": timed(spark, (1, 0), (2, 1000))}, ByTime(1))
    with pytest.raises(TraceError, match=r"^the trace would be cut into more than 100 epochs: there is nothing between epoch"):
        spans_of(cut)


def test_source_without_time_is_reported(spark):
    with pytest.raises(TraceError, match=r"^source 's' has no column 'time' to cut it into epochs by; it has id; .*--epoch-rows"):
        with_epochs({"s": spark.range(3)}, ByTime(1))


def test_row_without_time_is_reported(spark):
    with pytest.raises(TraceError, match=r"^the trace has rows without a seq or a time; every row needs both"):
        spans_of(with_epochs({"s": timed(spark, (1, 0), (2, None))}, ByTime(1)))


def test_seq_and_time_must_ascend_together(spark):
    sources = {"a": timed(spark, (1, 0), (2, 30)), "b": timed(spark, (3, 1))}
    with pytest.raises(
        TraceError, match=r"^seq and time disagree: a row of epoch \d+ has seq 2, but an earlier epoch reaches seq 3"
    ):
        spans_of(with_epochs(sources, ByTime(10)))
