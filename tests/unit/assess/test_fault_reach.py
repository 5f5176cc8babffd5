"""How far a fault reaches, compared with operators that are computed by hand."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from holdfast.app import App, last_epochs, last_rows
from holdfast.assess.fault_reach import EpochSeqs, GoldenIndex, find_fault_path, reach_of
from holdfast.assess.keyed_seqs import NEVER, KeyedSeqs
from holdfast.assess.operator_shape import Shape
from holdfast.documents.fault import Divergence, Loss

N = 2


def moving_sum(keep, scope="rows"):
    """A filter, a sum over the last rows of a key, and a sink."""
    app = App("sums")
    source = app.source("s", "seq long, k int")
    kept = app.operator(inputs=source, name="filter")(lambda rows: rows)
    app.sink("out", app.operator(inputs=kept, keep=keep, name="sum")(lambda rows: rows))
    return app.graph(), {"filter": Shape("tuple", ()), "sum": Shape(scope, (("k",),))}


def ground_of(graph, shapes, keys, seqs, ends=(10**9,), base=0):
    rows = KeyedSeqs.of(keys, seqs, span=int(seqs.max()) + 1 - base, base=base)
    owner = np.arange(int(keys.max()) + 1)
    return GoldenIndex(
        graph=graph,
        shapes=shapes,
        rows=rows,
        kept_rows={("filter", ("k",)): (rows, owner)},
        seqs={"s": rows, "filter": rows},
        epochs=EpochSeqs(np.array(ends)),
        keys=len(owner),
        jitter=0,
    )


def outputs(rows, lost=frozenset()):
    """What the sum puts out: for each row the sum of it and the N rows of its key before it."""
    result, past = {}, {}
    for seq, key in rows:
        if seq not in lost:
            past.setdefault(key, []).append(seq)
            result[seq] = sum(past[key][-N - 1 :])
    return result


@given(st.lists(st.integers(0, 2), min_size=4, max_size=40), st.data())
def test_reach_covers_all_changed_output_and_needed_rows(keys, data):
    base = data.draw(st.sampled_from([0, 1_700_000_000_000_000_000]))
    rows = list(enumerate(keys, start=base))
    first = base + data.draw(st.integers(0, len(rows) - 1))
    last = data.draw(st.integers(first, base + len(rows) - 1))
    graph, shapes = moving_sum(last_rows(N, by="k"))
    fault = Loss(target=("filter",), offset=0, tuples=1)
    fault_path = find_fault_path(graph, shapes, fault, "out")
    golden_index = ground_of(graph, shapes, np.array(keys), base + np.arange(len(keys)), base=base)
    reach = reach_of(golden_index, fault_path, first, last, sink="out")
    lost = set(range(first, last + 1))
    golden, faulty = outputs(rows), outputs(rows, lost)
    inside = {seq for seq, key in rows for at, k in enumerate(reach.keys) if k == key and reach.first[at] <= seq <= reach.last[at]}
    differs = {seq for seq in golden if golden[seq] != faulty.get(seq)}
    assert differs <= inside
    start, stop = reach.needs["filter"]
    for at, k in enumerate(reach.keys):
        few = [(seq, key) for seq, key in rows if key == k and start[at] <= seq <= stop[at]]
        lines = outputs(few, lost)
        for seq, key in rows:
            if key == k and reach.first[at] <= seq <= reach.last[at]:
                assert lines.get(seq) == faulty.get(seq)


def test_key_without_further_rows_never_recovers():
    graph, shapes = moving_sum(last_rows(N, by="k"))
    fault_path = find_fault_path(graph, shapes, Loss(target=("s",), offset=0, tuples=1), "out")
    reach = reach_of(ground_of(graph, shapes, np.array([0, 0, 0]), np.arange(3)), fault_path, 1, 1, sink="out")
    assert reach.last.tolist() == [int(NEVER)]


def test_loss_moves_behind_operators_of_single_tuples():
    graph, shapes = moving_sum(last_rows(N, by="k"))
    fault_path = find_fault_path(graph, shapes, Loss(target=("s",), offset=0, tuples=1), "out")
    assert fault_path.edges == {"filter": ("sum",)}
    assert fault_path.operators == {"sum"}
    assert fault_path.inputs == ("filter",)


def test_divergence_does_not_move_behind_filters():
    graph, shapes = moving_sum(last_rows(N, by="k"))
    fault_path = find_fault_path(graph, shapes, Divergence(target=("s",), offset=0, tuples=1), "out")
    assert fault_path.edges == {"s": ("filter",)}
    assert fault_path.operators == {"filter", "sum"}


def test_window_of_epochs_extends_reach_and_needs():
    graph, shapes = moving_sum(last_epochs(2), scope="epoch")
    fault_path = find_fault_path(graph, shapes, Loss(target=("filter",), offset=0, tuples=1), "out")
    seqs = np.arange(100)
    golden_index = ground_of(graph, shapes, np.zeros(100, np.int64), seqs, ends=tuple(range(9, 100, 10)))
    reach = reach_of(golden_index, fault_path, 45, 46, sink="out")
    assert (reach.first.tolist(), reach.last.tolist()) == ([40], [69])
    assert [part.tolist() for part in reach.needs["filter"]] == [[20], [69]]


def test_output_fault_of_a_group_affects_its_readers():
    graph, shapes = moving_sum(last_rows(N, by="k"))
    fault_path = find_fault_path(graph, shapes, Loss(target=("s", "filter", "sum"), offset=0, tuples=1, side="output"), "out")
    assert fault_path.edges == {"sum": ("out",)}
    assert fault_path.inputs == ("sum",)
