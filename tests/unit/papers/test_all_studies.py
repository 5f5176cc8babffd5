"""The command holdfast reproduce all."""

import json
import os
import signal
import subprocess
import sys
import time

import click
import psutil
import pytest
from click.testing import CliRunner

from holdfast.cli.main import root
from holdfast.report.page import heading, html_page, paragraph, table
from holdfast_papers import all_studies
from holdfast_papers.records import Records
from holdfast_papers.reproduce import STUDIES, reproduce


def invoke(*words: object):
    return CliRunner().invoke(root, [str(word) for word in words])


def test_findings_of_a_failed_command_are_reported(tmp_path, monkeypatch):
    document = {"findings": [{"name": "it keeps up", "paper": "yes", "ours": "no", "holds": False}]}
    answers = iter([(2, json.dumps(document)), (2, ""), (0, "no document")])
    monkeypatch.setattr(all_studies, "call_study", lambda words, **_: next(answers))
    result = invoke("reproduce", "all", "--only", "laar-pipeline,laar,ppa", "--out", tmp_path)
    assert "laar-pipeline    0 of 1 findings hold" in result.stdout
    assert "laar             ended with exit code 2; call it alone to see why: holdfast reproduce laar --seed 1" in result.stdout
    assert "ppa              its output is not a JSON document" in result.stdout
    assert "2 of 3 studies failed: laar, ppa; the same call runs them again" in str(result.exception)
    assert "it keeps up" in (tmp_path / "all.html").read_text()


def test_report_has_tables_and_pictures_of_every_command(tmp_path, monkeypatch):
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

    monkeypatch.setattr(all_studies, "call_study", answer)
    words = ("reproduce", "all", "--only", "laar,system-s", "--out", tmp_path / "all")
    result = invoke(*words)
    assert result.exit_code == 0, result.output
    text = (tmp_path / "all" / "all.html").read_text()
    for wanted in ("Figure 9", "1.89", "so said", "so found", "it heals", "in 2 s", "12.5", "orphans", "data:image/svg+xml"):
        assert wanted in text, wanted
    assert "told twice" not in text
    assert "Made by: holdfast reproduce laar --seed 1; seed 1" in text
    assert "Made by: holdfast reproduce system-s --seed 1; seed 1" in text
    assert len(asked) == 2
    invoke("reproduce", "all", "--only", "laar", "--out", tmp_path / "all")
    assert len(asked) == 2  # what is there is not run again
    assert "it heals" in (tmp_path / "all" / "all.html").read_text()  # nor is what an earlier call gave forgotten
    (tmp_path / "all" / "laar" / "records.jsonl").write_text("old")
    invoke(*words, "--again")
    assert len(asked) == 4
    assert not (tmp_path / "all" / "laar" / "records.jsonl").exists()


def test_master_and_profile_go_to_commands_that_take_them(tmp_path, monkeypatch):
    asked = {}
    monkeypatch.setattr(all_studies, "call_study", lambda words, **_: (asked.update({words[0]: words[1:-3]}), (0, "{}"))[1])
    profile = tmp_path / "web.csv"
    words = ("reproduce", "all", "--master", "spark://one:7077", "--profile", profile, "--out", tmp_path)
    assert "web.csv' does not exist" in invoke(*words).output  # told before hours of other commands
    profile.touch()
    invoke(*words)
    with_master = {name for name, words in asked.items() if "--master" in words}
    assert with_master == {"debs11", "laar", "laar-search", "objectives", "ppa", "ppa-plans"}
    assert asked["internet"] == ["--profile", str(profile), "--seed", "1"]
    assert asked["laar-pipeline"] == []


def test_every_command_runs_without_required_options():
    commands = [reproduce.get_command(click.Context(reproduce), name) for name in STUDIES]
    assert not [command.name for command in commands if any(param.required for param in command.params)]


def test_longest_command_runs_last(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(all_studies, "call_study", lambda words, **_: (asked.append(words[0]), (0, "{}"))[1])
    invoke("reproduce", "all", "--out", tmp_path)
    assert sorted(asked) == sorted(set(STUDIES) - {"all"})
    assert asked[-1] == "laar-search"


def test_every_random_command_has_a_seed(tmp_path, monkeypatch):
    monkeypatch.setattr(all_studies, "call_study", lambda words, **_: (0, "{}"))
    invoke("reproduce", "all", "--out", tmp_path)
    results = json.loads((tmp_path / "all.json").read_text())["commands"]
    assert {name for name, result in results.items() if result["seed"] is None} == {"laar-pipeline"}
    for name, result in results.items():
        assert name == "laar-pipeline" or f"--seed {result['seed']}" in result["command"]


def test_all_of_table_4_runs_unless_small(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(all_studies, "call_study", lambda words, **_: (asked.append(words), (0, "{}"))[1])
    for more in ((), ("--small",)):
        invoke("reproduce", "all", "--only", "isorc16", "--out", tmp_path, *more)
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
        monkeypatch.setattr(all_studies, "call_study", answer)
        return asked

    return set_up


def test_killed_again_run_resumes_with_the_rest(tmp_path, killed_in):
    words = ("reproduce", "all", "--only", "laar,ppa", "--out", tmp_path)
    asked = killed_in(None)
    invoke(*words)
    assert asked == ["laar", "ppa"]
    killed_in("ppa")
    invoke(*words, "--again")
    assert asked == ["laar", "ppa"]
    assert not (tmp_path / "ppa.result.json").exists()  # its folder is empty: nothing of it is there already
    (tmp_path / "laar" / "records.jsonl").write_text("made by this --again")
    killed_in(None)
    invoke(*words, "--again")
    assert asked == ["ppa"]
    assert (tmp_path / "laar" / "records.jsonl").exists()
    killed_in(None)
    invoke(*words, "--again")  # the one before has ended well: this one begins anew
    assert asked == ["laar", "ppa"]
    assert not (tmp_path / "laar" / "records.jsonl").exists()


def test_killed_again_run_resumes_without_the_option(tmp_path, killed_in):
    words = ("reproduce", "all", "--only", "laar", "--out", tmp_path)
    killed_in(None)
    invoke(*words)
    killed_in("laar")
    invoke(*words, "--again")
    asked = killed_in(None)
    invoke(*words)
    assert asked == ["laar"]


def test_seconds_of_a_command_add_up_over_calls(tmp_path, monkeypatch):
    def killed(words, *, meanwhile):
        meanwhile()
        raise KeyboardInterrupt

    words = ("reproduce", "all", "--only", "laar", "--out", tmp_path)
    monkeypatch.setattr(all_studies, "call_study", killed)
    invoke(*words)
    assert float((tmp_path / "laar.seconds").read_text()) >= 0
    (tmp_path / "laar.seconds").write_text("100.0\n")
    monkeypatch.setattr(all_studies, "call_study", lambda words, **_: (2, ""))
    invoke(*words)
    monkeypatch.setattr(all_studies, "call_study", lambda words, **_: (0, "{}"))
    invoke(*words)
    assert json.loads((tmp_path / "laar.result.json").read_text())["seconds"] >= 100
    assert not (tmp_path / "laar.seconds").exists()


def test_suggested_call_for_a_failed_command_is_complete(tmp_path, monkeypatch):
    monkeypatch.setattr(all_studies, "call_study", lambda words, **_: (2, ""))
    result = invoke("reproduce", "all", "--only", "ppa-plans", "--out", tmp_path)
    assert f"call it alone to see why: holdfast reproduce ppa-plans --seed 14 --out {tmp_path / 'ppa-plans'}" in result.stdout


def test_killed_call_ends_its_children_and_resumes(tmp_path):
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


def test_interrupt_lets_the_running_command_end(tmp_path):
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
    _, errors = call.communicate(timeout=120)
    assert call.returncode == 130
    assert errors.count("holdfast: interrupted") == 2  # the command's word and its own
    assert "Warning" not in errors
    assert "Traceback" not in errors


def test_report_keeps_earlier_results(tmp_path):
    (tmp_path / "all").mkdir()
    finding = {"name": "it holds", "paper": "yes", "ours": "yes", "holds": True}
    command = "holdfast reproduce ppa --repetitions 1 --events 20000 --quick --seed 1"
    folder = str(tmp_path / "all" / "ppa-small")
    done = {"command": command, "seed": 1, "seconds": 2.0, "error": None, "findings": [finding], "folder": folder, "document": {}}
    (tmp_path / "all" / "ppa-small.result.json").write_text(json.dumps(done))
    result = invoke("reproduce", "all", "--only", "ppa", "--small", "--out", tmp_path / "all")
    assert result.exit_code == 0, result.output
    assert "1 of 1 findings hold" in result.stdout
    assert f"{command}; seed 1" in (tmp_path / "all" / "all.html").read_text()
    other = invoke("reproduce", "all", "--only", "nothing", "--out", tmp_path / "all")
    assert "--only names 'nothing', which is not a study; studies are: debs11" in str(other.exception)
