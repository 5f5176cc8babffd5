"""Placement: replicas apart, racks apart, nodes evenly full, and clear words where there is no room."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.manage.placement import NoCapacity, Room, place, place_one
from holdfast.model.job import Layout, Task


def room(name: str, *, rack: str = "", slots: int = 10, used: int = 0, host: str = "light", cores: float = 1.0) -> Room:
    return Room(name, host, rack, cores, slots, used)


def layout(**replicas: int) -> Layout:
    return Layout(application="a", tasks=tuple(Task(pe=pe, replicas=count) for pe, count in replicas.items()))


def test_replicas_of_a_task_go_to_different_racks_where_there_are_some():
    rooms = [room("a1", rack="a"), room("a2", rack="a"), room("b1", rack="b", used=5)]
    assert place(layout(x=2), rooms, host="light") == {"x/0": ("a1", "b1")}


def test_with_one_rack_replicas_still_go_to_different_nodes():
    assert place(layout(x=2), [room("a1", rack="a"), room("a2", rack="a")], host="light") == {"x/0": ("a1", "a2")}


def test_nodes_fill_by_their_cores():
    placed = place(layout(**{f"x{n}": 1 for n in range(6)}), [room("big", cores=2), room("small", cores=1)], host="light")
    on = [nodes[0] for nodes in placed.values()]
    assert (on.count("big"), on.count("small")) == (4, 2)


def test_a_strategy_names_nodes_or_hosts_of_its_own():
    rooms = [room("n1"), room("n2"), room("n3")]
    wanted = layout(x=2, y=2).model_copy(update={"hosts": {"x/0": ("n2", "h1"), "y/0": ("h1", "n2")}})
    placed = place(wanted, rooms, host="light")
    assert placed["x/0"] == ("n2", "n1")
    assert placed["y/0"] == ("n1", "n2")


def test_no_capacity_says_all_that_is_missing():
    with pytest.raises(NoCapacity) as told:
        place(layout(x=3, y=1), [room("n1", slots=2, used=1), room("n2", slots=1, host="spark")], host="light")
    assert str(told.value) == (
        "no capacity: task 'x/0' wants 3 nodes for its replicas and 1 of kind 'light' is up; 4 replicas want a place and 1 are "
        "free (n1 1 of 2); start more nodes ('holdfast node'), or cancel a job"
    )
    with pytest.raises(NoCapacity, match=r"the strategy wants 2 hosts \(h1, h2\) and 1 nodes are up"):
        place(layout(x=1, y=1).model_copy(update={"hosts": {"x/0": ("h1",), "y/0": ("h2",)}}), [room("n1")], host="light")
    with pytest.raises(NoCapacity, match="no room for replica 1 of task 'x/0'"):
        place(layout(x=2), [room("n1"), room("n2", slots=1, used=1)], host="light")


def test_one_more_replica_avoids_its_peers_and_their_racks():
    rooms = [room("a1", rack="a"), room("a2", rack="a"), room("b1", rack="b", used=9)]
    assert place_one(rooms, host="light", not_on={"a1"}, beside={"a1"}) == "b1"
    assert place_one(rooms, host="light", not_on={"a1", "b1"}, beside={"a1"}) == "a2"
    assert place_one(rooms, host="light", not_on={"a1", "a2", "b1"}, beside=set()) is None


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 6), st.integers(0, 6)), min_size=1, max_size=8),
    st.lists(st.integers(1, 3), min_size=1, max_size=12),
)
def test_what_is_placed_fits_and_replicas_are_apart(nodes, tasks):
    rooms = [room(f"n{n}", rack=rack, slots=slots, used=min(used, slots)) for n, (rack, slots, used) in enumerate(nodes)]
    wanted = layout(**{f"t{n}": count for n, count in enumerate(tasks)})
    try:
        placed = place(wanted, rooms, host="light")
    except NoCapacity:
        return
    for task in wanted.tasks:
        assert len(placed[task.name]) == task.replicas == len(set(placed[task.name]))
    for each in rooms:
        assert each.used + sum(nodes.count(each.name) for nodes in placed.values()) <= each.slots
