"""Cuts and spans as values; what they do to rows is tried on Spark."""

import pytest

from holdfast.engine.epochs import ByBounds, ByCount, ByTime, Span, join_spans
from holdfast.errors import HoldfastError


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_epoch_of_zero_seconds_is_rejected(seconds):
    with pytest.raises(HoldfastError, match=rf"^an epoch must last more than 0 seconds, got {seconds}$"):
        ByTime(seconds)


def test_epoch_below_the_clock_resolution_is_rejected():
    with pytest.raises(HoldfastError, match=r"^an epoch must last at least a microsecond, got 1e-07 s$"):
        ByTime(1e-7)


def test_infinite_epoch_is_rejected():
    with pytest.raises(HoldfastError, match=r"^an epoch must have a finite length, got inf seconds$"):
        ByTime(float("inf"))


@pytest.mark.parametrize("rows", [0, -5])
def test_epoch_of_zero_rows_is_rejected(rows):
    with pytest.raises(HoldfastError, match=rf"^an epoch must have at least 1 row, got {rows}$"):
        ByCount(rows)


def test_descending_bounds_are_rejected():
    with pytest.raises(HoldfastError, match=r"^the bounds of epochs must not descend, got 5 before 3$"):
        ByBounds((1, 5, 3))
    ByBounds((1, 3, 3, 5))


def test_span_without_rows_is_empty():
    assert Span(3, 3, 10, 10).empty
    assert not Span(3, 3, 10, 11).empty


def test_joined_spans_reach_from_the_first_to_the_last():
    spans = [Span(3, 3, 10, 12), Span(4, 4, 12, 12), Span(5, 5, 12, 20)]
    assert join_spans(spans) == Span(3, 5, 10, 20)
    assert join_spans(spans[:1]) == spans[0]
