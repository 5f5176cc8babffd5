"""Roles of columns in a predicted row."""

import pyarrow as pa
import pytest

from holdfast.errors import CompoundError
from holdfast.prediction import classify_columns

from .rack_stream import SCHEMA


def test_all_errors_of_columns_are_reported_at_once():
    with pytest.raises(CompoundError, match="column 'epoch' may not be null") as error:
        classify_columns(SCHEMA, ["rack"], blank=["epoch", "rack", "note"], carry=["note"], stream="racks")
    assert len(error.value.errors) == 3
    with pytest.raises(CompoundError, match="prediction of stream 'racks': the key names column 'rock', which does not exist"):
        classify_columns(SCHEMA, ["rock"], stream="racks")
    with pytest.raises(CompoundError, match=r"name key columns that exist in 'predicting\.keys', or none"):
        classify_columns(SCHEMA, ["rock"], stream="racks")
    nested = pa.schema([("place", pa.struct([("rack", pa.string())])), ("cpu", pa.float64())])
    with pytest.raises(CompoundError, match="must have plain values, not the type struct<rack: string>"):
        classify_columns(nested, ["place"])
    with pytest.raises(CompoundError, match="no column to predict"):
        classify_columns(SCHEMA, ["rack"], carry=["cpu", "requests"])
