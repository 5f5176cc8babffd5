"""Generated applications: every operator leads to the sink, and the seed determines the application."""

from pathlib import Path

import pytest

from holdfast.app.graph import Graph
from holdfast.app.load import load_app
from holdfast_papers.objectives.generated import generated_application


def graph_of(seed: int, folder: Path) -> Graph:
    file = folder / f"generated_{seed}.py"
    file.write_text(generated_application(seed))
    return load_app(file).graph()


@pytest.mark.parametrize("seed", range(20))
def test_every_operator_has_a_reader(seed, tmp_path):
    graph = graph_of(seed, tmp_path)
    read = {name for operator in graph.operators for name in operator.inputs}
    names = [operator.name for operator in graph.operators]
    assert len(names) == 8
    assert set(names) - read == {"last"}


def test_application_depends_on_the_seed():
    assert generated_application(1) == generated_application(1) != generated_application(2)
