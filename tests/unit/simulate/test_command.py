"""holdfast simulate and holdfast reproduce laar, as a user calls them."""

import json
import subprocess

import pytest
from click.testing import CliRunner

from holdfast.cli.main import root
from holdfast.model.document import write_document
from holdfast.plan.laar import plan_strategy
from holdfast.plan.laar.examples import figure_1


@pytest.fixture
def documents(tmp_path):
    write_document(tmp_path / "pipe.yaml", figure_1())
    write_document(tmp_path / "strategy.json", plan_strategy(figure_1(), sla=0.6).strategy)
    fault = "{at_s: 40, kind: crash, what: node, target: [host1], back_after_s: 16}"
    (tmp_path / "faults.yaml").write_text(f"faults:\n- {fault}\n")
    return tmp_path


def called(*words: object):
    return CliRunner().invoke(root, [str(word) for word in words])


def test_a_strategy_is_tried_through_faults_and_reported(documents):
    result = called(
        "simulate",
        documents / "pipe.yaml",
        "--strategy",
        documents / "strategy.json",
        "--faults",
        documents / "faults.yaml",
        "--out",
        documents / "out",
        "--json",
    )
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert 0.9 < document["internal_completeness"] <= 1
    verdicts = {verdict["name"]: verdict["holds"] for verdict in document["verdicts"]}
    assert verdicts["the books balance"]
    assert verdicts["the promised internal completeness was kept"]
    assert verdicts["every PE that failed came back"]
    assert "<svg" in (documents / "out" / "simulation.html").read_text()
    assert (documents / "out" / "intervals.csv").read_text().startswith("time_s,pe,in,processed,out,missed,queued")


def test_a_configuration_can_be_held(documents):
    result = called("simulate", documents / "pipe.yaml", "--trace", "high", "--seconds", 60)
    assert result.exit_code == 0, result.output
    assert "FAILS  nothing was lost" in result.stdout


def test_by_the_epoch_a_queue_without_end_drops_nothing_and_jobs_cost(documents):
    words = ("simulate", documents / "pipe.yaml", "--trace", "high", "--seconds", "30", "--queue", "inf", "--json")
    by_tuple, by_epoch = (json.loads(called(*words, *more).stdout) for more in ((), ("--epoch", "1", "--job-cost", "0.1")))
    assert by_tuple["dropped"] == by_epoch["dropped"] == 0
    assert by_epoch["internal_completeness"] < by_tuple["internal_completeness"] < 1
    refused = called(*words, "--epoch", "1", "--scheme", "none")
    assert "epoch_s wants the scheme 'checkpoint' for every PE" in str(refused.exception)


def test_mistakes_are_named(documents):
    result = called("simulate", documents / "pipe.yaml", "--strategy", "none.json")
    assert "--strategy wants a strategy's file or one of nr, sr, grd; there is no file 'none.json'" in str(result.exception)
    result = called("simulate", documents / "pipe.yaml", "--step", "0")
    assert "step_s wants a number above 0, got 0" in str(result.exception)


def test_the_study_writes_its_report_and_goes_on_where_it_stopped(tmp_path):
    words = ("reproduce", "laar", "--applications", "1", "--workers", "1", "--seconds", "2", "--out", tmp_path / "laar", "--json")
    first, second = called(*words), called(*words)
    assert first.exit_code == 0, first.output
    assert json.loads(first.stdout) == json.loads(second.stdout)
    document = json.loads(first.stdout)
    assert document["applications"] == 1
    assert {finding["name"] for finding in document["findings"]} >= {
        "NR puts out nothing in the worst case",
        "LAAR keeps its IC promise in the worst case",
        "it does where input rates have no glitches",
    }
    assert "Figure 12" in (tmp_path / "laar" / "laar.html").read_text()
    other = called(*words[:6], "--seconds", "3", *words[8:])
    assert "holds records made with" in str(other.exception)


def test_a_command_that_ends_badly_because_a_finding_fails_has_still_told_it(tmp_path, monkeypatch):
    told = {"seed": 3, "findings": [{"name": "it keeps up", "paper": "yes", "ours": "no", "holds": False}]}
    answers = iter([(2, json.dumps(told)), (2, ""), (0, "no document")])

    def run(words, **_):
        code, out = next(answers)
        return subprocess.CompletedProcess(words, code, stdout=out)

    monkeypatch.setattr(subprocess, "run", run)
    result = called("reproduce", "all", "--only", "laar-pipeline,laar,ppa", "--out", tmp_path)
    assert "laar-pipeline    0 of 1 findings hold" in result.stdout
    assert "laar             ended with exit code 2; call it alone to see why: holdfast reproduce laar" in result.stdout
    assert "ppa              its answer is no JSON document" in result.stdout


def test_the_report_of_all_names_what_failed_and_keeps_what_ended(tmp_path):
    (tmp_path / "all").mkdir()
    finding = {"name": "it holds", "paper": "yes", "ours": "yes", "holds": True}
    command = "holdfast reproduce ppa --repetitions 1 --events 20000"
    done = {"command": command, "seed": 1, "seconds": 2.0, "error": None, "findings": [finding]}
    (tmp_path / "all" / "ppa.result.json").write_text(json.dumps(done))
    result = called("reproduce", "all", "--only", "ppa", "--small", "--out", tmp_path / "all")
    assert result.exit_code == 0, result.output
    assert "1 of 1 findings hold" in result.stdout
    assert f"{command}, seed 1" in (tmp_path / "all" / "all.html").read_text()
    other = called("reproduce", "all", "--only", "nothing", "--out", tmp_path / "all")
    assert "--only names 'nothing', which is no command; commands are: debs11" in str(other.exception)
