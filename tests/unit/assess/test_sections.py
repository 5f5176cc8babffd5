"""Which section a seq belongs to."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.assess.sections import Sections
from holdfast.errors import HoldfastError


@given(st.integers(0, 1 << 60), st.integers(0, 10_000), st.integers(1, 6000))
def test_every_seq_has_a_section(first, more, length):
    cut = Sections.over(first, first + more, length=length)
    result = cut.of(first + np.arange(more + 1))
    assert result[0] == 0 and result[-1] == cut.count - 1
    assert set(np.diff(result)) <= {0, 1}
    assert cut.of(first + more) == result[-1]


def test_sections_begin_at_multiples_of_their_length():
    assert Sections.over(7, 42, length=10) == Sections(10, 0, 5)
    assert Sections.over(27, 42, length=10) == Sections(10, 20, 3)


def test_too_many_sections_are_rejected_with_a_better_length():
    with pytest.raises(
        HoldfastError, match=r"170,000,000,001 sections of .*, but there may be at most 10,000,000; give longer ones with --section"
    ):
        Sections.over(0, 1_700_000_000_000, length=10)
