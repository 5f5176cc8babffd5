"""Tests that the docs work: the package of docs/extend.md is installed as shown, and every shown command exists."""

import asyncio
import re
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import click
import numpy as np
import pytest
from click.testing import CliRunner

from holdfast import entry_points
from holdfast.cli.main import root
from holdfast.cli.plan import SUBCOMMANDS, plan
from holdfast.control import plugins
from holdfast.control.faults.fault_library import FaultContext, all_faults
from holdfast.control.faults.injection_tests import InjectionTests, check_tests
from holdfast.control.jobs.machine_document import shipped_machines
from holdfast.control.observers.job_observers import JobObservers
from holdfast.control.placement.placement_manager import PlacementManager
from holdfast.control.placement.rules import NodeCapacity
from holdfast.documents.document import read_document
from holdfast.documents.job import Job
from holdfast.documents.topology import TaskOperator, Topology
from holdfast.errors import HoldfastError
from holdfast.planning.ppa import output_fidelity, planner_names, planner_of
from holdfast.prediction import installed_predictors, make_predictor

GUIDE = Path(__file__).parents[2] / "docs" / "extend.md"
CLUSTER = GUIDE.with_name("cluster.md")
TOPOLOGY = (
    "topology: clicks\noperators:\n  read: {parallelism: 4, rate: 1000, zipf: 1.0}\n  top: {parallelism: 1, inputs: {read: full}}\n"
)


def blocks(language):
    return re.findall(rf"```{language}\n# (\S+)\n(.*?)```", GUIDE.read_text(), flags=re.DOTALL)


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Install the package of the guide as pip would: its modules, and metadata with the entry points of its pyproject.toml."""
    for place, code in blocks("python"):
        (tmp_path / place).parent.mkdir(exist_ok=True)
        (tmp_path / place).write_text(code)
    ((_, project),) = blocks("toml")
    groups = tomllib.loads(project)["project"]["entry-points"]
    metadata = tmp_path / "mypackage-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: mypackage\nVersion: 1.0\n")
    lines = [f"[{group}]\n" + "\n".join(f"{name} = {place}" for name, place in points.items()) for group, points in groups.items()]
    (metadata / "entry_points.txt").write_text("\n\n".join(lines) + "\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    entry_points._all_entry_points.cache_clear()
    yield groups
    entry_points._all_entry_points.cache_clear()
    for name in [name for name in sys.modules if name.partition(".")[0] == "mypackage"]:
        del sys.modules[name]


def test_guide_predictor_is_found_and_predicts(package):
    assert "median" in installed_predictors()
    median = make_predictor("median", last=3)
    history = np.array([[np.nan, 1.0, 2.0, 900.0], [np.nan] * 4, [5.0, 1.0, 1.0, 1.0]])
    answer = median.forecast(history, median.train(history), steps=2)
    np.testing.assert_array_equal(answer, [[2.0, 2.0], [np.nan, np.nan], [1.0, 1.0]])


def test_guide_planner_is_found(package, tmp_path):
    assert "busiest" in planner_names()
    lanes = Topology(
        topology="lanes",
        operators={
            "a": TaskOperator(parallelism=2, rates=(1.0, 3.0)),
            "b": TaskOperator(parallelism=2, inputs={"a": "one-to-one"}),
        },
    )
    assert planner_of("busiest").plan(output_fidelity(lanes), 1).tasks == ("a/1",)
    topology = tmp_path / "topology.yaml"
    topology.write_text(TOPOLOGY)
    alone = CliRunner().invoke(plan, [str(topology), "--budget", "2", "--planner", "busiest"], catch_exceptions=False)
    assert "2 of at most 2 replicas by busiest" in alone.output
    beside = CliRunner().invoke(plan, [str(topology), "--budget", "2", "--planner", "all"], catch_exceptions=False)
    assert [name for name in planner_names() if re.search(rf"^{name}\s", beside.output, flags=re.MULTILINE)] == planner_names()


def test_broken_planner_is_reported_with_its_package(package, tmp_path):
    with pytest.raises(HoldfastError, match=r"there is no planner 'x' of topologies; planners are: frontier, .*busiest, .*all"):
        planner_of("x")
    (tmp_path / "mypackage" / "planners.py").write_text("class Busiest:\n    name = 'idlest'\n    def plan(self): ...\n")
    with pytest.raises(HoldfastError, match="planner 'busiest': wanted a method 'plan' and the name 'busiest' at 'mypackage"):
        planner_of("busiest")
    sys.modules.pop("mypackage.planners")
    (tmp_path / "mypackage" / "planners.py").write_text("raise OSError('no licence')")
    with pytest.raises(HoldfastError, match=r"cannot be created from 'mypackage.planners:Busiest': OSError: no licence; fix"):
        planner_of("busiest")


def test_guide_fault_orders_a_node_to_stall_and_crash(package, tmp_path):
    (text,) = re.findall(r"    # tests.yaml, .*?\n((?:    .*\n)+)", GUIDE.read_text())
    document = tmp_path / "tests.yaml"
    document.write_text(text)
    check_tests(read_document(document, InjectionTests).tests, shipped_machines(plugins.shipped_actions()), faults=all_faults())

    orders = []

    class Here(FaultContext):
        async def order(self, kind, **details):
            orders.append((kind, details))

    asyncio.run(all_faults()["stall-then-crash"](Here(None, settings={"for_s": 0.01})))
    assert orders == [("stall-host", {"for_s": 0.01}), ("crash-host", {})]


def test_guide_plug_in_leaves_out_spot_nodes(package, monkeypatch):
    capacities = [NodeCapacity(name, "light", "", 1.0, 32, 1024) for name in ("n1", "n2")]
    monkeypatch.setattr(PlacementManager, "capacities", lambda self: capacities)
    labels = {"n1": {"spot": "yes"}, "n2": {}}
    nodes = {name: SimpleNamespace(offer=SimpleNamespace(labels=each)) for name, each in labels.items()}
    placement = plugins.plugin_class("placement")(SimpleNamespace(resources=SimpleNamespace(nodes=nodes)))
    assert isinstance(placement, PlacementManager)
    assert [node.name for node in placement.capacities()] == ["n2"]


def test_guide_observer_notes_tasks_without_replicas(package):
    observer = JobObservers(None)._observer_of("light")
    replicas = [SimpleNamespace(task=task, state=state) for task, state in (("a/0", "failed"), ("a/0", "running"), ("b/0", "lost"))]
    notes = asyncio.run(observer.observe(SimpleNamespace(replicas=replicas)))
    assert [note.text for note in notes] == ["no replica of b/0 runs"]
    assert asyncio.run(observer.observe(SimpleNamespace(replicas=replicas))) == []


def test_job_of_the_cluster_guide_is_valid(tmp_path):
    (job,) = re.findall(r"\n    # job.yaml\n((?:    .*\n)+)", CLUSTER.read_text())
    document = tmp_path / "job.yaml"
    document.write_text(job)
    assert read_document(document, Job).contract.tentative_after_s == 1


def test_orchestrators_of_the_cluster_guide_use_tls():
    serving = re.findall(r"^ {4}(?:ExecStart=\S+/)?holdfast serve .*$", CLUSTER.read_text(), flags=re.MULTILINE)
    assert len(serving) == 3
    assert all("--certificate" in line and "--key" in line for line in serving)


def test_readme_commands_run_in_the_right_folder():
    depth = 0
    for line in re.findall(r"^ {4}(\S.*)$", (GUIDE.parents[1] / "README.md").read_text(), flags=re.MULTILINE):
        assert depth == 0 or "examples/" not in line, line
        depth += 1 if "&& cd " in line else -1 if line.startswith("cd ..") else 0
    assert depth == 0


def shown_commands():
    """Yield each holdfast command in the docs: the name of the page, and the words after `holdfast` without a comment."""
    for guide in (GUIDE.parents[1] / "README.md", *sorted(GUIDE.parent.glob("*.md"))):
        text = re.sub(r"\\\n\s*", "", guide.read_text())
        for line in re.findall(r"^ {4,}(?:- )?(?:\w+=\S+ )*(?:ExecStart=\S+/|\S*bin/)?holdfast (.*)$", text, flags=re.MULTILINE):
            parts = re.split(r"&& |; ", f"holdfast {line}".partition("  #")[0])
            yield from ((guide.name, part.split()[1:]) for part in parts if part.startswith("holdfast "))


@pytest.mark.parametrize(
    ("guide", "words"), [pytest.param(*each, id=f"{each[0]}: {' '.join(each[1])}") for each in shown_commands()]
)
def test_commands_in_the_docs_exist_with_their_options(guide, words):
    command = root
    while words and (deeper := _below(command, words[0])):
        command, words = deeper, words[1:]
    assert command is not root, words
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)} | {"--help"}
    assert {word.partition("=")[0] for word in words if word.startswith("--")} <= known


def _below(command, word):
    """Return the subcommand of this name, or None."""
    if isinstance(command, click.Group):
        return command.get_command(click.Context(command), word)
    return SUBCOMMANDS.get(word) if command is plan else None
