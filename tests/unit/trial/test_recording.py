import pyarrow as pa

from holdfast.trial.recording import _in_order_of_time


def rows(**columns):
    kinds = {"seq": pa.int64(), "time": pa.timestamp("us", "UTC"), "n": pa.int64()}
    return pa.table({name: pa.array(values, kinds[name]) for name, values in columns.items()})


def test_rows_of_all_sources_are_numbered_in_the_order_of_their_times():
    tables = {
        "late": rows(seq=[1, 2, 5], time=[30, 10, 20], n=[3, 1, 2]),
        "empty": rows(seq=[], time=[], n=[]),
        "other": rows(seq=[3, 4], time=[10, 20], n=[7, 8]),
    }
    ordered = _in_order_of_time(tables, None)
    assert ordered["late"].select(["seq", "n"]).to_pydict() == {"seq": [1, 4, 5], "n": [1, 2, 3]}
    assert ordered["other"].select(["seq", "n"]).to_pydict() == {"seq": [2, 3], "n": [7, 8]}
    assert ordered["empty"].num_rows == 0
    assert {name: table.num_rows for name, table in _in_order_of_time(tables, 3).items()} == {"late": 1, "empty": 0, "other": 2}
