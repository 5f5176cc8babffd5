"""Random topologies: what was asked for, and the same again for the same seed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.documents.topology import Topology
from holdfast.errors import HoldfastError
from holdfast_papers.ppa.generator import Ranges, corpus, generate

ranges = st.builds(
    Ranges,
    operators=st.tuples(st.integers(1, 5), st.integers(5, 10)),
    parallelism=st.tuples(st.integers(1, 5), st.integers(5, 20)),
    kind=st.sampled_from(["general", "structured", "full"]),
    zipf=st.floats(0, 2),
    joins=st.floats(0, 1),
    forks=st.floats(0, 1),
)


@given(seed=st.integers(0, 10**6), ranges=ranges)
def test_topologies_are_within_their_ranges(seed, ranges):
    t = generate(np.random.default_rng(seed), ranges=ranges)
    assert not list(t.errors())
    assert ranges.operators[0] <= len(t.operators) <= ranges.operators[1]
    assert all(ranges.parallelism[0] <= o.parallelism <= ranges.parallelism[1] for o in t.operators.values())
    assert len(t.sinks) == 1
    kinds = {p for o in t.operators.values() for p in o.inputs.values()}
    if ranges.kind == "full":
        assert kinds <= {"full"}
    if ranges.kind == "structured":
        assert "full" not in kinds


def test_corpus_depends_only_on_seed_and_number():
    assert list(corpus(4, 5)) == list(corpus(4, 5))
    assert list(corpus(4, 5))[:3] == list(corpus(4, 3))
    assert list(corpus(4, 3)) != list(corpus(5, 3))


def test_joins_change_nothing_else():
    for without, with_joins in zip(corpus(1, 20, ranges=Ranges(joins=0)), corpus(1, 20, ranges=Ranges(joins=1)), strict=True):
        assert not any(o.correlated for o in without.operators.values())
        assert all(o.correlated == (len(o.inputs) > 1) for o in with_joins.operators.values())
        assert _unjoined(without) == _unjoined(with_joins)


def _unjoined(t: Topology) -> dict[str, object]:
    return {name: o.model_copy(update={"correlated": False}) for name, o in t.operators.items()}


def test_zipf_shares_are_in_random_order():
    shares = [o.shares for t in corpus(1, 20, ranges=Ranges(zipf=1.0)) for o in t.operators.values()]
    assert all(min(s) == pytest.approx(1 / len(s)) and max(s) == 1 for s in shares if s)
    assert any(s[0] != max(s) for s in shares if s)


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"operators": (5, 4)}, "range 'operators' wants 1 <= low <= high, got 5 to 4"),
        ({"joins": 1.5}, "share 'joins' must lie between 0 and 1, got 1.5"),
        ({"zipf": -1.0}, "wanted zipf >= 0 and most_inputs >= 1, got -1 and 2"),
    ],
)
def test_invalid_ranges_are_errors(wrong, text):
    with pytest.raises(HoldfastError, match=text):
        Ranges(**wrong)


def test_oversized_ranges_are_errors():
    with pytest.raises(HoldfastError, match="at most 150 operators and 100000 tasks, got up to 200 operators of 10 tasks"):
        Ranges(operators=(5, 200))
