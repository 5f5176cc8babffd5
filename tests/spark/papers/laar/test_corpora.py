"""Corpora planned on Spark: the same records as local processes make."""

import json
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from holdfast_papers.laar.search_command import laar_search
from holdfast_papers.laar.search_study import Task, evaluate
from holdfast_papers.ppa.figure14 import measure_unit, units
from holdfast_papers.ppa.plans_command import ppa_plans
from holdfast_papers.records import Records
from holdfast_papers.spark_tasks import spark_runner


@pytest.fixture
def shared(spark, monkeypatch):
    @contextmanager
    def session(master, memory, *, name):
        yield spark

    monkeypatch.setattr("holdfast_papers.spark_tasks.spark_session", session)


def lines(path: Path) -> dict[str, dict]:
    return {record["key"]: record for record in map(json.loads, path.read_text().splitlines())}


def test_corpus_is_solved_on_spark_as_locally(shared, tmp_path):
    limits = ["--applications", "2", "--constraints", "0.6", "--solvers", "ft-search,milp", "--seconds", "20"]
    result = CliRunner().invoke(laar_search, [*limits, "--master", "local[2]", "--json", "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    written = lines(tmp_path / "runs.jsonl")
    assert len(written) == json.loads(result.stdout)["runs"] == 4
    here = evaluate(Task(seed=1, application=1, sla=0.6, solver="milp", seconds=20.0))
    there = written[here.key]
    assert (there["outcome"], there["pes"]) == (here.outcome, here.pes)
    assert there["cost"] == (here.cost if here.cost is None else pytest.approx(here.cost, rel=1e-6))


def test_records_are_computed_on_spark_as_locally(shared, tmp_path):
    cells = {str(seed): Task(seed=seed, application=1, sla=0.6, solver="milp", seconds=20.0) for seed in range(3)}
    records = Records(tmp_path, {"seed": 1})
    with spark_runner("local[2]", name="study") as run:
        results = records.fill(lambda task: {"key": str(task.seed), "drawn": task.key}, cells, run=run)
    assert [record["drawn"] for record in results] == [task.key for task in cells.values()]
    assert lines(tmp_path / "records.jsonl") == {record["key"]: record for record in results}
    with spark_runner(None, name="study") as nothing:
        assert nothing is None


def test_topologies_are_planned_on_spark_as_locally(shared, tmp_path):
    result = CliRunner().invoke(ppa_plans, ["--topologies", "1", "--master", "local[2]", "--json", "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    written = lines(tmp_path / "records.jsonl")
    wanted = units(14, 1)
    assert written.keys() == {unit.key for unit in wanted}
    assert written[wanted[0].key] == json.loads(json.dumps(measure_unit(wanted[0])))
    assert {path.name for path in tmp_path.glob("figure14?.svg")} == {f"figure14{panel}.svg" for panel in "abcd"}
