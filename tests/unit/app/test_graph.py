"""Questions about an application's graph."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.app import App, Graph
from holdfast.errors import ApplicationError

SCHEMA = "seq long, k int"


def graph_of(edges: dict[str, list[str]], *, sources: tuple[str, ...] = ("s",), pes: dict[str, str] | None = None) -> Graph:
    """The graph of operators and what each reads; every stream that nothing reads goes to a sink of its name in capitals."""
    app = App("graph")
    for source in sources:
        app.source(source, SCHEMA)
    for name, reads in edges.items():
        app.operator(inputs=reads, name=name, pe=(pes or {}).get(name))(lambda *rows: rows[0])
    read = {stream for reads in edges.values() for stream in reads}
    for name in [*sources, *edges]:
        if name not in read:
            app.sink(name.upper(), name)
    return app.graph()


DIAMOND = {"left": ["s"], "right": ["s"], "join": ["left", "right"]}


def test_order_is_topological_with_ties_by_name():
    graph = graph_of({"z": ["s"], "b": ["s"], "a": ["z"]})
    assert graph.order == ("s", "b", "B", "z", "a", "A")


def test_sources_operators_and_sinks_are_in_order():
    graph = graph_of({"z": ["s"], "b": ["t"]}, sources=("t", "s"))
    assert [node.name for node in graph.sources] == ["s", "t"]
    assert [node.name for node in graph.operators] == ["b", "z"]
    assert [node.name for node in graph.sinks] == ["B", "Z"]


def test_predecessors_are_in_the_order_of_the_inputs():
    graph = graph_of({"a": ["s"], "b": ["s"], "join": ["b", "a"]})
    assert graph.predecessors("join") == ("b", "a")
    assert graph.predecessors("s") == ()
    assert graph.predecessors("JOIN") == ("join",)


def test_successors_are_the_readers_sinks_included():
    app = App("graph")
    s = app.source("s", SCHEMA)
    a = app.operator(inputs=s, name="a")(lambda rows: rows)
    app.sink("out", a)
    app.sink("raw", s)
    graph = app.graph()
    assert graph.successors("s") == ("a", "raw")
    assert graph.successors("a") == ("out",)
    assert graph.successors("out") == ()


def test_upstream_and_downstream_exclude_the_node():
    graph = graph_of(DIAMOND)
    assert graph.upstream("join") == {"left", "right", "s"}
    assert graph.upstream("left") == {"s"}
    assert graph.downstream("s") == {"left", "right", "join", "JOIN"}
    assert graph.downstream("JOIN") == frozenset()


def test_part_has_its_own_sources_sinks_and_streams():
    graph = graph_of({"a": ["s"], "b": ["a", "t"], "c": ["b"], "d": ["b"]}, sources=("s", "t"))
    part = ["d", "b"]
    assert graph.sources_of(part) == ("b",)
    assert graph.sinks_of(part) == ("d",)
    assert graph.streams_into(part) == ("a", "t")
    assert graph.streams_out_of(part) == ("b", "d")


def test_part_of_separate_operators_has_several_sources_and_sinks():
    graph = graph_of(DIAMOND)
    assert graph.sources_of({"left", "right"}) == ("left", "right")
    assert graph.sinks_of({"left", "right"}) == ("left", "right")
    assert graph.streams_into({"left", "right"}) == ("s",)
    assert graph.streams_into(["join"]) == ("left", "right")
    assert graph.streams_out_of(["left", "join"]) == ("join",)


def test_fused_operators_share_a_pe():
    graph = graph_of({"a": ["s"], "b": ["a"], "c": ["b"]}, pes={"a": "front", "b": "front"})
    assert graph.pes == {"front": ("a", "b"), "c": ("c",)}


def test_pes_come_after_the_pes_they_wait_for():
    graph = graph_of({"a": ["s"], "y": ["s"], "z": ["a", "y"]}, pes={"a": "p", "z": "p"})
    assert list(graph.pes) == ["y", "p"]
    assert graph.pes["p"] == ("a", "z")


@pytest.mark.parametrize(
    ("upstream", "reader", "key", "expected"),
    [(1, 1, "k", "one-to-one"), (2, 2, "k", "one-to-one"), (2, 2, "j", "full"), (2, 4, "k", "full"), (4, 1, "k", "full")],
)
def test_default_partitioning_follows_from_tasks_and_keys(upstream, reader, key, expected):
    app = App("graph")
    s = app.source("s", "seq long, k int, j int", key="k", parallelism=upstream)
    app.sink("out", app.operator(inputs=s, key=key, parallelism=reader, name="a")(lambda rows: rows))
    assert app.graph().partitioning("s", "a") == expected


@pytest.mark.parametrize(("upstream", "reader", "kind"), [(2, 4, "split"), (4, 2, "merge"), (2, 2, "full"), (3, 3, "one-to-one")])
def test_declared_partitioning_is_used(upstream, reader, kind):
    app = App("graph")
    s = app.source("s", SCHEMA, key="k", parallelism=upstream)
    app.sink("out", app.operator(inputs=s, key="k", parallelism=reader, partitioning=kind, name="a")(lambda rows: rows))
    assert app.graph().partitioning("s", "a") == kind


def test_operator_rejects_the_name_of_another_node():
    with pytest.raises(AssertionError, match="'s' is not an operator"):
        graph_of(DIAMOND).operator("s")


@st.composite
def dags(draw):
    count = draw(st.integers(1, 7))
    names = draw(st.permutations([f"n{i}" for i in range(count)]))
    edges = {}
    for place, name in enumerate(names):
        edges[name] = draw(st.lists(st.sampled_from(["s", *names[:place]]), min_size=1, max_size=3, unique=True))
    fused = {name: draw(st.sampled_from(["p", "q", "r"])) for name in names if draw(st.booleans())}
    return edges, fused


@given(dags())
def test_order_of_any_graph_is_topological(drawn):
    edges, _ = drawn
    graph = graph_of(edges)
    place = {name: i for i, name in enumerate(graph.order)}
    assert len(place) == len(graph.nodes)
    for name in graph.order:
        assert all(place[stream] < place[name] for stream in graph.predecessors(name))
        assert all(name in graph.predecessors(reader) for reader in graph.successors(name))
        assert graph.upstream(name) == {other for other in graph.order if name in graph.downstream(other)}


@given(dags())
def test_accepted_fusion_can_run_pe_by_pe(drawn):
    edges, fused = drawn
    try:
        graph = graph_of(edges, pes=fused)
    except ApplicationError as error:
        assert "PE" in str(error)
        return
    there = {"s"}
    for part in graph.pes.values():
        assert set(graph.streams_into(part)) <= there
        there |= set(part)
    assert there == {"s", *edges}


@given(dags())
def test_rejected_fusion_has_no_valid_order(drawn):
    edges, fused = drawn
    home = {name: fused.get(name, name) for name in edges}
    waits = {pe: {home[r] for n in edges if home[n] == pe for r in edges[n] if r != "s"} - {pe} for pe in home.values()}
    done: set[str] = set()
    while ready := {pe for pe in waits if pe not in done and waits[pe] <= done}:
        done |= ready
    try:
        graph_of(edges, pes=fused)
        accepted = True
    except ApplicationError:
        accepted = False
    assert accepted == (done == set(waits))
