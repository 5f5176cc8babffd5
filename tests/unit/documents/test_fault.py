"""Faults are values: checked when made, and the same after a round trip through JSON."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.documents.fault import KINDS, Divergence, Duplication, Loss, Reordering, fault_from_document
from holdfast.errors import HoldfastError

common = st.fixed_dictionaries(
    {
        "target": st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, unique=True).map(tuple),
        "offset": st.integers(0, 10**9),
        "tuples": st.integers(1, 10**6),
        "side": st.sampled_from(["input", "output"]),
        "seed": st.integers(0, 2**31),
    }
)


@given(st.sampled_from(sorted(KINDS)), common)
def test_every_kind_survives_a_round_trip_through_json(kind, values):
    fault = KINDS[kind](**values)
    assert fault_from_document(json.loads(json.dumps(fault.document()))) == fault


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Loss(target=(), offset=0, tuples=1), "a loss fault needs a target"),
        (lambda: Loss(target=("a",), offset=-1, tuples=1), "at least 0 source tuples, got -1"),
        (lambda: Loss(target=("a",), offset=0, tuples=0), "at least 1 tuple, got 0"),
        (lambda: Loss(target=("a",), offset=0, tuples=1, side="middle"), "'input' or the 'output' of its target, got 'middle'"),
        (lambda: Duplication(target=("a",), offset=0, tuples=1, share=0), "above 0 and up to 1, got 0"),
        (lambda: Reordering(target=("a",), offset=0, tuples=1, distance=0), "at least 1, got 0"),
        (lambda: Divergence(target=("a",), offset=0, tuples=1, size=0), "a finite size above 0"),
        (
            lambda: fault_from_document({"kind": "crash"}),
            "unknown kind 'crash'; kinds are: divergence, duplication, loss, reordering",
        ),
        (lambda: fault_from_document({"kind": "loss", "target": ["a"], "offset": 1}), "needs 'tuples'"),
        (lambda: fault_from_document({"kind": "loss", "target": ["a"], "offset": 1, "tuples": 1, "size": 2}), "has no 'size'"),
    ],
)
def test_invalid_fault_is_rejected_with_the_reason(make, message):
    with pytest.raises(HoldfastError, match=message):
        make()
