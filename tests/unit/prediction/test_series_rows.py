"""Rows become series and predicted numbers become rows, for all types of columns."""

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from holdfast.prediction import EpochPredictor, classify_columns, make_predictor
from holdfast.prediction.predictor_document import predictor_view

from .rack_stream import AMPLE_S, new_predictor, observe


def test_nulls_are_skipped_and_mostly_null_column_stays_null():
    predictor = new_predictor([make_predictor("last-outcome")])
    for epoch in range(30):
        cpu = [float(epoch) if epoch % 4 else None, None if epoch > 10 else 5.0]
        observe(predictor, [epoch], cpu=cpu)
    assert predictor.predict(30, AMPLE_S).rows["cpu"].to_pylist() == [29.0, None]


def test_non_nullable_number_without_values_is_nan():
    schema = pa.schema([pa.field("cpu", pa.float64(), nullable=False), pa.field("errors", pa.int64(), nullable=False)])
    predictor = EpochPredictor(classify_columns(schema, []))
    for epoch in range(10):
        predictor.observe(epoch, pa.table({"cpu": [float("nan")], "errors": [2]}, schema=schema))
    prediction = predictor.predict(10, AMPLE_S).rows
    prediction.validate(full=True)
    assert np.isnan(prediction["cpu"][0].as_py())
    assert prediction["errors"].to_pylist() == [2]


def test_infinity_and_nan_are_not_values():
    predictor = observe(new_predictor(), range(20), cpu=[1.0, 2.0])
    observe(predictor, [20], cpu=[float("inf"), float("nan")])
    assert predictor.predict(21, AMPLE_S).rows["cpu"].to_pylist() == pytest.approx([1.0, 2.0])


def test_too_large_series_gets_its_last_outcome_and_harms_no_other():
    predictor = observe(new_predictor(), range(30), cpu=[1.7e308, 2.0])
    assert not [state.reason for state in predictor.states if state.reason]
    assert predictor.predict(30, AMPLE_S).rows["cpu"].to_pylist() == [1.7e308, 2.0]
    for epoch in range(30, 90):
        observe(predictor, [epoch], cpu=[float(epoch), -1.7e308 if epoch == 40 else 2.0])
    assert not [state.reason for state in predictor.states if state.reason]
    assert predictor.predict(90, AMPLE_S).rows["cpu"].to_pylist() == pytest.approx([90.0, 2.0], rel=0.05)
    json.dumps(predictor_view(predictor)(), allow_nan=False)


def test_whole_numbers_stay_whole_and_in_range():
    predictor = observe(new_predictor([make_predictor("stride")]), range(20), requests=[2**31 - 1, 0])
    observe(predictor, [20], requests=[2**31 - 1, 7])
    observe(predictor, [21], requests=[2**31 - 1, 14])
    prediction = predictor.predict(22, AMPLE_S).rows["requests"]
    assert prediction.type == pa.int32()
    assert prediction.to_pylist() == [2**31 - 1, 21]


def test_series_that_was_never_negative_is_not_predicted_negative():
    predictor = new_predictor([make_predictor("stride")])
    for epoch in range(20):
        observe(predictor, [epoch], cpu=[3.0 * (19 - epoch), 1.0])
    assert predictor.predict(25, AMPLE_S).rows["cpu"].to_pylist()[0] == 0.0


def test_stream_without_keys_is_one_series():
    schema = pa.schema([("epoch", pa.int64()), ("total", pa.decimal128(4, 2))])
    predictor = EpochPredictor(classify_columns(schema, []), [make_predictor("stride")])
    for epoch in range(20):
        total = pa.array([Decimal(5 * epoch)], schema.field("total").type)
        predictor.observe(epoch, pa.table({"epoch": [epoch], "total": total}, schema=schema))
        predictor.train()
    assert predictor.predict(20, AMPLE_S).rows.schema == schema
    assert predictor.predict(20, AMPLE_S).rows["total"].to_pylist() == [Decimal("99.99")]  # the greatest value of the column's type


def test_times_advance_at_their_pace():
    schema = pa.schema([("time", pa.timestamp("us", tz="UTC")), ("cpu", pa.float64())])
    predictor = EpochPredictor(classify_columns(schema, []))
    for epoch in range(10):
        time = pa.array([1_000_000 * (60 + 5 * epoch)]).cast(schema.field("time").type)
        predictor.observe(epoch, pa.table({"time": time, "cpu": [1.0]}, schema=schema))
    assert predictor.predict(11, AMPLE_S).rows["time"].cast(pa.int64()).to_pylist() == [1_000_000 * (60 + 55)]


def observe_column(kind, value, *, epochs=25):
    """Return a predictor that has observed a stream of one key with a column of this type."""
    schema = pa.schema([("seq", pa.int64()), ("x", kind), ("cpu", pa.float64())])
    predictor = EpochPredictor(classify_columns(schema, []))
    for epoch in range(epochs):
        x = pa.array([value(epoch)], kind)
        predictor.observe(epoch, pa.table({"seq": [epoch], "x": x, "cpu": [1.0]}, schema=schema))
        predictor.train()
    return predictor


@pytest.mark.parametrize(
    ("kind", "value", "predicted"),
    [
        (pa.decimal128(18, 2), lambda epoch: Decimal("9999999999999999.99"), Decimal("9999999999999998.00")),
        (pa.decimal128(38, 18), lambda epoch: Decimal(4 * 10**18) * epoch, Decimal(99999999999999983616)),
        (pa.float32(), lambda epoch: 1.4e37 * epoch, float(np.finfo(np.float32).max)),
        (pa.float16(), lambda epoch: np.float16(2600.0 * epoch), 65504.0),
        (pa.int8(), lambda epoch: 5 * epoch, 127),
        (pa.uint64(), lambda epoch: 2**64 - 1, 2**64 - 2048),
        (pa.bool_(), lambda epoch: epoch % 2 == 0, True),
        (pa.duration("us"), lambda epoch: timedelta(seconds=epoch), timedelta(seconds=24)),
        (pa.list_(pa.int64()), lambda epoch: [epoch], [24]),
        (pa.null(), lambda epoch: None, None),
        (pa.float64(), lambda epoch: None, None),
    ],
    ids=str,
)
def test_predicted_column_keeps_its_type_and_stays_in_range(kind, value, predicted):
    prediction = observe_column(kind, value).predict(27, AMPLE_S).rows
    prediction.validate(full=True)
    assert prediction["x"].type == kind
    assert prediction["x"].to_pylist() == [predicted]


@pytest.mark.parametrize(
    ("missing", "second"), [(lambda epoch: epoch == 0, 27 * 5), (lambda epoch: epoch % 3 == 1, 27 * 5), (lambda epoch: True, None)]
)
def test_partly_null_time_advances_and_always_null_time_stays_null(missing, second):
    began = datetime(2020, 1, 1, tzinfo=UTC)
    predictor = observe_column(
        pa.timestamp("us", "UTC"), lambda epoch: None if missing(epoch) else began + timedelta(seconds=5 * epoch)
    )
    prediction = predictor.predict(27, AMPLE_S).rows["x"].to_pylist()
    assert prediction == [None if second is None else began + timedelta(seconds=second)]


def test_all_nan_keys_are_one_key():
    schema = pa.schema([("level", pa.float64()), ("cpu", pa.float64())])
    predictor = EpochPredictor(classify_columns(schema, ["level"]))
    for epoch in range(20):
        predictor.observe(epoch, pa.table({"level": [float("nan"), 1.0], "cpu": [5.0, 6.0]}, schema=schema))
    assert predictor.keys == 2
    assert predictor.predict(20, AMPLE_S).rows["cpu"].to_pylist() == [5.0, 6.0]
