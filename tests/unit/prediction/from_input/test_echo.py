"""Numbers that are aggregates of the input: which relations are found, and when they are used."""

import numpy as np
import pyarrow as pa
import pytest

from holdfast.prediction import EpochPredictor, PredictorSettings, classify_columns
from holdfast.prediction.from_input import echo
from holdfast.prediction.predictor_document import predictor_view


def readings(epoch, *, rng, per_rack=4):
    """Return random readings."""
    rack = np.repeat(["a", "b", "c"], per_rack)
    return pa.table({"seq": np.arange(len(rack)) + 100 * epoch, "rack": rack, "cpu": rng.uniform(1, 99, len(rack))})


def racks(epoch, cpu, **more):
    size = len(cpu)
    return pa.table(
        {"seq": np.arange(size) + 100 * epoch, "epoch": [epoch] * size, "rack": list("abcdef")[:size], "cpu": cpu, **more}
    )


def per_rack(table, how):
    cpu = table["cpu"].to_numpy().reshape(3, -1)
    return [float(value) for value in getattr(cpu, how)(axis=1)]


def new_predictor(**settings):
    return EpochPredictor(
        classify_columns(racks(0, [1.0, 2.0, 3.0]).schema, ["rack"]), settings=PredictorSettings(**settings), inputs=["readings"]
    )


def observe(predictor, epochs, compute, *, rng):
    """Observe epochs whose output is `compute` of all inputs so far, and return the inputs."""
    inputs = []
    for epoch in epochs:
        inputs.append(readings(epoch, rng=rng))
        predictor.input_predictor.echo.add_input(epoch, [inputs[-1]])
        predictor.observe(epoch, racks(epoch, compute(inputs)))
        predictor.train()
    return inputs


def predict(predictor, epoch, inputs=None, *, exact=True):
    if inputs is not None:
        predictor.input_predictor.echo.add_input(epoch, [inputs], exact=exact)
    return predictor.predict(epoch, 10.0)


def mean_over(epochs):
    return lambda inputs: np.mean([per_rack(table, "mean") for table in inputs[-epochs:]], axis=0)


@pytest.mark.parametrize(
    ("compute", "relation"),
    [
        (lambda inputs: per_rack(inputs[-1], "mean"), "mean of readings.cpu"),
        (lambda inputs: per_rack(inputs[-1], "max"), "greatest of readings.cpu"),
        (lambda inputs: per_rack(inputs[-1], "min"), "least of readings.cpu"),
        (lambda inputs: per_rack(inputs[-1], "sum"), "sum of readings.cpu"),
        (mean_over(6), "mean of readings.cpu, averaged over 6 epochs"),
    ],
)
def test_aggregate_of_the_input_is_predicted_from_the_late_input(compute, relation):
    rng = np.random.default_rng(1)
    predictor = new_predictor()
    inputs = observe(predictor, range(20), compute, rng=rng)
    inputs.append(readings(20, rng=rng))
    prediction = predict(predictor, 20, inputs[-1])
    assert prediction.rows["cpu"].to_pylist() == pytest.approx(compute(inputs))
    assert prediction.used == {"echo": 3}
    assert predictor_view(predictor)()["from_input"]["cpu"]["is"] == relation


def test_history_is_used_without_input_or_on_request():
    rng = np.random.default_rng(1)
    predictor = new_predictor()
    inputs = observe(predictor, range(20), mean_over(1), rng=rng)
    assert "echo" not in predict(predictor, 20).used
    predictor.change_settings(PredictorSettings(from_input=False))
    assert "echo" not in predict(predictor, 20, inputs[-1]).used


def test_history_is_used_if_no_relation_holds():
    rng = np.random.default_rng(1)
    predictor = new_predictor()
    inputs = observe(predictor, range(40), lambda inputs: [5.0, 6.0, 7.0], rng=rng)
    prediction = predict(predictor, 40, inputs[-1])
    assert prediction.rows["cpu"].to_pylist() == pytest.approx([5.0, 6.0, 7.0])
    assert "echo" not in prediction.used


def test_relation_that_ends_is_dropped():
    rng = np.random.default_rng(1)
    predictor = new_predictor()
    observe(predictor, range(20), mean_over(1), rng=rng)
    inputs = observe(predictor, range(20, 60), lambda inputs: [5.0, 6.0, 7.0], rng=rng)
    assert predict(predictor, 60, inputs[-1]).rows["cpu"].to_pylist() == pytest.approx([5.0, 6.0, 7.0])


def test_inexact_inputs_are_judged_separately():
    rng = np.random.default_rng(1)
    predictor = new_predictor()
    observe(predictor, range(20), mean_over(1), rng=rng)
    for epoch in range(20, 24):  # inputs that turn out wrong
        first = predict(predictor, epoch, readings(epoch, rng=rng), exact=False)
        assert epoch > 20 or first.used == {"echo": 3}  # not judged yet: as accurate as from exact inputs
        observe(predictor, [epoch], mean_over(1), rng=rng)
    assert "echo" not in predict(predictor, 24, readings(24, rng=rng), exact=False).used
    observe(predictor, range(24, 24 + echo.WINDOW), mean_over(1), rng=rng)
    assert predict(predictor, 24 + echo.WINDOW, readings(0, rng=rng)).used == {"echo": 3}


def test_keys_may_appear_vanish_or_be_null():
    rng = np.random.default_rng(1)
    columns = classify_columns(racks(0, [1.0]).schema, ["rack"])
    predictor = EpochPredictor(columns)
    for epoch in range(30):
        names = [None, f"k{epoch // 10}", "a"]
        cpu = rng.uniform(1, 99, 3)
        table = pa.table({"seq": [3 * epoch, 3 * epoch + 1, 3 * epoch + 2], "epoch": [epoch] * 3, "rack": names, "cpu": cpu})
        predictor.input_predictor.echo.add_input(epoch, [table])
        predictor.observe(epoch, table)
        predictor.train()
    late = pa.table({"seq": [1, 2], "epoch": [30, 30], "rack": [None, "new"], "cpu": [42.0, 43.0]})
    rows = predict(predictor, 30, late).rows.to_pylist()
    assert {row["rack"]: row["cpu"] for row in rows}[None] == 42.0
    assert "a" in {row["rack"] for row in rows}


def test_key_with_several_rows_per_epoch_uses_history():
    rng = np.random.default_rng(1)
    predictor = new_predictor()
    for epoch in range(20):
        cpu = rng.uniform(1, 99, 6)
        table = pa.table(
            {"seq": np.arange(6) + 10 * epoch, "epoch": [epoch] * 6, "rack": ["a", "a", "b", "b", "c", "c"], "cpu": cpu}
        )
        predictor.input_predictor.echo.add_input(epoch, [table])
        predictor.observe(epoch, table)
        predictor.train()
    assert "echo" not in predict(predictor, 20, table).used


def test_stream_without_key_follows_one_of_several_inputs():
    rng = np.random.default_rng(1)
    schema = pa.schema({"seq": pa.int64(), "total": pa.float64(), "rows": pa.int64()})
    predictor = EpochPredictor(classify_columns(schema, []), inputs=["left", "right"])
    for epoch in range(21):
        left = pa.table({"x": rng.uniform(1, 99, 5)})
        right = pa.table({"y": rng.uniform(1, 99, 3 + epoch % 5)})
        predictor.input_predictor.echo.add_input(epoch, [left, right])
        total = float(np.sum(right["y"].to_numpy()))
        if epoch == 20:
            break
        predictor.observe(epoch, pa.table({"seq": [epoch], "total": [total], "rows": [right.num_rows]}, schema=schema))
        predictor.train()
    (row,) = predictor.predict(20, 10.0).rows.to_pylist()
    assert (row["total"], row["rows"]) == (pytest.approx(total), right.num_rows)


def test_input_without_keys_is_never_used():
    columns = classify_columns(racks(0, [1.0]).schema, ["rack"])
    inputs_echo = echo.Echo(columns)
    inputs_echo.add_input(0, [pa.table({"seq": [1], "cpu": [2.0]})])
    assert not inputs_echo.can_use(1) and not inputs_echo.has_input(1)
    inputs_echo = echo.Echo(columns)
    inputs_echo.add_input(0, [pa.table({"seq": [1], "rack": [["a", "b"]], "cpu": [2.0]})])  # a list of racks is not a key
    assert not inputs_echo.can_use(1)


def test_one_very_large_epoch_does_not_end_the_use_of_inputs(monkeypatch):
    monkeypatch.setattr(echo, "MOST_KEYS", 5)
    rng = np.random.default_rng(1)
    predictor = new_predictor()
    observe(predictor, range(20), mean_over(1), rng=rng)
    predictor.input_predictor.echo.add_input(20, [racks(20, [1.0] * 6)])
    predictor.observe(20, racks(20, [1.0] * 3))
    assert not predictor.input_predictor.echo.has_input(20)
    inputs = observe(predictor, [21], mean_over(1), rng=rng)
    inputs.append(readings(22, rng=rng))
    prediction = predict(predictor, 22, inputs[-1])
    assert prediction.used == {"echo": 3}
    assert prediction.rows["cpu"].to_pylist() == pytest.approx(mean_over(1)(inputs))


def test_inputs_with_too_many_keys_are_tried_more_and_more_rarely(monkeypatch):
    monkeypatch.setattr(echo, "MOST_KEYS", 2)
    inputs_echo, tried = echo.Echo(classify_columns(racks(0, [1.0]).schema, ["rack"])), []
    for epoch in range(200):
        if inputs_echo.can_use(epoch):
            tried.append(epoch)
        inputs_echo.add_input(epoch, [racks(epoch, [1.0, 2.0, 3.0])])
    assert tried == [0, 1, 3, 7, 15, 31, 63, 127, 191]
    inputs_echo.add_input(255, [racks(255, [1.0, 2.0])])
    assert inputs_echo.has_input(255) and inputs_echo.can_use(256)


def test_changed_input_columns_restart_learning():
    rng = np.random.default_rng(1)
    predictor = new_predictor()
    observe(predictor, range(10), mean_over(1), rng=rng)
    other = readings(10, rng=rng).append_column("memory", pa.array(rng.uniform(1, 99, 12)))
    assert "echo" not in predict(predictor, 10, other).used


def test_remembered_inputs_are_bounded():
    rng = np.random.default_rng(1)
    predictor = new_predictor()
    observe(predictor, range(60), mean_over(1), rng=rng)
    assert len(predictor.input_predictor.echo._inputs) < echo.WINDOW
