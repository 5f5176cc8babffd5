"""Generated applications are what sections 4.5 and 5.2 describe."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.documents.document import document_text, parse_document
from holdfast.errors import HoldfastError
from holdfast.planning.laar import Instance, node_load
from holdfast_papers.laar.generator import Ranges, corpus, generate


@given(st.integers(0, 2**32))
@settings(deadline=None, max_examples=30)
def test_low_fits_with_all_replicas_and_high_overloads(seed):
    descriptor = generate(np.random.default_rng(seed))
    instance = Instance.of(descriptor)
    whole = node_load(instance, np.ones(instance.shape, dtype=bool))
    assert [c.name for c in instance.configurations] == ["low", "high"]
    assert (whole[0] <= instance.limit).all()
    assert (whole[1] > instance.limit).any()
    assert whole[1].max() < 2


@given(st.integers(0, 2**32))
@settings(deadline=None, max_examples=30)
def test_sizes_degrees_and_selectivities_are_in_range(seed):
    descriptor = generate(np.random.default_rng(seed))
    nodes, pes = len(descriptor.nodes), len(descriptor.pes)
    assert 1 <= nodes <= 12
    assert 2 <= pes / nodes <= 12 and pes % nodes == 0
    edges = sum(len(pe.inputs) for pe in descriptor.pes.values())
    most = pes * (pes + 1) / 2
    assert edges >= min(most, 1.4 * (pes + 1) - 1) or edges == pes
    assert edges <= max(pes, 3.0 * (pes + 1) + 1)
    assert all(0.5 <= edge.selectivity <= 1.5 for pe in descriptor.pes.values() for edge in pe.inputs.values())
    low, high = descriptor.sources["source"].rates
    assert 1 <= low.rate < high.rate <= 20


def test_corpus_depends_only_on_seed_and_number():
    first, again = (list(corpus(7, 5)) for _ in range(2))
    assert first == again
    assert first[3] == generate(np.random.default_rng([7, 3]), name="app0003")
    assert len({descriptor.model_dump_json() for descriptor in first}) == 5


def test_generated_descriptor_is_valid():
    descriptor = generate(np.random.default_rng(1))
    assert parse_document(document_text(descriptor, json_text=True), type(descriptor), json_text=True) == descriptor


def test_impossible_ranges_are_errors():
    with pytest.raises(HoldfastError, match="range 'nodes' wants 0 < low <= high, got 3 to 2"):
        Ranges(nodes=(3, 2))
    with pytest.raises(HoldfastError, match=r"'overload' must lie above 1, got 0\.9"):
        Ranges(overload=(0.9, 1.5))
    with pytest.raises(HoldfastError, match="'high_probability' must lie between 0 and 1, got 1"):
        Ranges(high_probability=1.0)
