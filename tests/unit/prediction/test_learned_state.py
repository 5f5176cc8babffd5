"""What a predictor has learned survives writing and reading, and is refused where it does not fit."""

import io
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from holdfast.prediction import EpochPredictor, PredictorSettings, classify_columns, make_predictor
from holdfast.prediction.learned_state import (
    DIGEST,
    LearnedStateError,
    decode_learned_state,
    learned_state,
    restore_learned_state,
)
from holdfast.prediction.predictor_document import predictor_view

from .rack_stream import AMPLE_S, SCHEMA, new_predictor, observe, rows

ALGORITHMS = ("last-outcome", "stride", "long-stride")


def predictor_of(names=ALGORITHMS, **settings):
    return new_predictor([make_predictor(name) for name in names], **settings)


@pytest.fixture
def state():
    return learned_state(observe(predictor_of(), range(30)))


def with_arrays(state, **changes):
    return replace(state, arrays=state.arrays | changes)


def test_restored_predictor_continues_like_the_one_that_was_saved():
    original = observe(predictor_of(), range(30))
    restored = predictor_of()
    restore_learned_state(restored, decode_learned_state(learned_state(original).encode()))
    for predictor in (original, restored):
        observe(predictor, [30, 31], racks=("a", "b", "c"))
    answers = [predictor.predict(33, AMPLE_S) for predictor in (original, restored)]
    assert answers[0].rows == answers[1].rows
    documents = [predictor_view(predictor)() for predictor in (original, restored)]
    assert documents[1]["epochs_observed"] == 32
    outcomes = [document["algorithms"][0]["next"]["cpu"]["outcomes"] for document in documents]
    assert outcomes[1] == pytest.approx(outcomes[0], rel=0.05)  # all but those of the epoch after the restart


def test_relations_with_the_input_are_restored():
    schema = pa.schema({"seq": pa.int64(), "total": pa.float64()})
    predictors = [EpochPredictor(classify_columns(schema, []), inputs=["left"]) for _ in range(2)]
    for epoch in range(20):
        total = float(epoch * 37 % 11)
        predictors[0].input_predictor.echo.add_input(epoch, [pa.table({"x": [total - 1.0, 1.0]})])
        predictors[0].observe(epoch, pa.table({"seq": [epoch], "total": [total]}, schema=schema))
    restore_learned_state(predictors[1], decode_learned_state(learned_state(predictors[0]).encode()))
    predictors[1].input_predictor.echo.add_input(20, [pa.table({"x": [40.0, 2.0]})])
    assert predictors[1].predict(20, AMPLE_S).rows["total"].to_pylist() == [42.0]


def test_algorithms_that_stay_keep_their_accuracy(state):
    predictor = predictor_of(("autoregressive", "stride"))
    restore_learned_state(predictor, state)
    new, kept = predictor_view(predictor)()["algorithms"]
    assert (new["next"]["cpu"], kept["next"]["cpu"]["outcomes"] > 10) == (None, True)
    assert predictor.predict(30, AMPLE_S).rows["cpu"].to_pylist() == [39.0, 49.0]  # not trained yet: the last outcome
    predictor.train()
    assert predictor.predict(30, AMPLE_S).rows["cpu"].to_pylist() == [40.0, 50.0]


@pytest.mark.parametrize("damage", [lambda c: c[:-1], lambda c: c[:100] + b"x" + c[101:], lambda c: b"", lambda c: c + b"\0"])
def test_damaged_state_is_refused(state, damage):
    with pytest.raises(LearnedStateError, match="its digest does not fit: it is damaged or truncated"):
        decode_learned_state(damage(state.encode()))


def test_pickled_objects_are_refused_and_not_executed(state, capsys):
    class Evil:
        def __reduce__(self):
            return print, ("executed",)

    content = io.BytesIO()
    np.savez(content, about=np.array([Evil()], dtype=object))
    with pytest.raises(LearnedStateError, match="Object arrays cannot be loaded when allow_pickle=False"):
        decode_learned_state(DIGEST(content.getvalue()).digest() + content.getvalue())
    assert "executed" not in capsys.readouterr().out


@pytest.mark.parametrize("content", [b"no archive", b"PK\x03\x04"])
def test_bytes_of_something_else_are_refused(content):
    with pytest.raises(LearnedStateError, match="it cannot be read"):
        decode_learned_state(DIGEST(content).digest() + content)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: with_arrays(s, **{"values._values": np.zeros((2, 2, 3))}), "array '_values' must be float64 of shape"),
        (lambda s: with_arrays(s, **{"next._sums": np.full_like(s.arrays["next._sums"], np.inf)}), "that are not finite"),
        (lambda s: with_arrays(s, **{"later._size": np.full_like(s.arrays["later._size"], np.nan)}), "that are not finite"),
        (lambda s: replace(s, arrays={n: a for n, a in s.arrays.items() if n != "keys._pace"}), "'_pace' must be .* got nothing"),
        (lambda s: replace(s, about=s.about | {"keys": 3}), "3 keys were expected, 2 found"),
        (lambda s: replace(s, about=s.about | {"depth": 51}), "its depth is 51, and now 50"),
        (lambda s: replace(s, about={"epoch": 3}), "it does not fit: 'columns'"),
        (lambda s: replace(s, last_rows=pa.table({"rack": ["a", "b"]})), "rows with the columns"),
        (lambda s: replace(s, last_rows=s.last_rows.take([0, 0])), "2 keys were expected, 1 found"),
    ],
)
def test_state_that_does_not_fit_is_refused(state, change, message):
    with pytest.raises(LearnedStateError, match=message):
        restore_learned_state(predictor_of(), change(state))


def test_state_of_another_stream_is_refused(state):
    other = EpochPredictor(classify_columns(SCHEMA, ["room"]), settings=PredictorSettings())
    with pytest.raises(LearnedStateError, match=r"its key is \['rack'\], and now \['room'\]"):
        restore_learned_state(other, state)


def test_state_of_another_format_is_refused(state):
    with pytest.raises(LearnedStateError, match="its format is 0, and this version reads 1"):
        decode_learned_state(replace(state, about=state.about | {"format": 0}).encode())


def test_predictor_without_output_has_no_state():
    assert learned_state(predictor_of()) is None
    predictor = predictor_of()
    predictor.observe(0, rows(0, []))
    restored = predictor_of()
    restore_learned_state(restored, learned_state(predictor))
    assert (restored.epoch, restored.keys) == (0, 0)
