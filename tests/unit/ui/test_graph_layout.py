"""Where the tasks of a graph go on the page."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from holdfast.ui.graph_layout import arrange


@st.composite
def graphs(draw):
    names = [f"t{k}" for k in range(draw(st.integers(1, 14)))]
    pairs = st.tuples(st.integers(0, len(names) - 1), st.integers(0, len(names) - 1))
    drawn = draw(st.lists(pairs, max_size=30))
    return names, [(names[min(a, b)], names[max(a, b)]) for a, b in drawn if a != b]


@given(graphs())
def test_every_edge_runs_along_the_flow_and_no_two_tasks_touch(graph):
    names, edges = graph
    arranged = arrange(names, edges)
    for a, b in edges:
        assert arranged.places[a][0] < arranged.places[b][0]
        way = [arranged.places[a], *arranged.routes[a, b], arranged.places[b]]
        assert [x for x, _ in way] == list(range(int(way[0][0]), int(way[-1][0]) + 1))
    layers = {}
    for x, y in arranged.places.values():
        layers.setdefault(x, []).append(y)
    assert all(later - earlier > 0.99 for layer in layers.values() for earlier, later in pairwise(sorted(layer)))
    assert min(y for _, y in arranged.places.values()) >= 0


@given(graphs())
def test_the_same_graph_is_drawn_the_same_way(graph):
    names, edges = graph
    assert arrange(names, edges) == arrange(names, list(reversed(edges)))


def test_a_chain_is_straight_and_what_reads_two_stands_between_them():
    arranged = arrange(["a", "b", "c", "d", "e"], [("a", "c"), ("b", "d"), ("c", "e"), ("d", "e")])
    assert arranged.places["a"][1] == arranged.places["c"][1]
    assert arranged.places["e"][1] == (arranged.places["c"][1] + arranged.places["d"][1]) / 2


def test_a_circle_and_an_edge_to_nowhere_do_no_harm():
    arranged = arrange(["a", "b"], [("a", "b"), ("b", "a"), ("a", "gone")])
    assert set(arranged.places) == {"a", "b"}
    assert arrange([], []).size == (0.0, 0.0)
