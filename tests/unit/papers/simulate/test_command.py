"""The command holdfast simulate."""

import csv
import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from holdfast.cli.main import root
from holdfast.documents.document import write_document
from holdfast.planning.laar import plan_strategy
from holdfast.planning.laar.examples import figure_1


@pytest.fixture
def documents(tmp_path):
    write_document(tmp_path / "pipe.yaml", figure_1())
    write_document(tmp_path / "strategy.json", plan_strategy(figure_1(), sla=0.6).strategy)
    fault = "{at_s: 40, kind: crash, what: node, target: [node1], back_after_s: 16}"
    (tmp_path / "faults.yaml").write_text(f"faults:\n- {fault}\n")
    return tmp_path


def rows_of(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text().splitlines()))


def called(*words: object):
    return CliRunner().invoke(root, [str(word) for word in words])


def test_simulation_writes_report_json_and_csv(documents):
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
    assert verdicts["every tuple is accounted for"]
    assert verdicts["the promised internal completeness was kept"]
    assert verdicts["every PE that failed came back"]
    shown = (documents / "out" / "simulation.html").read_text()
    assert "<svg" in shown
    assert document["command"].startswith(
        f"holdfast simulate {documents / 'pipe.yaml'} --strategy {documents / 'strategy.json'} --f"
    )
    assert f"Made by: {document['command']}" in shown
    assert "seed 1" in shown
    assert (documents / "out" / "intervals.csv").read_text().startswith("time_s,pe,in,processed,out,missed,dropped,queued")
    nodes = rows_of(documents / "out" / "nodes.csv")
    assert sum(float(row["cpu_s"]) for row in nodes) == pytest.approx(document["cpu_s"], rel=1e-4)


def test_csv_lines_cover_whole_steps(documents):
    words = ("--trace", "high", "--step", "0.3", "--out", documents / "out", "--json")
    document = json.loads(called("simulate", documents / "pipe.yaml", "--strategy", "sr", "--seconds", "60", *words).stdout)
    rows = rows_of(documents / "out" / "intervals.csv")
    assert [row["time_s"] for row in rows[::2]][:3] == ["0", "0.9", "1.8"]
    for row in document["pes"]:
        mine = [line for line in rows if line["pe"] == row["pe"]]
        assert sum(float(line["dropped"]) for line in mine) == pytest.approx(row["dropped"], rel=1e-3)
        assert float(mine[20]["in"]) == pytest.approx(8 * 0.9 if row["pe"] == "pe1" else float(mine[19]["out"]), rel=0.4)


def test_faults_have_the_verdict_of_a_real_run(documents):
    crash = {"kind": "crash", "what": "pe", "target": ["pe1.0"]}
    path = documents / "late.yaml"
    words = ("simulate", documents / "pipe.yaml", "--faults", path, "--seconds", "60", "--json")

    def judge(*at_s: float) -> tuple[bool | None, str]:
        path.write_text(json.dumps({"faults": [{"at_s": time_s, **crash} for time_s in at_s]}))
        (verdict,) = [v for v in json.loads(called(*words).stdout)["verdicts"] if v["name"] == "every fault injected"]
        return verdict["holds"], verdict["reason"]

    assert judge(10) == (True, "all faults of the schedule were injected: 1")
    assert judge(10, 600) == (False, "1 of 2 faults were due after the run's end; schedule them earlier")
    assert judge(10, 12) == (None, "1 of 2 faults had no live target, first: crash pe pe1.0")


@pytest.mark.parametrize(
    ("strategy", "fault", "holds", "message"),
    [
        ("sr", {"target": ["pe1.1"]}, True, "1 of 1 PEs that lost a replica have one that works at the end"),  # a secondary
        ("nr", {"target": ["pe1.1"]}, True, "1 of 1 PEs that lost a replica have one that works at the end"),  # an idle one
        ("nr", {"target": ["pe1"], "back_after_s": 10}, True, "1 of 1 PEs that lost a replica have one that works at the end"),
        ("sr", {"target": ["pe1"]}, False, "0 of 1 PEs that lost a replica have one that works at the end"),
    ],
)
def test_failed_pe_recovered_if_any_replica_works(documents, strategy, fault, holds, message):
    schedule = documents / "one.yaml"
    schedule.write_text(json.dumps({"faults": [{"at_s": 10, "kind": "crash", "what": "pe", **fault}]}))
    words = ("simulate", documents / "pipe.yaml", "--strategy", strategy, "--trace", "low", "--faults", schedule, "--json")
    verdicts = {verdict["name"]: verdict for verdict in json.loads(called(*words).stdout)["verdicts"]}
    verdict = verdicts["every PE that failed came back"]
    assert (verdict["holds"], verdict["reason"]) == (holds, message)


def test_sink_output_is_shown_per_second(documents):
    shown = called("simulate", documents / "pipe.yaml", "--trace", "low", "--seconds", 60).stdout
    assert "sink sink                         240 tuples, 3.69 a second" in shown


def test_trace_option_accepts_a_configuration(documents):
    result = called("simulate", documents / "pipe.yaml", "--trace", "high", "--seconds", 60)
    assert result.exit_code == 0, result.output
    assert "BROKEN   nothing was lost" in result.stdout


def test_tuples_waiting_at_the_end_are_not_lost(documents):
    words = ("simulate", documents / "pipe.yaml", "--trace", "high", "--seconds", "60", "--queue", "inf")
    shown = called(*words).stdout
    assert "unknown  nothing was lost: 0 tuples were missed by a PE, " in shown
    assert " wait at the end; " in shown
    assert re.search(r"; PEs processed \d+\.\d\d% of the tuples that they should", shown)


def test_jobs_cost_cpu_time_with_epochs(documents):
    words = ("simulate", documents / "pipe.yaml", "--trace", "high", "--seconds", "30", "--queue", "inf", "--json")
    by_tuple, by_epoch = (json.loads(called(*words, *more).stdout) for more in ((), ("--epoch", "1", "--job-cost", "0.1")))
    assert by_tuple["dropped"] == by_epoch["dropped"] == 0
    assert by_epoch["internal_completeness"] < by_tuple["internal_completeness"] < 1
    refused = called(*words, "--epoch", "1", "--scheme", "none")
    assert "epoch_s wants the scheme 'checkpoint' for every PE" in str(refused.exception)


def test_wrong_arguments_are_errors(documents):
    result = called("simulate", documents / "pipe.yaml", "--strategy", "none.json")
    assert "--strategy wants a strategy's file or one of nr, sr, grd; there is no file 'none.json'" in str(result.exception)
    result = called("simulate", documents / "pipe.yaml", "--trace", "hihg")
    assert "--trace wants a file of rates or a configuration (low, high); there is no file 'hihg'" in str(result.exception)
    result = called("simulate", documents / "strategy.json")
    assert "strategy.json: is a strategy, not an application descriptor; give an application descriptor" in str(result.exception)
    for option in ("--strategy", "--trace"):
        result = called("simulate", documents / "pipe.yaml", option, "")
        assert f"{option} wants a" in str(result.exception)
        assert "there is no file ''" in str(result.exception)
    result = called("simulate", documents / "pipe.yaml", "--seconds", "nan")
    assert result.exit_code == 2
    assert "wanted a finite number, got nan" in result.output
    result = called("simulate", documents / "pipe.yaml", "--step", "0")
    assert "Invalid value for '--step': 0.0 is not in the range x>0." in result.output
    result = called("simulate", documents / "pipe.yaml", "--detect", "inf")
    assert "Invalid value for '--detect': wanted a finite number, got inf" in result.output


def test_options_without_effect_are_named(documents):
    words = ("simulate", documents / "pipe.yaml", "--trace", "low", "--job-cost", "1", "--restart", "5", "--queue", "3")
    assert called(*words).stderr.splitlines() == [
        "--job-cost changes nothing without --epoch",
        "--restart changes nothing with --scheme none",
    ]
    assert "--queue changes nothing with --scheme source, which keeps all inputs" in called(*words, "--scheme", "source").stderr
