"""The layout of a graph on the page."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from holdfast.ui.graph_layout import arrange


@st.composite
def graphs(draw):
    names = [f"t{k}" for k in range(draw(st.integers(1, 14)))]
    pairs = st.tuples(st.integers(0, len(names) - 1), st.integers(0, len(names) - 1))
    pairs_drawn = draw(st.lists(pairs, max_size=30))
    return names, [(names[min(a, b)], names[max(a, b)]) for a, b in pairs_drawn if a != b]


@given(graphs())
def test_edges_follow_the_flow_and_tasks_do_not_touch(graph):
    names, edges = graph
    arrangement = arrange(names, edges)
    for a, b in edges:
        assert arrangement.points[a][0] < arrangement.points[b][0]
        path = [arrangement.points[a], *arrangement.routes[a, b], arrangement.points[b]]
        assert [x for x, _ in path] == list(range(int(path[0][0]), int(path[-1][0]) + 1))
    layers = {}
    for x, y in arrangement.points.values():
        layers.setdefault(x, []).append(y)
    assert all(later - earlier > 0.99 for layer in layers.values() for earlier, later in pairwise(sorted(layer)))
    assert min(y for _, y in arrangement.points.values()) >= 0


@given(graphs())
def test_layout_is_deterministic(graph):
    names, edges = graph
    assert arrange(names, edges) == arrange(names, list(reversed(edges)))


def test_chain_is_straight_and_reader_of_two_is_centred():
    arrangement = arrange(["a", "b", "c", "d", "e"], [("a", "c"), ("b", "d"), ("c", "e"), ("d", "e")])
    assert arrangement.points["a"][1] == arrangement.points["c"][1]
    assert arrangement.points["e"][1] == (arrangement.points["c"][1] + arrangement.points["d"][1]) / 2


def test_cycles_and_edges_to_unknown_nodes_are_ignored():
    arrangement = arrange(["a", "b"], [("a", "b"), ("b", "a"), ("a", "unknown")])
    assert set(arrangement.points) == {"a", "b"}
    assert arrange([], []).size == (0.0, 0.0)
