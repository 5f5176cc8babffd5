"""Numbers that the input of a late epoch says already: which are found, when they are believed, and when they are not."""

import numpy as np
import pyarrow as pa
import pytest

from holdfast.prediction import EpochPredictor, PredictorSettings, columns_of, echo, view


def readings(epoch, *, rng, per_rack=4):
    """Readings that nobody can foresee."""
    rack = np.repeat(["a", "b", "c"], per_rack)
    return pa.table({"seq": np.arange(len(rack)) + 100 * epoch, "rack": rack, "cpu": rng.uniform(1, 99, len(rack))})


def racks(epoch, cpu, **more):
    size = len(cpu)
    return pa.table(
        {"seq": np.arange(size) + 100 * epoch, "epoch": [epoch] * size, "rack": ["a", "b", "c"][:size], "cpu": cpu, **more}
    )


def per_rack(table, how):
    cpu = table["cpu"].to_numpy().reshape(3, -1)
    return [float(value) for value in getattr(cpu, how)(axis=1)]


def stand_in(**settings):
    return EpochPredictor(
        columns_of(racks(0, [1.0, 2.0, 3.0]).schema, ["rack"]), settings=PredictorSettings(**settings), inputs=["readings"]
    )


def watch(watched, epochs, make, *, rng, tell=True):
    """Let epochs pass whose output is what `make` makes of the inputs so far; all inputs."""
    inputs = []
    for epoch in epochs:
        inputs.append(readings(epoch, rng=rng))
        if tell:
            watched.from_input.echo.tell(epoch, [inputs[-1]])
        watched.observe(epoch, racks(epoch, make(inputs)))
        watched.learn()
    return inputs


def predicted(watched, epoch, inputs=None, *, exact=True):
    if inputs is not None:
        watched.from_input.echo.tell(epoch, [inputs], exact=exact)
    return watched.predict(epoch, 10.0)


def mean_over(epochs):
    return lambda inputs: np.mean([per_rack(table, "mean") for table in inputs[-epochs:]], axis=0)


@pytest.mark.parametrize(
    ("make", "relation"),
    [
        (lambda inputs: per_rack(inputs[-1], "mean"), "mean of readings.cpu"),
        (lambda inputs: per_rack(inputs[-1], "max"), "greatest of readings.cpu"),
        (lambda inputs: per_rack(inputs[-1], "min"), "least of readings.cpu"),
        (lambda inputs: per_rack(inputs[-1], "sum"), "sum of readings.cpu"),
        (mean_over(6), "mean of readings.cpu, averaged over 6 epochs"),
    ],
)
def test_a_number_that_is_taken_from_the_input_is_read_off_the_late_epochs_own(make, relation):
    rng = np.random.default_rng(1)
    watched = stand_in()
    inputs = watch(watched, range(20), make, rng=rng)
    inputs.append(readings(20, rng=rng))
    prediction = predicted(watched, 20, inputs[-1])
    assert prediction.rows["cpu"].to_pylist() == pytest.approx(make(inputs))
    assert prediction.used == {"echo": 3}
    assert view(watched)["from_input"]["cpu"]["is"] == relation


def test_without_the_input_or_where_the_contract_says_so_history_decides():
    rng = np.random.default_rng(1)
    watched = stand_in()
    inputs = watch(watched, range(20), mean_over(1), rng=rng)
    assert "echo" not in predicted(watched, 20).used
    watched.change(PredictorSettings(from_input=False))
    assert "echo" not in predicted(watched, 20, inputs[-1]).used


def test_where_no_relation_holds_history_is_believed():
    rng = np.random.default_rng(1)
    watched = stand_in()
    inputs = watch(watched, range(40), lambda inputs: [5.0, 6.0, 7.0], rng=rng)
    prediction = predicted(watched, 40, inputs[-1])
    assert prediction.rows["cpu"].to_pylist() == pytest.approx([5.0, 6.0, 7.0])
    assert "echo" not in prediction.used


def test_a_relation_that_ends_is_given_up():
    rng = np.random.default_rng(1)
    watched = stand_in()
    watch(watched, range(20), mean_over(1), rng=rng)
    inputs = watch(watched, range(20, 60), lambda inputs: [5.0, 6.0, 7.0], rng=rng)
    assert predicted(watched, 60, inputs[-1]).rows["cpu"].to_pylist() == pytest.approx([5.0, 6.0, 7.0])


def test_inputs_that_were_predicted_too_are_judged_on_their_own():
    rng = np.random.default_rng(1)
    watched = stand_in()
    watch(watched, range(20), mean_over(1), rng=rng)
    for epoch in range(20, 24):  # inputs that turn out wrong
        first = predicted(watched, epoch, readings(epoch, rng=rng), exact=False)
        assert epoch > 20 or first.used == {"echo": 3}  # never judged: as good as from final ones
        watch(watched, [epoch], mean_over(1), rng=rng)
    assert "echo" not in predicted(watched, 24, readings(24, rng=rng), exact=False).used
    watch(watched, range(24, 24 + echo.WINDOW), mean_over(1), rng=rng)
    assert predicted(watched, 24 + echo.WINDOW, readings(0, rng=rng)).used == {"echo": 3}


def test_keys_that_appear_vanish_or_are_null_are_no_ones_error():
    rng = np.random.default_rng(1)
    columns = columns_of(racks(0, [1.0]).schema, ["rack"])
    watched = EpochPredictor(columns)
    for epoch in range(30):
        names = [None, f"k{epoch // 10}", "a"]
        cpu = rng.uniform(1, 99, 3)
        table = pa.table({"seq": [3 * epoch, 3 * epoch + 1, 3 * epoch + 2], "epoch": [epoch] * 3, "rack": names, "cpu": cpu})
        watched.from_input.echo.tell(epoch, [table])
        watched.observe(epoch, table)
        watched.learn()
    late = pa.table({"seq": [1, 2], "epoch": [30, 30], "rack": [None, "new"], "cpu": [42.0, 43.0]})
    rows = predicted(watched, 30, late).rows.to_pylist()
    assert {row["rack"]: row["cpu"] for row in rows}[None] == 42.0
    assert "a" in {row["rack"] for row in rows}


def test_a_key_with_several_rows_an_epoch_is_left_to_history():
    rng = np.random.default_rng(1)
    watched = stand_in()
    for epoch in range(20):
        cpu = rng.uniform(1, 99, 6)
        table = pa.table(
            {"seq": np.arange(6) + 10 * epoch, "epoch": [epoch] * 6, "rack": ["a", "a", "b", "b", "c", "c"], "cpu": cpu}
        )
        watched.from_input.echo.tell(epoch, [table])
        watched.observe(epoch, table)
        watched.learn()
    assert "echo" not in predicted(watched, 20, table).used


def test_a_stream_without_a_key_and_one_of_several_inputs():
    rng = np.random.default_rng(1)
    schema = pa.schema({"seq": pa.int64(), "total": pa.float64(), "rows": pa.int64()})
    watched = EpochPredictor(columns_of(schema, []), inputs=["left", "right"])
    for epoch in range(21):
        left = pa.table({"x": rng.uniform(1, 99, 5)})
        right = pa.table({"y": rng.uniform(1, 99, 3 + epoch % 5)})
        watched.from_input.echo.tell(epoch, [left, right])
        total = float(np.sum(right["y"].to_numpy()))
        if epoch == 20:
            break
        watched.observe(epoch, pa.table({"seq": [epoch], "total": [total], "rows": [right.num_rows]}, schema=schema))
        watched.learn()
    (row,) = watched.predict(20, 10.0).rows.to_pylist()
    assert (row["total"], row["rows"]) == (pytest.approx(total), right.num_rows)


def test_an_input_that_does_not_name_the_keys_or_too_many_is_looked_at_no_more(monkeypatch):
    columns = columns_of(racks(0, [1.0]).schema, ["rack"])
    told = echo.Echo(columns)
    told.tell(0, [pa.table({"seq": [1], "cpu": [2.0]})])
    assert told.silent and not told.knows(1)
    told = echo.Echo(columns)
    told.tell(0, [pa.table({"seq": [1], "rack": [["a", "b"]], "cpu": [2.0]})])  # to be taken apart into its racks
    assert told.silent
    monkeypatch.setattr(echo, "MOST_KEYS", 2)
    told = echo.Echo(columns)
    told.tell(0, [racks(0, [1.0, 2.0])])
    assert not told.silent
    told.tell(1, [racks(1, [1.0, 2.0, 3.0])])
    assert told.silent and not told.knows(1)


def test_inputs_whose_columns_change_are_learned_anew():
    rng = np.random.default_rng(1)
    watched = stand_in()
    watch(watched, range(10), mean_over(1), rng=rng)
    other = readings(10, rng=rng).append_column("memory", pa.array(rng.uniform(1, 99, 12)))
    assert "echo" not in predicted(watched, 10, other).used


def test_what_is_remembered_of_inputs_is_bounded():
    rng = np.random.default_rng(1)
    watched = stand_in()
    watch(watched, range(60), mean_over(1), rng=rng)
    assert len(watched.from_input.echo._told) < echo.WINDOW
