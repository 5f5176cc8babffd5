"""What is asked of an operator's rows: each has a place in an epoch."""

import pyarrow as pa
import pytest

from holdfast.app import App
from holdfast.engine.operator_call import require_epochs
from holdfast.errors import OperatorError

APP = App("shop")
LARGE = APP.operator(inputs=APP.source("orders", "seq long"), name="large")(lambda orders: orders)
APP.sink("alerts", LARGE)
OPERATOR = APP.graph().operator("large")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"seq": [1, None, None]},
            "produces 2 of 3 rows whose seq is null; every row must have the seq of the tuple that triggered it",
        ),
        ({"seq": [1, 2], "epoch": [7, None]}, "produces 1 of 2 rows whose epoch is null; every row must have the epoch"),
    ],
)
def test_rows_without_seq_are_reported_with_their_operator(columns, message):
    with pytest.raises(OperatorError) as caught:
        require_epochs(OPERATOR, pa.table(columns))
    assert str(caught.value).startswith(f"operator 'large' ({OPERATOR.origin}) {message}")


def test_other_columns_may_be_null():
    require_epochs(OPERATOR, pa.table({"seq": [1, 2], "epoch": [7, 7], "price": pa.array([None, None], pa.float64())}))
