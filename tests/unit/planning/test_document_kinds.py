"""The kinds of planning documents: how they are recognised, and that all errors of a document are reported."""

import pytest

from holdfast.documents.descriptor import Descriptor
from holdfast.documents.topology import Topology
from holdfast.errors import DocumentError
from holdfast.planning.document_kinds import DESCRIPTOR, PLAN, STRATEGY, TOPOLOGY, kind_of, read_kind
from holdfast.planning.laar import Strategy
from holdfast.planning.ppa import PlanDocument, read_impact

LANES = "topology: lanes\noperators:\n  a: {parallelism: 2, rate: 1}\n  b: {inputs: {a: full}}\n"


@pytest.fixture
def errors(tmp_path):
    def found(text: str, model, *, wanted) -> list[str]:
        path = tmp_path / "document.yaml"
        path.write_text(text)
        with pytest.raises(DocumentError) as caught:
            read_kind(path, model, kinds=[wanted])
        return list(caught.value.errors)

    return found


def test_wrong_type_hides_no_other_error(errors):
    text = """topology: t
operators:
  a: {parallelism: two, rate: -1}
  b: {inputs: {a: full, z: full}}
  c: {inputs: {d: full}}
  d: {inputs: {c: full}}
"""
    assert errors(text, Topology, wanted=TOPOLOGY) == [
        'operators.a.parallelism (line 3): wanted a whole number, got "two"',
        "operators.a.rate (line 3): wanted a number of at least 0, got -1.0",
        "operators.b.inputs.z (line 4): reads operator 'z', which does not exist; operators are: a, b, c, d",
        "operators (line 2): form a cycle: c -> d -> c; a topology has none",
    ]


def test_missing_part_neither_hides_nor_causes_other_errors(errors):
    text = """application: x
sources: {s: {rates: [{name: lo, rate: 1, probability: 0.7}, {name: hi, rate: 1, probability: 0.5}]}}
sinks: {k: {inputs: [p]}}
nodes: {h: {cores: -3}}
"""
    assert errors(text, Descriptor, wanted=DESCRIPTOR) == [
        "pes (line 1): is missing",
        "sources.s.rates (line 2): wanted probabilities that sum to 1, got 1.2",
        "nodes.h.cores (line 4): wanted a number above 0, got -3.0",
    ]


DESCRIBED = """application: x
sources: {{s: {{rates: [{{name: only, rate: {rate}, probability: {probability}}}]}}}}
pes: {{p: {{inputs: {{s: {{selectivity: 1, cost: 1}}}}}}}}
sinks: {{k: {{inputs: [p]}}}}
nodes: {{h1: {{}}, h2: {{}}}}
replicas: {replicas}
placement: {{p: [h1, h2]}}
"""


def test_number_out_of_range_causes_one_error(errors):
    text = DESCRIBED.format(rate=1, probability=1.5, replicas=0)
    assert errors(text, Descriptor, wanted=DESCRIPTOR) == [
        "sources.s.rates[0].probability (line 2): wanted a number from 0 to 1, got 1.5",
        "replicas (line 6): wanted a whole number of at least 1, got 0",
    ]


@pytest.mark.parametrize(("written", "shown"), [(".inf", "infinity"), ("-.inf", "minus infinity"), (".nan", "NaN")])
def test_nan_and_infinity_are_errors(errors, written, shown):
    text = DESCRIBED.format(rate=written, probability=1, replicas=2)
    assert errors(text, Descriptor, wanted=DESCRIPTOR) == [f"sources.s.rates[0].rate (line 2): wanted a finite number, got {shown}"]


def test_wrong_kind_of_document_is_one_error(errors):
    assert errors(LANES, Descriptor, wanted=DESCRIPTOR) == [
        "is a task topology, not an application descriptor; give an application descriptor"
    ]
    assert errors(LANES, PlanDocument, wanted=PLAN) == ["is a task topology, not a plan; give a plan"]
    assert errors("some: thing\n", Strategy, wanted=STRATEGY) == [
        "is not a strategy, which has the fields application, configurations, internal_completeness, outcome, sla, solver; "
        "give a strategy"
    ]


def test_kind_is_recognised_with_missing_fields(tmp_path):
    path = tmp_path / "d.yaml"
    path.write_text("pes: {}\nsources: {}\n")
    assert kind_of(path) is DESCRIPTOR
    path.write_text("a: 1\n")
    assert kind_of(path) is None


def test_names_with_line_breaks_are_errors(errors):
    text = LANES.replace("topology: lanes", 'topology: "la\\nnes"').replace("  b:", '  "b\\tb":')
    assert errors(text, Topology, wanted=TOPOLOGY) == [
        "topology (line 1): wanted text without line breaks and control characters, got 'la\\nnes'",
        "operators.b\\tb (line 4): wanted a name without line breaks and control characters",
    ]


def test_strategy_without_replicas_is_one_error(errors):
    text = """application: x
solver: given
outcome: SOL
sla: 0.5
internal_completeness: 0.5
cost: 1
billing_period_s: 1
replicas: 0
placement: {p: [h1, h2]}
configurations: [{name: only, rates: {s: 1}, probability: 1, active: {p: [0]}}]
"""
    assert errors(text, Strategy, wanted=STRATEGY) == ["replicas (line 8): wanted a whole number of at least 1, got 0"]


def test_wrong_and_missing_impacts_are_reported_together(tmp_path):
    topology, impact = tmp_path / "t.yaml", tmp_path / "i.yaml"
    topology.write_text(LANES)
    impact.write_text("impact:\n  a: -1\n  c: much\n")
    with pytest.raises(DocumentError) as caught:
        read_impact(impact, topology=read_kind(topology, Topology, kinds=[TOPOLOGY]))
    assert list(caught.value.errors) == [
        'impact.c (line 3): wanted a number, got "much"',
        "impact.a (line 2): wanted a number of at least 0, got -1.0",
        "gives no quality impact of operator 'b' of topology 'lanes'",
        "impact.c (line 3): 'c' is not an operator of topology 'lanes'; operators are: a, b",
    ]
