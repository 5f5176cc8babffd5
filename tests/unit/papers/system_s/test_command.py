"""holdfast reproduce system-s: stored runs, remaining runs and progress."""

import json
from contextlib import contextmanager

import pytest
from click.testing import CliRunner

from holdfast.cli.main import root
from holdfast_papers.system_s.recovery_study import DispatchRun, Run


@pytest.fixture
def progress(monkeypatch):
    """The steps of a progress bar, and the rows that were run, none of them really."""
    seen = []

    @contextmanager
    def bar(what):
        yield lambda done, total: seen.append((done, total))

    def measure(row, work, **_):
        seen.append(row.name)
        return Run(row.name, row.nodes, 1, 1, True, 1.0, None, 0.5, 0.4, 0, 0)

    monkeypatch.setattr("holdfast_papers.system_s.command.progress_bar", bar)
    monkeypatch.setattr("holdfast_papers.system_s.command.exit_on_signals", lambda: None)
    monkeypatch.setattr("holdfast_papers.system_s.recovery_study.measure", measure)
    monkeypatch.setattr(
        "holdfast_papers.system_s.recovery_study.crash_in_dispatch", lambda work, **_: DispatchRun(73, 32, 16, 1.0, 0, 0)
    )
    return seen


def run(out, *words):
    result = CliRunner().invoke(root, ["reproduce", "system-s", "--out", str(out), "--json", *words])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_progress_counts_runs_and_stored_runs_are_reused(tmp_path, progress):
    run(tmp_path, "--rows", "1", "--runs", "1")
    assert progress == [(0, 1), "1", (1, 1)]
    progress.clear()
    document = run(tmp_path, "--rows", "1,2,dispatch", "--runs", "2")
    assert progress == [(1, 5), "1", (2, 5), "2", (3, 5), "2", (4, 5)]
    assert [(row["row"], row["runs"]) for row in document["rows"]] == [("1", 2), ("2", 2)]
    assert document["dispatch"]
    assert "Figure 9" in (tmp_path / "figure9.svg").read_text()
