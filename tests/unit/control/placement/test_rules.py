"""Placement rules: separate nodes and racks, evenly filled nodes, and clear errors without room."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.control.placement.rules import CapacityIndex, NoCapacity, NodeCapacity, place, place_replica
from holdfast.documents.job import NO_NEED, Layout, Need, Task


def node(
    name: str,
    *,
    rack: str = "",
    slots: int = 10,
    used: int = 0,
    host_kind: str = "light",
    cores: float = 1.0,
    holds: tuple[Need, ...] = (),
) -> NodeCapacity:
    return NodeCapacity(name, host_kind, rack, cores, slots, memory_mib=1024, holds=(*holds, *[NO_NEED] * used))


def layout(**replicas: int) -> Layout:
    return Layout(application="a", tasks=tuple(Task(pe=pe, replicas=count) for pe, count in replicas.items()))


def test_replicas_of_a_task_go_to_different_racks():
    nodes = [node("a1", rack="a"), node("a2", rack="a"), node("b1", rack="b", used=5)]
    assert place(layout(x=2), nodes, host_kind="light") == {"x/0": ("a1", "b1")}


def test_replicas_in_one_rack_go_to_different_nodes():
    assert place(layout(x=2), [node("a1", rack="a"), node("a2", rack="a")], host_kind="light") == {"x/0": ("a1", "a2")}


def test_nodes_fill_by_their_cores():
    placement = place(layout(**{f"x{n}": 1 for n in range(6)}), [node("big", cores=2), node("small", cores=1)], host_kind="light")
    on = [nodes[0] for nodes in placement.values()]
    assert (on.count("big"), on.count("small")) == (4, 2)


def test_strategy_names_running_or_other_nodes():
    nodes = [node("n1"), node("n2"), node("n3")]
    job_layout = layout(x=2, y=2).model_copy(update={"nodes": {"x/0": ("n2", "h1"), "y/0": ("h1", "n2")}})
    placement = place(job_layout, nodes, host_kind="light")
    assert placement["x/0"] == ("n2", "n1")
    assert placement["y/0"] == ("n1", "n2")


def test_no_capacity_lists_everything_missing():
    with pytest.raises(NoCapacity) as caught:
        place(layout(x=3, y=1), [node("n1", slots=2, used=1), node("n2", slots=1, host_kind="spark")], host_kind="light")
    assert str(caught.value) == (
        "no capacity: task 'x/0' wants 3 nodes for its replicas and 1 of kind 'light' is up; 4 replicas need a slot each and 1 is "
        "free (n1 1 of 2); start more nodes ('holdfast node'), or cancel a job"
    )
    with pytest.raises(NoCapacity, match=r"the strategy wants 2 nodes \(h1, h2\) and 1 nodes are up"):
        place(layout(x=1, y=1).model_copy(update={"nodes": {"x/0": ("h1",), "y/0": ("h2",)}}), [node("n1")], host_kind="light")
    with pytest.raises(NoCapacity, match="no room for replica 1 of task 'x/0': it needs a place"):
        place(layout(x=2), [node("n1"), node("n2", slots=1, used=1)], host_kind="light")


def test_additional_replica_avoids_nodes_and_racks_of_peers():
    nodes = [node("a1", rack="a"), node("a2", rack="a"), node("b1", rack="b", used=9)]
    assert place_replica(CapacityIndex.of(nodes, host_kind="light"), not_on={"a1"}, peers_on={"a1"}) == "b1"
    assert place_replica(CapacityIndex.of(nodes, host_kind="light"), not_on={"a1", "b1"}, peers_on={"a1"}) == "a2"
    assert place_replica(CapacityIndex.of(nodes, host_kind="light"), not_on={"a1", "a2", "b1"}, peers_on=set()) is None


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 6), st.integers(0, 6)), min_size=1, max_size=8),
    st.lists(st.integers(1, 3), min_size=1, max_size=12),
)
def test_placement_fits_and_separates_replicas(nodes, tasks):
    nodes = [node(f"n{n}", rack=rack, slots=slots, used=min(used, slots)) for n, (rack, slots, used) in enumerate(nodes)]
    job_layout = layout(**{f"t{n}": count for n, count in enumerate(tasks)})
    try:
        placement = place(job_layout, nodes, host_kind="light")
    except NoCapacity:
        return
    for task in job_layout.tasks:
        assert len(placement[task.name]) == task.replicas == len(set(placement[task.name]))
    for each in nodes:
        assert len(each.holds) + sum(nodes.count(each.name) for nodes in placement.values()) <= each.slots


def test_needs_of_cores_and_memory_count():
    nodes = [node("a", cores=4, slots=8, holds=(Need(cores=3),)), node("b", cores=2, slots=4)]
    needs = {"x/0": Need(cores=1.5), "y/0": Need(memory_mib=1000), "z/0": Need(memory_mib=100)}
    placement = place(layout(x=1, y=1, z=1), nodes, host_kind="light", need_of=needs.__getitem__)
    assert placement == {"x/0": ("b",), "y/0": ("a",), "z/0": ("b",)}, "a has 1 core left, and 24 MiB once y is there"
    assert place_replica(CapacityIndex.of(nodes, host_kind="light"), Need(cores=2), not_on=set(), peers_on=set()) == "b"
    assert place_replica(CapacityIndex.of(nodes, host_kind="light"), Need(cores=2.1), not_on=set(), peers_on=set()) is None
    assert place_replica(CapacityIndex.of(nodes, host_kind="light"), Need(memory_mib=1025), not_on=set(), peers_on=set()) is None


def test_thirds_of_a_node_fill_it():
    nodes = [node("a", cores=1, slots=32)]
    third = Need(cores=1 / 3)
    assert place(layout(x=1, y=1, z=1), nodes, host_kind="light", need_of=lambda task: third).keys() == {"x/0", "y/0", "z/0"}
    with pytest.raises(NoCapacity, match=r"needs 0\.333333 cores"):
        place(layout(x=1, y=1, z=1, more=1), nodes, host_kind="light", need_of=lambda task: third)


def test_no_capacity_lists_missing_cores_and_memory():
    nodes = [node("n1", cores=4, slots=128, holds=(Need(cores=3, memory_mib=512),)), node("n2", cores=1, slots=32)]
    needs = {"x/0": Need(cores=2, memory_mib=600), "y/0": Need(cores=1)}
    with pytest.raises(NoCapacity) as caught:
        place(layout(x=1, y=3), nodes, host_kind="light", need_of=needs.__getitem__)
    assert str(caught.value) == (
        "no capacity: task 'y/0' wants 3 nodes for its replicas and 2 of kind 'light' are up; task 'x/0' needs 2 cores and 600 MiB "
        "on a node, and none have that free (n1 96 of 128 and 512 of 1024 MiB, n2 0 of 32); task 'y/0' needs 1 cores on each of 3 "
        "nodes, and 2 have that free (n1 96 of 128 and 512 of 1024 MiB, n2 0 of 32); start more nodes ('holdfast node'), or cancel "
        "a job"
    )
    with pytest.raises(NoCapacity, match=r"no room for replica 0 of task 'y/0': it needs 1 cores, and no node .* \(n1 128 of 128"):
        place(layout(x=1, y=1), [nodes[0]], host_kind="light", need_of=lambda task: Need(cores=1))


def test_strategy_does_not_overfill_a_node():
    job_layout = layout(x=1).model_copy(update={"nodes": {"x/0": ("n1",)}})
    with pytest.raises(NoCapacity, match=r"no room for task 'x/0' on n1, where its strategy wants it: .* \(n1 10 of 10\)"):
        place(job_layout, [node("n1", used=10), node("n2")], host_kind="light")
