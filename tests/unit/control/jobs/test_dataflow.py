"""The dataflow graph over jobs: readers, makers and shared PEs."""

import pytest

from holdfast.control.jobs.dataflow import Connection, Graph, Unmappable, named_jobs
from holdfast.control.jobs.parser import light_layout
from holdfast.documents.job import Job


def layout(name: str, **pes: dict):
    return light_layout(Job(job=name, host_kind="light", pes=pes))


MAKER = layout("maker", source={"makes": ["rows"]}, filter={"reads": ["rows"], "makes": ["few"]})
READER = layout("reader", shared={"shared": "maker:filter"}, sink={"reads": ["maker:few"]})


def test_reader_is_connected_to_maker_in_another_job():
    graph = Graph()
    graph.add(1, MAKER, {})
    graph.add(2, READER, {"maker": 1})
    assert named_jobs(READER) == ["maker"]
    assert list(graph.connections(2)) == [Connection("few", (1, "filter/0"), (2, "sink/0"))]


@pytest.mark.parametrize(("first", "second"), [(1, 2), (2, 1)])
def test_shared_pe_is_used_until_its_last_job_leaves(first, second):
    graph = Graph()
    graph.add(1, MAKER, {})
    graph.add(2, READER, {"maker": 1})
    own = {1: {1: ["source/0"]}, 2: {2: ["sink/0"]}}
    assert graph.used_only_by(first) == own[first]
    graph.remove(first)
    unused = graph.used_only_by(second)
    assert "filter/0" in unused[1]
    graph.remove(second)
    assert not graph.users


def test_all_missing_streams_and_pes_are_reported():
    graph = Graph()
    graph.add(1, MAKER, {})
    wrong = layout("wrong", a={"reads": ["maker:many"]}, b={"shared": "maker:nobody"})
    with pytest.raises(Unmappable) as caught:
        graph.add(3, wrong, {"maker": 1})
    assert caught.value.errors == (
        "task 'a/0' reads stream 'maker:many', which that job does not make; it makes: few, rows",
        "task 'b/0' shares PE 'maker:nobody', which does not exist; its PEs are: filter, source",
    )


def test_light_pes_are_listed_after_those_they_read():
    assert [task.name for task in layout("a", z={"makes": ["s"]}, a={"reads": ["s"]}).tasks] == ["z/0", "a/0"]


class Counted(tuple):
    """Tasks that count how often they are iterated over."""

    times = 0

    def __iter__(self):
        Counted.times += 1
        return super().__iter__()


def test_connections_iterate_over_the_layout_once():
    pes = {f"p{n:03}": {"makes": [f"s{n}"], "reads": [f"s{n - 1}"] if n else []} for n in range(300)}
    large = layout("large", **pes)
    graph = Graph()
    graph.add(1, large.model_copy(update={"tasks": Counted(large.tasks)}), {})
    Counted.times = 0
    assert len(list(graph.connections(1))) == 299
    assert Counted.times == 1
