"""Result files that `holdfast reproduce STUDY --keep` writes."""

import json

import click
import pytest
from click.testing import CliRunner

from holdfast.errors import HoldfastError
from holdfast_papers import results
from holdfast_papers.results import FOLDER, finish, read_results, result_options

FINDING = {"name": "it holds", "paper": "1", "ours": "2", "holds": True}


@click.command("tiny")
@click.option("--part", default="all")
@click.option("--events", type=int, default=10)
@click.option("--seed", type=int, default=3)
@click.option("--out", default="somewhere")
@click.option("--fast/--slow", default=True)
@result_options
def tiny(part, events, seed, out, fast, as_json):
    finish({"findings": [FINDING]}, as_json=as_json, show=lambda: click.echo("shown"))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "FOLDER", tmp_path)
    return tmp_path


def run(*words):
    return CliRunner().invoke(tiny, words)


def test_keep_writes_command_seed_size_machine_date_and_findings(folder):
    result = run("--events", "20", "--slow", "--out", "elsewhere", "--json", "--keep")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout) == {"findings": [FINDING]}
    kept = json.loads((folder / "tiny.json").read_text())
    assert kept.pop("machine").keys() == {"cores", "memory_gib", "python", "spark"}
    assert len(kept.pop("date")) == 10
    assert kept == {
        "study": "tiny",
        "command": "holdfast reproduce tiny --events 20 --slow",
        "seed": 3,
        "size": {"part": "all", "events": 20},
        "transcribed": None,
        "findings": [FINDING],
    }


def test_a_part_of_a_study_has_its_own_file(folder):
    assert run("--part", "runs", "--keep").stdout == "shown\n"
    assert [path.name for path in folder.iterdir()] == ["tiny-runs.json"]


def test_nothing_is_written_without_keep(folder):
    assert run().stdout == "shown\n"
    assert not list(folder.iterdir())


def test_keep_needs_a_checkout(folder, monkeypatch):
    monkeypatch.setattr(results, "FOLDER", folder / "missing")
    assert isinstance(error := run("--keep").exception, HoldfastError)
    assert "call it from a checkout" in str(error)


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.json")))
def test_result_file_is_complete(name):
    result = read_results()[name]
    assert result.keys() == {"study", "command", "seed", "size", "machine", "date", "transcribed", "findings"}
    assert result["command"].startswith(f"holdfast reproduce {result['study']}")
    assert result["date"] or result["transcribed"], "a result without a date must say where it was transcribed from"
    for finding in result["findings"]:
        assert finding.keys() == {"name", "paper", "ours", "holds"}
        assert isinstance(finding["holds"], bool)
