"""holdfast reproduce laar-search and ppa-plans: stored records and rejected input."""

import json

import pytest
from click.testing import CliRunner, Result

from holdfast.errors import HoldfastError
from holdfast_papers.laar.search_command import laar_search
from holdfast_papers.laar.search_study import Run, Task
from holdfast_papers.ppa.plans_command import ppa_plans


def run(command, *arguments: object) -> Result:
    return CliRunner().invoke(command, [str(argument) for argument in arguments])


def fails(command, *arguments: object) -> str:
    result = run(command, *arguments)
    assert isinstance(result.exception, HoldfastError), result.output
    return str(result.exception)


def test_truncated_record_is_computed_again(tmp_path):
    once = run(ppa_plans, "--out", tmp_path, "--topologies", 1, "--workers", 1, "--json")
    assert once.exit_code == 0, once.output
    path = tmp_path / "records.jsonl"
    whole = path.read_text()
    path.write_text(whole[:-30])
    again = run(ppa_plans, "--out", tmp_path, "--topologies", 1, "--workers", 1, "--json")
    assert "6 of 7 records exist already" in again.stderr
    assert path.read_text() == whole
    assert json.loads(again.stdout) == json.loads(once.stdout)


@pytest.mark.parametrize("text", ["garbage}\n", "[1]\n", '{"no": "key"}\n'])
def test_foreign_file_is_refused_and_left_unchanged(tmp_path, text):
    (tmp_path / "records.jsonl").write_text(text)
    (tmp_path / "runs.jsonl").write_text(text)
    assert "records.jsonl' holds no records of this command" in fails(ppa_plans, "--out", tmp_path)
    assert "runs.jsonl' holds no runs of this command" in fails(laar_search, "--out", tmp_path)
    assert (tmp_path / "records.jsonl").read_text() == text == (tmp_path / "runs.jsonl").read_text()


@pytest.mark.parametrize(
    "option", [["--seed", -1], ["--seconds", "nan"], ["--seconds", 0], ["--applications", 0], ["--workers", 0]]
)
def test_numbers_out_of_range_are_refused_before_any_work(option):
    assert "--seed at least 0 and --seconds above 0, got" in fails(laar_search, *option)


def test_invalid_settings_file_is_refused(tmp_path):
    (tmp_path / "settings.json").write_text("garbage")
    assert "settings.json' was not written by this command" in fails(laar_search, "--out", tmp_path)


def test_folder_of_another_study_is_refused(tmp_path):
    searched, planned = tmp_path / "searched", tmp_path / "planned"
    for folder, name in ((searched, "settings.json"), (planned, "records.jsonl")):
        folder.mkdir()
        (folder / name).write_text("kept\n")
    assert f"--out '{searched}' holds files of something else (settings.json)" in fails(ppa_plans, "--out", searched)
    assert f"--out '{planned}' holds files of something else (records.jsonl)" in fails(laar_search, "--out", planned)
    assert [path.name for path in searched.iterdir()] == ["settings.json"]
    assert [path.name for path in planned.iterdir()] == ["records.jsonl"]


def test_tiny_sample_is_reported(tmp_path):
    result = run(ppa_plans, "--out", tmp_path, "--topologies", 1, "--workers", 1)
    assert "a sample of 1 topology per setting is tiny" in result.stderr
    assert "a sample of 1 topology per setting is tiny" in (tmp_path / "findings.md").read_text()


@pytest.mark.parametrize(
    ("outcome", "why"),
    [
        ("TMO", "no run found an optimum in time; give more --seconds"),
        ("NUL", "no strategy meets the constraint, as each run proved"),
    ],
)
def test_empty_row_of_figure_5_is_explained(tmp_path, outcome, why):
    cuts = {"CPU": (1, 2.0), "COMPL": (1, 1.0), "COST": (0, 0.0), "DOM": (0, 0.0)}
    kept = [ended("ft-search", outcome, prunings=cuts), ended("milp", outcome, prunings={})]
    (tmp_path / "settings.json").write_text('{"seed": 1, "seconds": 9.0}')
    (tmp_path / "runs.jsonl").write_text("".join(json.dumps(run.document()) + "\n" for run in kept))
    options = ["--applications", 1, "--constraints", 0.5, "--seconds", 9, "--solvers", "ft-search,milp"]
    result = run(laar_search, *options, "--out", tmp_path)
    assert result.exit_code == 0, result.output
    assert f"  ft-search              -       -      0  {why}" in result.stdout.splitlines()
    assert "  milp                   -       -      0  it reports its last solution only" in result.stdout.splitlines()
    assert f"runs, summary and figures are in {tmp_path}" in result.stderr


def ended(solver: str, outcome: str, *, prunings: dict[str, tuple[int, float]]) -> Run:
    """A run of the study's first application that found no strategy."""
    task = Task(seed=1, application=0, sla=0.5, solver=solver, seconds=9.0)
    return Run(task.key, 0, 0.5, solver, 1, 2, outcome, 9.0, None, None, 10, prunings=prunings)
