"""Summaries of runs over a corpus, and the command."""

import json

import pytest
from click.testing import CliRunner

from holdfast.errors import HoldfastError
from holdfast_papers.laar.search_command import laar_search
from holdfast_papers.laar.search_findings import findings
from holdfast_papers.laar.search_study import Run, Task, decided_by_any, evaluate, first_solutions, outcomes, prunings, run_of


def run(application=0, sla=0.5, solver="milp", outcome="BST", **more):
    return Run(
        key=f"{application}/{sla:g}/{solver}",
        application=application,
        sla=sla,
        solver=solver,
        nodes=1,
        pes=2,
        outcome=outcome,
        seconds=1.0,
        cost=10.0,
        gap=0.0,
        tree_nodes=5,
        **more,
    )


def test_outcomes_are_shares_by_solver_and_constraint():
    shares = outcomes([run(0), run(1, outcome="NUL"), run(0, sla=0.6, outcome="TMO")])
    assert shares[("milp", 0.5)] == {"BST": 0.5, "SOL": 0.0, "NUL": 0.5, "TMO": 0.0}
    assert shares[("milp", 0.6)]["TMO"] == 1.0


def test_pair_is_decided_if_any_solver_decides_it():
    runs = [run(0, outcome="SOL"), run(0, solver="ft-search"), run(1, outcome="TMO"), run(1, solver="ft-search", outcome="SOL")]
    assert decided_by_any(runs, ["milp"]) == 0.0
    assert decided_by_any(runs, ["milp", "ft-search"]) == 0.5


def test_first_solutions_need_a_found_optimum():
    runs = [
        run(0, first=(11.0, 1.0), last=(10.0, 4.0)),
        run(1, first=(10.0, 2.0), last=(10.0, 2.0)),
        run(2, outcome="SOL", first=(99.0, 1.0), last=(10.0, 1.0)),
    ]
    firsts = first_solutions(runs)
    assert firsts.mean_cost == pytest.approx(1.05) and firsts.mean_time == pytest.approx(0.625)
    assert first_solutions([]).mean_cost is None


@pytest.mark.parametrize(
    ("first", "last", "holds"),
    [
        ((10.5, 1.0), (10.0, 4.0), [True, True]),
        ((12.0, 1.0), (10.0, 4.0), [False, True]),
        ((10.5, 3.0), (10.0, 4.0), [True, False]),
    ],
)
def test_findings_about_the_first_solution_follow_its_cost_and_time(first, last, holds):
    runs = [run(solver="ft-search-paper", first=first, last=last)]
    assert [finding.holds for finding in findings(runs) if finding.name.startswith("Figure 5")] == holds


def test_prunings_count_each_run_once():
    runs = [
        run(0, prunings={"CPU": (1, 8.0), "COMPL": (3, 2.0), "COST": (0, 0.0), "DOM": (0, 0.0)}),
        run(1, prunings={"CPU": (500, 4.0), "COMPL": (500, 2.0), "COST": (0, 0.0), "DOM": (0, 0.0)}),
    ]
    assert prunings(runs)["CPU"] == (pytest.approx(0.375), 6.0)
    assert prunings(runs)["COST"] == (0.0, 0.0)


def test_run_survives_writing_and_reading():
    result = evaluate(Task(seed=1, application=8, sla=0.8, solver="ft-search", seconds=5.0))
    assert result.outcome == "BST" and result.first
    assert run_of(json.loads(json.dumps(result.document()))) == result


def here(function, tasks, *, workers):
    """What `map_in_processes` gives, made in this process: starting others is not what is tested."""
    yield from map(function, tasks)


def test_command_prints_one_document_and_resumes(tmp_path, monkeypatch):
    monkeypatch.setattr("holdfast_papers.laar.search_command.map_in_processes", here)
    ask = ["--applications", "1", "--seed", "22", "--seconds", "0.2", "--constraints", "0.5,0.9", "--json", "--out", str(tmp_path)]
    first = CliRunner().invoke(laar_search, ask, catch_exceptions=False)
    document = json.loads(first.stdout)
    assert document["runs"] == 6 and set(document["decided"]) == {"ft-search-paper", "ft-search", "milp", "any"}
    assert {path.name for path in tmp_path.iterdir()} >= {"figure4.png", "figure5.svg", "figure6.svg", "runs.jsonl"}
    kept = tmp_path / "runs.jsonl"
    kept.write_text("".join(line + "\n" for line in kept.read_text().splitlines()[:4]) + '{"key": "cut sho')
    again = CliRunner().invoke(laar_search, ask, catch_exceptions=False)
    assert "4 of 6 runs are already in" in again.stderr
    assert json.loads(again.stdout)["runs"] == 6
    assert len(kept.read_text().splitlines()) == 6


def test_command_shows_the_papers_values(monkeypatch):
    monkeypatch.setattr("holdfast_papers.laar.search_command.map_in_processes", here)
    shown = CliRunner().invoke(laar_search, ["--applications", "1", "--seconds", "0.2", "--constraints", "0.5"])
    for words in ("Figure 4", "Figure 5", "Figure 6", "the paper          1.057    0.37", "applied most often"):
        assert words in shown.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--solvers", "cplex"], "--solvers needs some of ft-search-paper, ft-search, milp; got 'cplex'"),
        (["--constraints", "0.5,two"], "--constraints needs numbers from 0 to 1, separated by commas; got '0.5,two'"),
        (["--applications", "0"], "--applications and --workers must be at least 1"),
    ],
)
def test_invalid_options_are_refused(options, message):
    result = CliRunner().invoke(laar_search, options)
    assert isinstance(result.exception, HoldfastError) and message in str(result.exception)


def test_runs_of_other_settings_are_not_mixed(tmp_path):
    (tmp_path / "settings.json").write_text('{"seed": 9, "seconds": 1.0}')
    result = CliRunner().invoke(laar_search, ["--out", str(tmp_path), "--applications", "1"])
    assert isinstance(result.exception, HoldfastError) and "give another --out" in str(result.exception)


def test_findings_use_the_papers_algorithm_only_and_can_fail():
    def ended(sla: float, outcome: str, cuts: dict[str, tuple[int, float]], *, solver: str = "ft-search-paper") -> Run:
        first, last = ((1.05, 0.2), (1.0, 1.0)) if outcome == "BST" else (None, None)
        return Run("", 0, sla, solver, 1, 2, outcome, 1.0, None, None, 9, first=first, last=last, prunings=cuts)

    as_told = {"CPU": (20, 9.0), "COMPL": (50, 5.0), "DOM": (25, 6.0), "COST": (5, 1.0)}
    other = {"CPU": (50, 5.0), "COMPL": (20, 9.0), "DOM": (5, 6.0), "COST": (25, 8.0)}
    runs = [ended(0.5, "BST", as_told), ended(0.9, "NUL", as_told)]
    assert [finding.holds for finding in findings(runs)] == [True] * 6
    assert [finding.holds for finding in findings([ended(0.5, "NUL", other), ended(0.9, "TMO", other)])] == [False] * 4
    assert findings([ended(0.5, "BST", as_told, solver="milp")]) == []


def test_in_turn_each_application_gets_one_constraint(tmp_path):
    words = ["--applications", "3", "--in-turn", "--constraints", "0.5,0.9", "--solvers", "ft-search-paper", "--seconds", "0.01"]
    result = CliRunner().invoke(laar_search, [*words, "--workers", "1", "--out", str(tmp_path / "out"), "--json"])
    assert result.exit_code == 0, result.output
    runs = (tmp_path / "out" / "runs.jsonl").read_text().splitlines()
    assert sorted(json.loads(line)["key"] for line in runs) == [
        f"{n}/{sla}/ft-search-paper" for n, sla in enumerate((0.5, 0.9, 0.5))
    ]
