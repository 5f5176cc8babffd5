"""Outcomes of trials: differences from the golden run."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from holdfast.assess.outcome import difference


@given(st.lists(st.floats(-100, 100), min_size=1, max_size=8), st.data())
def test_outcome_applied_to_golden_gives_the_faulty_run(golden, data):
    faulty = data.draw(st.lists(st.floats(-100, 100), min_size=len(golden), max_size=len(golden)))
    one, other = {"n": np.array(golden)}, {"n": np.array(faulty)}
    assert np.allclose(difference(other, one).applied(one)["n"], other["n"], atol=1e-6)


def test_section_with_rows_only_in_the_faulty_run_is_kept():
    golden = {"max(x)": np.array([np.nan, 4.0, np.nan]), "n": np.array([0.0, 2.0, 5.0])}
    faulty = {"max(x)": np.array([7.0, np.nan, np.nan]), "n": np.array([1.0, 0.0, 6.0])}
    applied = difference(faulty, golden).applied(golden)
    assert np.array_equal(applied["max(x)"], [7.0, 0.0, np.nan], equal_nan=True)
    assert applied["n"].tolist() == [1.0, 0.0, 6.0]


def test_rounding_differences_are_ignored():
    assert len(difference({"n": np.array([0.1 + 0.2])}, {"n": np.array([0.3])}).sections) == 0
