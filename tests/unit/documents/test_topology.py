"""Task topologies: documents, rates, groups, and every mistake at once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.documents.document import document_text, parse_document, read_document
from holdfast.documents.topology import TaskOperator, Topology
from holdfast.errors import DocumentError

GOOD = """
topology: traffic
operators:
  locations: {parallelism: 4, rate: 100, zipf: 1.0}
  speeds: {parallelism: 2, inputs: {locations: merge}, selectivity: 0.5}
  alerts: {parallelism: 4, inputs: {speeds: split}, shares: [3, 1, 1, 1]}
"""


def topology(text: str) -> Topology:
    return parse_document(text, Topology, thing="t.yaml")


def test_rates_follow_shares_groups_and_selectivity():
    t = topology(GOOD)
    assert t.order == ("locations", "speeds", "alerts")
    assert t.rates.tolist() == pytest.approx([48, 24, 16, 12, 36, 14, 27, 9, 7, 7])
    assert t.input_rates[4:6].tolist() == pytest.approx([72, 28])


def test_substream_rates_sum_to_the_emitted_rates():
    t = topology(GOOD)
    assert list(t.substreams("speeds", "alerts")) == [
        ("speeds/0", "alerts/0", pytest.approx(27)),
        ("speeds/0", "alerts/1", pytest.approx(9)),
        ("speeds/1", "alerts/2", pytest.approx(7)),
        ("speeds/1", "alerts/3", pytest.approx(7)),
    ]


@given(n1=st.integers(1, 12), n2=st.integers(1, 12), seed=st.integers(0, 10**6))
def test_partitioning_preserves_the_total_rate(n1, n2, seed):
    rng = np.random.default_rng(seed)
    fits = ["full"] + ["one-to-one"] * (n1 == n2) + ["split"] * (n2 >= 2 * n1) + ["merge"] * (n1 >= 2 * n2)
    for partitioning in fits:
        t = Topology(
            topology="t",
            operators={
                "a": TaskOperator(parallelism=n1, rates=tuple(rng.uniform(0, 5, n1))),
                "b": TaskOperator(parallelism=n2, inputs={"a": partitioning}, zipf=0.7),
            },
        )
        out, into = dict.fromkeys(t.tasks, 0.0), dict.fromkeys(t.tasks, 0.0)
        readers: dict[str, set[str]] = {}
        for a, b, rate in t.substreams("a", "b"):
            out[a] += rate
            into[b] += rate
            readers.setdefault(a, set()).add(b)
        assert [out[f"a/{i}"] for i in range(n1)] == pytest.approx(t.rates[:n1].tolist())
        assert [into[f"b/{i}"] for i in range(n2)] == pytest.approx(t.input_rates[n1:].tolist())
        wanted = {"full": (n2, n2), "one-to-one": (1, 1), "merge": (1, 1), "split": (2, n2)}[partitioning]
        assert all(wanted[0] <= len(streams) <= wanted[1] for streams in readers.values())


def test_all_errors_are_reported_with_their_places():
    with pytest.raises(DocumentError) as caught:
        topology("""
topology: broken
operators:
  a: {parallelism: 4, rate: -5}
  b: {parallelism: 3, inputs: {a: one-to-one, nowhere: full}}
  c: {parallelism: 0, inputs: {b: full, d: full}}
  d: {inputs: {c: full}, rates: [1, 2], zipf: 1, shares: [1]}
  e: {parallelism: 6, inputs: {a: split}}
  f: {parallelism: 3, inputs: {a: merge}}
  g: {correlated: true, rate: 1, selectivity: 2}
""")
    assert list(caught.value.errors) == [
        "operators.a.rate (line 4): wanted a number of at least 0, got -5.0",
        "operators.b.inputs.a (line 5): is one-to-one, which requires as many tasks on both sides; "
        "got parallelism 4 of 'a' and 3 of 'b'",
        "operators.b.inputs.nowhere (line 5): reads operator 'nowhere', which does not exist; operators are: a, b, c, d, e, f, g",
        "operators.c.parallelism (line 6): wanted a whole number of at least 1, got 0",
        "operators.d.rates (line 7): wanted one number per task (1), got 2",
        "operators.d (line 7): gives zipf and shares; give one of them",
        "operators.e.inputs.a (line 8): is split, which requires at least two tasks of 'e' for each of 'a'; "
        "got parallelism 4 of 'a' and 6 of 'e'",
        "operators.f.inputs.a (line 9): is merge, which requires at least two tasks of 'a' for each of 'f'; "
        "got parallelism 4 of 'a' and 3 of 'f'",
        "operators.g (line 10): gives rate and selectivity; give one of them",
        "operators.g.correlated (line 10): is true, but the operator has no inputs to join",
        "operators (line 3): form a cycle: c -> d -> c; a topology has none",
    ]


def test_source_needs_a_rate():
    with pytest.raises(DocumentError, match=r"operators.a .*: has no inputs, so it is a source; give its rate"):
        topology("topology: t\noperators:\n  a: {parallelism: 2}\n")


def test_operator_that_reads_itself_is_a_cycle():
    with pytest.raises(DocumentError, match="form a cycle: a -> a"):
        topology("topology: t\noperators:\n  a: {inputs: {a: full}}\n")


def test_too_many_tasks_are_rejected_early():
    with pytest.raises(DocumentError, match="wanted at most 100000 tasks, got 1000000000"):
        topology("topology: t\noperators:\n  a: {parallelism: 1000000000, rate: 1}\n")


def test_too_long_chain_is_rejected():
    rows = "".join(f"  o{i}: {{inputs: {{o{i - 1}: full}}}}\n" for i in range(1, 200))
    with pytest.raises(DocumentError, match="wanted at most 150 operators in a row, got 200"):
        topology(f"topology: t\noperators:\n  o0: {{rate: 1}}\n{rows}")


def test_topology_survives_writing_and_reading(tmp_path):
    t = topology(GOOD)
    path = tmp_path / "t.json"
    path.write_text(document_text(t, json_text=True))
    assert read_document(path, Topology) == t


def test_group_with_zero_rates_is_divided_equally():
    t = Topology(
        topology="idle",
        operators={"a": TaskOperator(parallelism=2, rates=(0.0, 0.0)), "b": TaskOperator(inputs={"a": "full"})},
    )
    assert t.streams[1][0].weights.tolist() == [0.5, 0.5]


def test_ties_are_ranked_by_operator_name_and_then_by_index():
    t = Topology(
        topology="t",
        operators={
            "z": TaskOperator(parallelism=12, rate=1.0),
            "a": TaskOperator(parallelism=1, inputs={"z": "full"}),
        },
    )
    assert [t.tasks[i] for i in np.argsort(t.rank)] == ["a/0", *(f"z/{i}" for i in range(12))]
