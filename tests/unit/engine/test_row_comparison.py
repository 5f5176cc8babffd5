"""Comparing two tables as bags of rows."""

import datetime
import random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.engine.row_comparison import Difference, first_difference


def table(*rows: dict, **types: pa.DataType) -> pa.Table:
    whole = pa.Table.from_pylist(list(rows))
    for name, kind in types.items():
        place = whole.column_names.index(name)
        whole = whole.set_column(place, name, whole[name].cast(kind))
    return whole


def test_order_does_not_matter():
    rows = [{"seq": n % 7, "name": f"n{n}", "x": n / 3} for n in range(40)]
    assert first_difference(table(*rows), table(*reversed(rows))) is None


def test_missing_row_is_found():
    rows = [{"seq": n, "x": n} for n in range(5)]
    assert first_difference(table(*rows), table(*rows[:3], rows[4])) == Difference(3, {"seq": 3, "x": 3}, None)


def test_extra_row_is_found():
    rows = [{"seq": n, "x": n} for n in range(5)]
    assert first_difference(table(*rows[:2], *rows[3:]), table(*rows)) == Difference(2, None, {"seq": 2, "x": 2})


def test_row_missing_at_the_end_is_found():
    rows = [{"seq": n, "x": n} for n in range(5)]
    assert first_difference(table(*rows), table(*rows[:4])) == Difference(4, {"seq": 4, "x": 4}, None)


def test_duplicate_row_is_found():
    row = {"seq": 1, "x": 2}
    assert first_difference(table(row), table(row, row)) == Difference(1, None, row)


def test_changed_row_is_shown_from_both_sides():
    difference = first_difference(table({"seq": 1, "x": 1}, {"seq": 2, "x": 2}), table({"seq": 1, "x": 1}, {"seq": 2, "x": 3}))
    assert difference == Difference(2, {"seq": 2, "x": 2}, {"seq": 2, "x": 3})


def test_only_the_missing_row_of_a_seq_is_shown():
    left = table({"seq": 1, "k": "a"}, {"seq": 1, "k": "b"}, {"seq": 1, "k": "c"})
    right = table({"seq": 1, "k": "b"}, {"seq": 1, "k": "c"})
    assert first_difference(left, right) == Difference(1, {"seq": 1, "k": "a"}, None)


def test_first_difference_has_the_smallest_seq():
    left = table({"seq": 9, "x": 1}, {"seq": 3, "x": 1}, {"seq": 5, "x": 1})
    right = table({"seq": 9, "x": 2}, {"seq": 3, "x": 1}, {"seq": 5, "x": 2})
    assert first_difference(left, right).seq == 5


def test_empty_table_lacks_every_row():
    some = table({"seq": 4, "x": 0.5})
    assert first_difference(some.slice(1), some.slice(1)) is None
    assert first_difference(some, some.slice(1)) == Difference(4, {"seq": 4, "x": 0.5}, None)
    assert first_difference(some.slice(1), some) == Difference(4, None, {"seq": 4, "x": 0.5})


def test_rounding_differences_are_ignored():
    rng = random.Random(1)
    numbers = [rng.uniform(-1e6, 1e6) for _ in range(1000)]
    forth, back = sum(numbers), sum(reversed(numbers))
    assert forth != back
    assert first_difference(table({"seq": 1, "x": forth}), table({"seq": 1, "x": back})) is None


@pytest.mark.parametrize("other", [1.0 + 1e-6, 1.0 - 1e-8, -1.0, float("nan"), float("inf"), None])
def test_larger_differences_are_found(other):
    left = table({"seq": 1, "x": 1.0})
    right = pa.table({"seq": [1], "x": pa.array([other], pa.float64())})
    assert first_difference(left, right) is not None


def test_rounding_does_not_affect_the_pairing_of_rows():
    left = table({"seq": 1, "x": 1.0, "y": 5.0}, {"seq": 1, "x": 1.0 + 1e-15, "y": 4.0})
    right = table({"seq": 1, "x": 1.0 + 1e-15, "y": 5.0}, {"seq": 1, "x": 1.0, "y": 4.0})
    assert first_difference(left, right) is None
    assert first_difference(left, table({"seq": 1, "x": 1.0, "y": 5.0}, {"seq": 1, "x": 1.0, "y": 4.1})) is not None


def test_row_after_rounded_rows_is_compared():
    left = table({"seq": 1, "x": 1.0, "y": 5.0}, {"seq": 1, "x": 1.0 + 1e-15, "y": 4.0}, {"seq": 2, "x": 1.0, "y": 1.0})
    right = table({"seq": 1, "x": 1.0 + 1e-15, "y": 5.0}, {"seq": 1, "x": 1.0, "y": 4.0}, {"seq": 2, "x": 1.0, "y": 2.0})
    assert first_difference(left, right).seq == 2


def test_integers_on_one_side_do_not_change_the_row_order():
    left = table({"seq": 1, "a": 2.0, "b": "x"}, {"seq": 1, "a": 1.0, "b": "y"})
    right = table({"seq": 1, "a": 2.0000000001, "b": "x"}, {"seq": 1, "a": 1.0, "b": "y"})
    assert first_difference(left, right) is None


def test_null_equals_only_null():
    null = pa.table({"seq": [1], "x": pa.array([None], pa.int64()), "y": pa.array([None], pa.string())})
    zero = pa.table({"seq": [1], "x": pa.array([0], pa.int64()), "y": pa.array([None], pa.string())})
    text = pa.table({"seq": [1], "x": pa.array([None], pa.int64()), "y": pa.array(["None"], pa.string())})
    assert first_difference(null, null) is None
    assert first_difference(null, zero) == Difference(1, {"seq": 1, "x": None, "y": None}, {"seq": 1, "x": 0, "y": None})
    assert first_difference(null, text) is not None


def test_null_is_not_nan():
    null = pa.table({"seq": [1], "x": pa.array([None], pa.float64())})
    nan = pa.table({"seq": [1], "x": pa.array([float("nan")], pa.float64())})
    assert first_difference(nan, nan) is None
    assert first_difference(null, nan) is not None


def test_integers_next_to_nulls_are_compared_exactly():
    left = pa.table({"seq": [1, 2], "id": pa.array([2**60, None], pa.int64())})
    right = pa.table({"seq": [1, 2], "id": pa.array([2**60 + 1, None], pa.int64())})
    assert first_difference(left, right).seq == 1


def test_huge_value_does_not_widen_the_tolerance():
    left = table({"seq": 1, "x": float("inf")}, {"seq": 2, "x": 1e3}, {"seq": 3, "x": 0.25})
    assert first_difference(left, table({"seq": 1, "x": float("inf")}, {"seq": 2, "x": 1e3}, {"seq": 3, "x": 0.26})).seq == 3


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([1, 2, 3], [1, 2, 4]),
        (list(range(5000)), [*range(2500), -1, *range(2501, 5000)]),
        ([1, None], [1, 2]),
        ([], None),
        ({"a": 1, "b": [1.0]}, {"a": 1, "b": [1.001]}),
        ({"a": None}, {"a": 0}),
    ],
)
def test_nested_values_are_compared(one, other):
    kind = pa.array([one, other]).type
    left, right = (pa.table({"seq": [1], "x": pa.array([value], kind)}) for value in (one, other))
    assert first_difference(left, left) is None
    assert first_difference(left, right) is not None


def test_nested_rounding_differences_are_ignored():
    left = table({"seq": 1, "x": {"a": [0.1 + 0.2]}})
    assert first_difference(left, table({"seq": 1, "x": {"a": [0.3]}})) is None


def test_rows_are_paired_by_nested_values():
    rows = [{"seq": 1, "x": [2]}, {"seq": 1, "x": [1]}, {"seq": 1, "x": [3]}]
    assert first_difference(table(*rows), table(*reversed(rows))) is None


def test_other_types_are_compared_by_value():
    day = datetime.date(2020, 1, 1)
    at = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    row = {"seq": 1, "day": day, "at": at, "yes": True, "raw": b"a", "name": "ü"}
    for change in ({"day": datetime.date(2020, 1, 2)}, {"at": at.replace(year=2021)}, {"yes": False}, {"raw": b"b"}, {"name": "u"}):
        assert first_difference(table(row), table({**row, **change})) is not None
    assert first_difference(table(row), table(row)) is None


rows = st.lists(
    st.fixed_dictionaries(
        {
            "seq": st.integers(1, 4),
            "k": st.sampled_from(["a", "b", None]),
            "x": st.sampled_from([0.0, 1.0, 1.5, -2.0, None]),
            "l": st.lists(st.integers(0, 1), max_size=2),
        }
    ),
    max_size=8,
)
SCHEMA = pa.schema([("seq", pa.int64()), ("k", pa.string()), ("x", pa.float64()), ("l", pa.list_(pa.int64()))])


@given(rows, rows, st.randoms(use_true_random=False))
def test_comparison_equals_a_comparison_of_bags(left, right, rng):
    def noisy(row):
        return {**row, "x": row["x"] and row["x"] * (1 + rng.choice([-1, 0, 1]) * 1e-14)}

    def bag(some):
        return sorted(repr(sorted(row.items())) for row in some)  # equal rows may list their columns in different order

    shuffled = [noisy(row) for row in right]
    rng.shuffle(shuffled)
    difference = first_difference(pa.Table.from_pylist(left, SCHEMA), pa.Table.from_pylist(shuffled, SCHEMA))
    seqs = [seq for seq in range(1, 5) if bag(r for r in left if r["seq"] == seq) != bag(r for r in right if r["seq"] == seq)]
    assert (difference.seq if difference else None) == (seqs[0] if seqs else None)
    if difference and difference.left:
        assert left.count(difference.left) > right.count(difference.left)
