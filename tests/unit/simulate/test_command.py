"""holdfast simulate and holdfast reproduce laar, as a user calls them."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import click
import psutil
import pytest
from click.testing import CliRunner

from holdfast.cli.main import root
from holdfast.documents.document import write_document
from holdfast.planning.laar import plan_strategy
from holdfast.planning.laar.examples import figure_1
from holdfast.report.page import heading, html_page, paragraph, table
from holdfast_papers import all_papers
from holdfast_papers.records import Records
from holdfast_papers.reproduce import STUDIES, reproduce


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


def test_the_lines_of_a_simulation_are_as_long_as_they_say(documents):
    words = ("--trace", "high", "--step", "0.3", "--out", documents / "out", "--json")
    document = json.loads(called("simulate", documents / "pipe.yaml", "--strategy", "sr", "--seconds", "60", *words).stdout)
    rows = rows_of(documents / "out" / "intervals.csv")
    assert [row["time_s"] for row in rows[::2]][:3] == ["0", "0.9", "1.8"]
    for row in document["pes"]:
        mine = [line for line in rows if line["pe"] == row["pe"]]
        assert sum(float(line["dropped"]) for line in mine) == pytest.approx(row["dropped"], rel=1e-3)
        assert float(mine[20]["in"]) == pytest.approx(8 * 0.9 if row["pe"] == "pe1" else float(mine[19]["out"]), rel=0.4)


def test_faults_are_judged_as_those_of_a_real_run(documents):
    kept = {"kind": "crash", "what": "pe", "target": ["pe1.0"]}
    path = documents / "late.yaml"
    words = ("simulate", documents / "pipe.yaml", "--faults", path, "--seconds", "60", "--json")

    def verdict(*at_s: float) -> tuple[bool | None, str]:
        path.write_text(json.dumps({"faults": [{"at_s": each, **kept} for each in at_s]}))
        (found,) = [v for v in json.loads(called(*words).stdout)["verdicts"] if v["name"] == "every fault struck"]
        return found["holds"], found["found"]

    assert verdict(10) == (True, "all 1 faults of the schedule came about")
    assert verdict(10, 600) == (False, "1 of 2 faults were due after the run's end; schedule them earlier")
    assert verdict(10, 12) == (None, "1 of 2 faults found nothing alive to strike, first: crash pe pe1.0")


@pytest.mark.parametrize(
    ("strategy", "fault", "holds", "said"),
    [
        ("sr", {"target": ["pe1.1"]}, True, "1 of 1 PEs that lost a replica have one that works at the end"),  # a secondary
        ("nr", {"target": ["pe1.1"]}, True, "1 of 1 PEs that lost a replica have one that works at the end"),  # an idle one
        ("nr", {"target": ["pe1"], "back_after_s": 10}, True, "1 of 1 PEs that lost a replica have one that works at the end"),
        ("sr", {"target": ["pe1"]}, False, "0 of 1 PEs that lost a replica have one that works at the end"),
    ],
)
def test_a_pe_that_failed_is_back_if_a_replica_works_whoever_it_is(documents, strategy, fault, holds, said):
    schedule = documents / "one.yaml"
    schedule.write_text(json.dumps({"faults": [{"at_s": 10, "kind": "crash", "what": "pe", **fault}]}))
    words = ("simulate", documents / "pipe.yaml", "--strategy", strategy, "--trace", "low", "--faults", schedule, "--json")
    verdicts = {verdict["name"]: verdict for verdict in json.loads(called(*words).stdout)["verdicts"]}
    found = verdicts["every PE that failed came back"]
    assert (found["holds"], found["found"]) == (holds, said)


def test_what_reached_the_sinks_is_told_by_the_second(documents):
    shown = called("simulate", documents / "pipe.yaml", "--trace", "low", "--seconds", 60).stdout
    assert "sink sink                         240 tuples, 3.69 a second" in shown


def test_a_configuration_can_be_held(documents):
    result = called("simulate", documents / "pipe.yaml", "--trace", "high", "--seconds", 60)
    assert result.exit_code == 0, result.output
    assert "FAILS  nothing was lost" in result.stdout


def test_what_still_waits_at_the_end_is_not_called_lost(documents):
    words = ("simulate", documents / "pipe.yaml", "--trace", "high", "--seconds", "60", "--queue", "inf")
    shown = called(*words).stdout
    assert "open   nothing was lost: 0 tuples were missed by a PE, " in shown
    assert " wait at the end; " in shown
    assert "of what PEs were to process was processed" in shown


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


def test_options_that_change_nothing_are_named(documents):
    words = ("simulate", documents / "pipe.yaml", "--trace", "low", "--job-cost", "1", "--restart", "5", "--queue", "3")
    assert called(*words).stderr.splitlines() == [
        "--job-cost changes nothing without --epoch",
        "--restart changes nothing with --scheme none",
    ]
    assert "--queue changes nothing with --scheme source, which keeps all inputs" in called(*words, "--scheme", "source").stderr


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
    told = {"findings": [{"name": "it keeps up", "paper": "yes", "ours": "no", "holds": False}]}
    answers = iter([(2, json.dumps(told)), (2, ""), (0, "no document")])
    monkeypatch.setattr(all_papers, "called", lambda words, **_: next(answers))
    result = called("reproduce", "all", "--only", "laar-pipeline,laar,ppa", "--out", tmp_path)
    assert "laar-pipeline    0 of 1 findings hold" in result.stdout
    assert "laar             ended with exit code 2; call it alone to see why: holdfast reproduce laar --seed 1" in result.stdout
    assert "ppa              its answer is no JSON document" in result.stdout
    assert "2 of 3 commands failed: laar, ppa; the same call runs them again" in str(result.exception)
    assert "it keeps up" in (tmp_path / "all.html").read_text()


def test_the_report_of_all_has_every_table_and_picture_of_every_command(tmp_path, monkeypatch):
    ours = {"name": "it holds", "paper": "so said", "ours": "so found", "holds": True}
    theirs = {"name": "it heals", "paper": "", "ours": "in 2 s", "holds": True}
    asked = []

    def answer(words, **_):
        asked.append(list(words))
        folder = tmp_path / "all" / words[0]
        if words[0] == "laar":
            parts = [heading("Findings"), paragraph("told twice"), heading("Figure 9"), table(("NR", "SR"), [("1.00", "1.89")])]
            (folder / "laar.html").write_text(html_page("LAAR", parts))
            return 0, json.dumps({"findings": [ours], "means": [["not", "again"]]})
        (folder / "figure8.svg").write_text("<svg/>")
        rows = [{"row": "1 job", "paper_start_s": 12.5, "start_s": 0.25}]
        return 0, json.dumps({"rows": rows, "dispatch": {"orphans": 0}, "findings": [theirs]})

    monkeypatch.setattr(all_papers, "called", answer)
    words = ("reproduce", "all", "--only", "laar,system-s", "--out", tmp_path / "all")
    result = called(*words)
    assert result.exit_code == 0, result.output
    text = (tmp_path / "all" / "all.html").read_text()
    for wanted in ("Figure 9", "1.89", "so said", "so found", "it heals", "in 2 s", "12.5", "orphans", "data:image/svg+xml"):
        assert wanted in text, wanted
    assert "told twice" not in text
    assert "Made by: holdfast reproduce laar --seed 1; seed 1" in text
    assert "Made by: holdfast reproduce system-s --seed 1; seed 1" in text
    assert len(asked) == 2
    called("reproduce", "all", "--only", "laar", "--out", tmp_path / "all")
    assert len(asked) == 2  # what is there is not run again
    assert "it heals" in (tmp_path / "all" / "all.html").read_text()  # nor is what an earlier call gave forgotten
    (tmp_path / "all" / "laar" / "records.jsonl").write_text("old")
    called(*words, "--again")
    assert len(asked) == 4
    assert not (tmp_path / "all" / "laar" / "records.jsonl").exists()


def test_a_master_and_a_profile_go_to_the_commands_that_take_them(tmp_path, monkeypatch):
    asked = {}
    monkeypatch.setattr(all_papers, "called", lambda words, **_: (asked.update({words[0]: words[1:-3]}), (0, "{}"))[1])
    profile = tmp_path / "web.csv"
    words = ("reproduce", "all", "--master", "spark://one:7077", "--profile", profile, "--out", tmp_path)
    assert "web.csv' does not exist" in called(*words).output  # told before hours of other commands
    profile.touch()
    called(*words)
    with_master = {name for name, words in asked.items() if "--master" in words}
    assert with_master == {"debs11", "laar", "laar-search", "objectives", "ppa", "ppa-plans"}
    assert asked["internet"] == ["--profile", str(profile), "--seed", "1"]
    assert asked["laar-pipeline"] == []


def test_every_command_can_be_called_as_the_report_says():
    commands = [reproduce.get_command(click.Context(reproduce), name) for name in STUDIES]
    assert not [command.name for command in commands if any(param.required for param in command.params)]


def test_what_takes_longest_keeps_nothing_waiting(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(all_papers, "called", lambda words, **_: (asked.append(words[0]), (0, "{}"))[1])
    called("reproduce", "all", "--out", tmp_path)
    assert sorted(asked) == sorted(set(STUDIES) - {"all"})
    assert asked[-1] == "laar-search"


def test_every_figure_is_of_a_run_with_a_seed_unless_nothing_in_it_is_drawn(tmp_path, monkeypatch):
    monkeypatch.setattr(all_papers, "called", lambda words, **_: (0, "{}"))
    called("reproduce", "all", "--out", tmp_path)
    results = json.loads((tmp_path / "all.json").read_text())["commands"]
    assert {name for name, result in results.items() if result["seed"] is None} == {"laar-pipeline"}
    for name, result in results.items():
        assert name == "laar-pipeline" or f"--seed {result['seed']}" in result["command"]


def test_every_cell_of_table_4_is_run_unless_all_is_to_be_small(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(all_papers, "called", lambda words, **_: (asked.append(words), (0, "{}"))[1])
    for more in ((), ("--small",)):
        called("reproduce", "all", "--only", "isorc16", "--out", tmp_path, *more)
    full, small = asked
    assert "--full" in full
    assert "--full" not in small


@pytest.fixture
def killed_in(monkeypatch):
    """Lets `reproduce all` run commands that answer at once, but for the one named, in which it is killed; tells who was run."""
    asked = []

    def set_up(victim):
        def answer(words, **_):
            asked.append(words[0])
            if words[0] == victim:
                raise KeyboardInterrupt
            return 0, "{}"

        asked.clear()
        monkeypatch.setattr(all_papers, "called", answer)
        return asked

    return set_up


def test_all_begun_anew_and_killed_goes_on_with_what_is_left(tmp_path, killed_in):
    words = ("reproduce", "all", "--only", "laar,ppa", "--out", tmp_path)
    asked = killed_in(None)
    called(*words)
    assert asked == ["laar", "ppa"]
    killed_in("ppa")
    called(*words, "--again")
    assert asked == ["laar", "ppa"]
    assert not (tmp_path / "ppa.result.json").exists()  # its folder is empty: nothing of it is there already
    (tmp_path / "laar" / "records.jsonl").write_text("made by this --again")
    killed_in(None)
    called(*words, "--again")
    assert asked == ["ppa"]
    assert (tmp_path / "laar" / "records.jsonl").exists()
    killed_in(None)
    called(*words, "--again")  # the one before has ended well: this one begins anew
    assert asked == ["laar", "ppa"]
    assert not (tmp_path / "laar" / "records.jsonl").exists()


def test_all_begun_anew_and_killed_goes_on_without_the_option_too(tmp_path, killed_in):
    words = ("reproduce", "all", "--only", "laar", "--out", tmp_path)
    killed_in(None)
    called(*words)
    killed_in("laar")
    called(*words, "--again")
    asked = killed_in(None)
    called(*words)
    assert asked == ["laar"]


def test_the_seconds_of_a_command_are_those_of_all_calls_that_it_took(tmp_path, monkeypatch):
    def killed(words, *, meanwhile):
        meanwhile()
        raise KeyboardInterrupt

    words = ("reproduce", "all", "--only", "laar", "--out", tmp_path)
    monkeypatch.setattr(all_papers, "called", killed)
    called(*words)
    assert float((tmp_path / "laar.seconds").read_text()) >= 0
    (tmp_path / "laar.seconds").write_text("100.0\n")
    monkeypatch.setattr(all_papers, "called", lambda words, **_: (2, ""))
    called(*words)
    monkeypatch.setattr(all_papers, "called", lambda words, **_: (0, "{}"))
    called(*words)
    assert json.loads((tmp_path / "laar.result.json").read_text())["seconds"] >= 100
    assert not (tmp_path / "laar.seconds").exists()


def test_the_call_that_is_to_tell_why_a_command_failed_can_be_made(tmp_path, monkeypatch):
    monkeypatch.setattr(all_papers, "called", lambda words, **_: (2, ""))
    result = called("reproduce", "all", "--only", "ppa-plans", "--out", tmp_path)
    assert f"call it alone to see why: holdfast reproduce ppa-plans --seed 14 --out {tmp_path / 'ppa-plans'}" in result.stdout


def test_what_a_killed_call_of_all_had_started_ends_and_the_next_call_goes_on(tmp_path):
    words = ("reproduce", "all", "--only", "laar", "--small", "--out", str(tmp_path))
    first = subprocess.Popen([sys.executable, "-m", "holdfast.cli.main", *words], stderr=subprocess.DEVNULL)
    try:
        strategies = tmp_path / "laar-small" / "strategies.jsonl"
        deadline = time.monotonic() + 120
        while not (strategies.exists() and strategies.read_text().count("\n") >= 2):
            assert first.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        started = psutil.Process(first.pid).children(recursive=True)
    finally:
        first.send_signal(signal.SIGKILL)
        first.wait()
    assert started
    assert float((tmp_path / "laar-small.seconds").read_text()) >= 0  # noted while it works
    _, alive = psutil.wait_procs(started, timeout=120)
    assert not alive
    before = strategies.read_text().count("\n")
    records = Records(tmp_path / "laar-small", {"seed": 1, "seconds": 2.0}, name="strategies")  # nobody has it any more
    assert sum(str(n) in records for n in range(100)) >= min(before, 2)
    records.close()


def test_all_interrupted_from_the_terminal_lets_the_command_under_way_end_in_order(tmp_path):
    words = ("reproduce", "all", "--only", "laar", "--small", "--out", str(tmp_path))
    call = subprocess.Popen(
        [sys.executable, "-m", "holdfast.cli.main", *words], stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    deadline = time.monotonic() + 120
    while not (tmp_path / "laar-small" / "strategies.jsonl").exists():  # its workers are at work
        assert call.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.killpg(call.pid, signal.SIGINT)
    _, said = call.communicate(timeout=120)
    assert call.returncode == 130
    assert said.count("holdfast: interrupted") == 2  # the command's word and its own
    assert "Warning" not in said
    assert "Traceback" not in said


def test_the_report_of_all_keeps_what_ended(tmp_path):
    (tmp_path / "all").mkdir()
    finding = {"name": "it holds", "paper": "yes", "ours": "yes", "holds": True}
    command = "holdfast reproduce ppa --repetitions 1 --events 20000 --quick --seed 1"
    folder = str(tmp_path / "all" / "ppa-small")
    done = {"command": command, "seed": 1, "seconds": 2.0, "error": None, "findings": [finding], "folder": folder, "document": {}}
    (tmp_path / "all" / "ppa-small.result.json").write_text(json.dumps(done))
    result = called("reproduce", "all", "--only", "ppa", "--small", "--out", tmp_path / "all")
    assert result.exit_code == 0, result.output
    assert "1 of 1 findings hold" in result.stdout
    assert f"{command}; seed 1" in (tmp_path / "all" / "all.html").read_text()
    other = called("reproduce", "all", "--only", "nothing", "--out", tmp_path / "all")
    assert "--only names 'nothing', which is no command; commands are: debs11" in str(other.exception)
