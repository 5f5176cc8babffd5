"""holdfast reproduce laar-search and ppa-plans: what is kept between runs, and what is refused."""

import json

import pytest
from click.testing import CliRunner, Result

from holdfast.cli.reproduce_laar_search import laar_search
from holdfast.cli.reproduce_ppa_plans import ppa_plans
from holdfast.errors import HoldfastError


def run(command, *arguments: object) -> Result:
    return CliRunner().invoke(command, [str(argument) for argument in arguments])


def fails(command, *arguments: object) -> str:
    result = run(command, *arguments)
    assert isinstance(result.exception, HoldfastError), result.output
    return str(result.exception)


def test_records_are_kept_and_a_line_cut_short_is_made_again(tmp_path):
    once = run(ppa_plans, "--out", tmp_path, "--topologies", 1, "--workers", 1, "--json")
    assert once.exit_code == 0, once.output
    path = tmp_path / "records.jsonl"
    whole = path.read_text()
    path.write_text(whole[:-30])
    again = run(ppa_plans, "--out", tmp_path, "--topologies", 1, "--workers", 1, "--json")
    assert "6 of 7 records are there already" in again.stderr
    assert path.read_text() == whole
    assert json.loads(again.stdout) == json.loads(once.stdout)


@pytest.mark.parametrize("text", ["garbage}\n", "[1]\n", '{"no": "key"}\n'])
def test_a_file_of_something_else_is_refused_and_left_as_it_is(tmp_path, text):
    (tmp_path / "records.jsonl").write_text(text)
    (tmp_path / "runs.jsonl").write_text(text)
    assert "records.jsonl' holds something else than records of this command" in fails(ppa_plans, "--out", tmp_path)
    assert "runs.jsonl' holds something else than runs of this command" in fails(laar_search, "--out", tmp_path)
    assert (tmp_path / "records.jsonl").read_text() == text == (tmp_path / "runs.jsonl").read_text()


@pytest.mark.parametrize(
    "option", [["--seed", -1], ["--seconds", "nan"], ["--seconds", 0], ["--applications", 0], ["--workers", 0]]
)
def test_numbers_out_of_range_are_refused_before_any_work(option):
    assert "--seed of at least 0 and --seconds above 0, got" in fails(laar_search, *option)


def test_settings_that_are_none_are_refused(tmp_path):
    (tmp_path / "settings.json").write_text("garbage")
    assert "settings.json' was not written by this command" in fails(laar_search, "--out", tmp_path)
