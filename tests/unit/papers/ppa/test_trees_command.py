"""holdfast reproduce trees."""

import json

from click.testing import CliRunner

from holdfast.documents.document import write_document
from holdfast.documents.topology import TaskOperator, Topology
from holdfast_papers.ppa.trees_command import list_trees


def test_trees_are_counted_and_listed(tmp_path):
    lanes = Topology(
        topology="lanes",
        operators={
            "a": TaskOperator(parallelism=3, rates=(5.0, 3.0, 2.0)),
            "b": TaskOperator(parallelism=3, inputs={"a": "one-to-one"}),
        },
    )
    topology = str(tmp_path / "t.yaml")
    write_document(topology, lanes)

    def run(*words):
        return CliRunner().invoke(list_trees, [topology, *words], catch_exceptions=False).stdout

    assert run() == "lanes: 3 minimal complete trees\n"
    assert run("--list", "2") == "lanes: 3 minimal complete trees\n  a/0, b/0\n  a/1, b/1\n  and 1 more\n"
    assert json.loads(run("--list", "9", "--json"))["listed"][-1] == ["a/2", "b/2"]
