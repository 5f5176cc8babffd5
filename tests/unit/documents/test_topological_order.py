"""Tests for holdfast.documents.topological_order: every cycle is reported, up to a limit."""

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.documents.descriptor import Descriptor
from holdfast.documents.document import parse_document
from holdfast.documents.topological_order import MAX_CYCLES, find_cycles, sort_topologically
from holdfast.documents.topology import Topology
from holdfast.errors import DocumentError

CYCLES = ("a -> a", "b -> c -> b", "c -> d -> c")


def test_topology_reports_every_cycle():
    text = """
topology: t
operators:
  s: {rate: 1}
  a: {inputs: {a: full, s: full}}
  b: {inputs: {c: full}}
  c: {inputs: {b: full, d: full}}
  d: {inputs: {c: full, s: full}}
"""
    with pytest.raises(DocumentError) as error:
        parse_document(text, Topology)
    reported = [f"form a cycle: {cycle}; a topology has none" in text for cycle in CYCLES for text in error.value.errors]
    assert reported.count(True) == len(CYCLES) == len(error.value.errors)


def test_descriptor_reports_every_cycle():
    edge = "{selectivity: 1, cost: 1}"
    text = f"""
application: t
sources: {{s: {{rates: [{{name: r, rate: 1, probability: 1}}]}}}}
pes:
  a: {{inputs: {{a: {edge}, s: {edge}}}}}
  b: {{inputs: {{c: {edge}}}}}
  c: {{inputs: {{b: {edge}, d: {edge}}}}}
  d: {{inputs: {{c: {edge}, s: {edge}}}}}
sinks: {{out: {{inputs: [d]}}}}
"""
    with pytest.raises(DocumentError) as error:
        parse_document(text, Descriptor)
    reported = [f"form a cycle: {cycle}; an application graph" in text for cycle in CYCLES for text in error.value.errors]
    assert reported.count(True) == len(CYCLES) == len(error.value.errors)


def test_too_many_cycles_are_cut_to_a_limit():
    names = [f"n{i}" for i in range(40)]
    cycles, more = find_cycles({name: [other for other in names if other != name] for name in names})
    assert len(cycles) == MAX_CYCLES and more
    operators = "".join(f"  {name}: {{inputs: {{{', '.join(f'{o}: full' for o in names)}}}}}\n" for name in names)
    with pytest.raises(DocumentError, match="form more cycles besides these 40; a topology has none"):
        parse_document(f"topology: t\noperators:\n{operators}", Topology)


@given(st.dictionaries(st.sampled_from("abcd"), st.frozensets(st.sampled_from("abcdx"))))
def test_cycles_equal_those_of_an_exhaustive_walk(waits):
    ways = [way for n in range(1, 5) for way in permutations(sorted(waits), n) if way[0] == min(way)]
    walked = [[*way, way[0]] for way in ways if all(up in waits[name] for up, name in zip(way, (*way[1:], way[0]), strict=True))]
    cycles, more = find_cycles(waits)
    assert cycles == sorted(walked, key=lambda path: (len(path), path)) or (more and all(path in walked for path in cycles))
    assert bool(cycles) == bool(sort_topologically(waits)[1])
