"""ISORC'16's real runs, without running them: their application, their records and their findings."""

import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from click.testing import CliRunner

from holdfast.app.load import load_app
from holdfast.documents.document import check_document
from holdfast.documents.job import Job
from holdfast.errors import HoldfastError
from holdfast.log.timeline import Timeline
from holdfast.prediction.contract_terms import check_contract
from holdfast.trial import LocalCluster
from holdfast_papers.isorc16 import late_runs as late_runs_module
from holdfast_papers.isorc16.command import isorc16
from holdfast_papers.isorc16.late_run_findings import late_findings
from holdfast_papers.isorc16.late_run_report import late_parts, scaled
from holdfast_papers.isorc16.late_runs import Cell, LateRun, Usage, fused_application
from holdfast_papers.isorc16.runs_command import check_lengths, chosen_cells, late_runs

EXAMPLE = Path(__file__).parents[4] / "examples" / "datacenter_monitor.py"


def run(setting, latencies, *, pes=5, fault="large", data="medium", memory=1 << 30, **more):
    return LateRun(
        Cell(pes, fault, data),
        setting,
        1.0,
        "completed",
        tuple(latencies),
        tuple(15.0 + second for second in range(len(latencies))),
        (20.0,) * 40,
        ((15.0, ("cpu/0",)),),
        {"exact": len(latencies)},
        corrected=True,
        accuracy=0.9 if setting == "prediction" else None,
        usage=Usage(cpu_s=100.0, memory_bytes=memory, written_bytes=1 << 20, read_bytes=1 << 22),
        **more,
    )


def runs():
    """Return runs with which every finding holds that needs one cell only."""
    prediction = run("prediction", [1, 2, 1])
    usage = Usage(cpu_s=110.0, memory_bytes=1 << 30, written_bytes=1 << 19, read_bytes=1 << 21, agents_cpu_s=5.0)
    prediction = replace(prediction, usage=usage, rows_s=(20.0,) * 40, qualities={"exact": 2, "predicted": 1})
    others = [
        replace(run(setting, latencies), rows_s=(20.0,) * 20 + (0.0,) * 20)
        for setting, latencies in (("baseline", [1, 8, 5]), ("upstream", [1, 8, 5]), ("upstream at the deadline", [1, 3, 2]))
    ]
    return [*others, prediction]


def verdicts(late):
    return {finding.name: finding.holds for finding in late_findings(late)}


@pytest.mark.parametrize("pes", [5, 9])
def test_monitor_has_the_requested_number_of_pes(tmp_path, pes):
    graph = load_app(fused_application(EXAMPLE, pes, tmp_path / "monitor.py")).graph()
    assert len(graph.pes) == pes
    assert graph.pes["readings"] == ("readings",)
    assert sum(map(len, graph.pes.values())) == len(graph.operators)


def test_other_pe_counts_and_applications_are_refused(tmp_path):
    with pytest.raises(HoldfastError, match="the study runs 5 or 9 PEs, got 7"):
        fused_application(EXAMPLE, 7, tmp_path / "monitor.py")
    other = tmp_path / "other.py"
    other.write_text("app = None")
    with pytest.raises(HoldfastError, match="is not the datacenter monitor that this study knows; it has 0 operators"):
        fused_application(other, 5, tmp_path / "monitor.py")


def test_usage_includes_agents_that_have_ended(tmp_path):
    for number, written in enumerate((1000, 500)):
        folder = tmp_path / f"n{number}" / "agents" / "1-a"
        folder.mkdir(parents=True)
        status = {"pid": 1, "cpu_s": 2.0, "memory_bytes": 10, "about": {"written_bytes": written, "read_bytes": 3 * written}}
        (folder / "host.json").write_text(json.dumps(status))
    cluster = LocalCluster(tmp_path, nodes=0)
    assert late_runs_module._usage(cluster) == Usage(
        cpu_s=4.0, memory_bytes=20, written_bytes=1500, agents_cpu_s=4.0, read_bytes=4500
    )


def test_process_that_ends_meanwhile_does_not_count(monkeypatch):
    with subprocess.Popen([sys.executable, "-c", "pass"]) as child:
        ended = psutil.Process(child.pid)
    monkeypatch.setattr(psutil.Process, "children", lambda process, recursive: [ended])
    used = late_runs_module._usage(SimpleNamespace(pe_host_pids=lambda: [os.getpid()], agent_statuses=list))
    assert used.cpu_s > 0
    assert late_runs_module._usage(SimpleNamespace(pe_host_pids=lambda: [child.pid], agent_statuses=list)) == Usage()


def test_run_survives_writing_and_reading():
    stored = run("prediction", [1.0, 2.5])
    assert LateRun.of(json.loads(json.dumps(stored.document()))) == stored


class Runs:
    """Stands for real runs: notes which settings were asked for, and is killed at one of them."""

    def __init__(self):
        self.asked, self.killed_at = [], None

    def run_cell(self, cell, settings, *, done, epoch_s, seconds, seed, **_):
        for setting in settings:
            if setting == self.killed_at:
                raise KeyboardInterrupt
            self.asked.append(setting)
            done(replace(run(setting, [1.0], fault=cell.fault), epoch_s=epoch_s, seconds=seconds, seed=seed))


@pytest.fixture
def ran(monkeypatch):
    recorder = Runs()
    monkeypatch.setattr(late_runs_module, "run_cell", recorder.run_cell)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    return recorder


CELL, NAMES = Cell(5, "large", "medium"), ["upstream", "prediction"]


def make_runs(folder, *, cells=(CELL,), settings=NAMES, seconds=150.0, seeds=(1, 2)):
    return late_runs(folder, cells, settings, epoch_s=1.0, seconds=seconds, seeds=seeds)


def test_stored_runs_are_reused(tmp_path, ran):
    for seconds, seeds in ((150.0, (1, 2)), (150.0, (2, 1)), (60.0, (1, 2)), (150.0, (1, 3))):
        results = make_runs(tmp_path, seconds=seconds, seeds=seeds)
        expected = [(name, seconds, seed) for seed in seeds for name in NAMES]
        assert [(each.setting, each.seconds, each.seed) for each in results] == expected
    assert ran.asked == NAMES * 5  # two seeds, none, two seeds of another length, one more seed


def test_only_the_runs_that_are_missing_after_an_interruption_are_made(tmp_path, ran):
    ran.killed_at = "prediction"
    with pytest.raises(KeyboardInterrupt):
        make_runs(tmp_path)
    with (tmp_path / "runs.jsonl").open("a") as file:
        file.write('{"cell": {"pes"')
    ran.killed_at = None
    assert [(each.setting, each.seed) for each in make_runs(tmp_path)] == [(name, seed) for seed in (1, 2) for name in NAMES]
    assert ran.asked == ["upstream", "prediction", "upstream", "prediction"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'\n{"cell": {}}\n', r"runs\.jsonl', line 2, is not a run of this version \(TypeError: .*; move the file away"),
        (b"3\n", r"runs\.jsonl', line 1, is not a run of this version"),
        (b"\xff\xfe\n", r"runs\.jsonl' cannot be read: .*; move it away, or give another --out"),
    ],
)
def test_foreign_run_file_is_reported(tmp_path, ran, content, message):
    (tmp_path / "runs.jsonl").write_bytes(content)
    with pytest.raises(HoldfastError, match=message):
        make_runs(tmp_path)


@pytest.mark.parametrize(
    ("epoch_s", "seconds", "message"),
    [
        (float("nan"), 75.0, r"--epoch must be from 0\.2 to 5 seconds, got nan"),
        (1.0, 30.0, "--seconds must be at least 31, for one stall after the warm-up; got 30"),
        (1.0, float("nan"), "--seconds must be at least 31, for one stall after the warm-up; got nan"),
        (1.0, float("inf"), "--seconds must be at least 31, for one stall after the warm-up; got inf"),
    ],
)
def test_invalid_lengths_are_refused_before_any_run(tmp_path, epoch_s, seconds, message):
    with pytest.raises(HoldfastError, match=message):
        check_lengths(epoch_s, seconds)
    result = CliRunner().invoke(isorc16, ["--out", str(tmp_path / "out"), "--epoch", str(epoch_s), "--seconds", str(seconds)])
    assert re.search(message, str(result.exception))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("epoch_s", [0.2, 1.0, 5.0])
@pytest.mark.parametrize("setting", late_runs_module.SETTINGS)
def test_every_setting_is_a_valid_contract(setting, epoch_s):
    job = {"job": "j", "application": "a.py", "log": "x", "contract": late_runs_module.contract_for(setting, epoch_s=epoch_s)}
    contract = check_document(job, Job, thing="job").contract
    assert check_contract(contract, epoch_s) == []
    assert contract.reroute_after_s == (30.0 if setting == "upstream" else epoch_s)


def test_cell_named_twice_runs_once():
    assert chosen_cells("5/large/medium, 5/large/medium", full=False) == [Cell(5, "large", "medium")]


def test_findings_hold_when_prediction_is_in_time():
    assert all(verdicts(runs()).values())


def cell(averages, **more):
    return [
        run(setting, [average], **more) for setting, average in zip(("baseline", "upstream", "prediction"), averages, strict=True)
    ]


def test_papers_clock_starts_half_an_epoch_earlier():
    first, second, *_ = late_findings(cell((2.0, 2.0, 0.6)))
    assert (first.ours, first.holds) == ("44.0%; from an epoch's close 30.0%", False)
    assert (second.paper, second.holds) == ("46 % (mean of its Table 4)", True)  # 46 % is what the paper's table yields
    assert "at most 46% of" in second.name


def test_medians_over_the_seeds_decide_and_are_shown_with_their_interval():
    by_seed = [replace(each, seed=seed) for seed in range(5) for each in cell((9.0, 9.5, 0.9 if seed else 9.0))]
    first = late_findings(by_seed)[0]
    assert (first.ours, first.holds) == ("14.0% (14.0% to 95.0%); from an epoch's close 9.5% (9.5% to 94.7%)", True)
    (row,) = [line for line in "".join(late_parts(by_seed, about="")).split("<tr>") if "14%" in line or "9% (9% to 95%)" in line][
        :1
    ]
    assert "0.90 (0.90 to 9.00)" in row


ALIKE = "with large faults upstream backup differs little from the baseline"
LARGER = "large faults make the average longer than small ones for every setting"
SENSITIVE = "prediction is more sensitive to large faults than the others"
MORE = "more input makes prediction's average longer"
BEATEN = "with large faults and large input upstream backup is faster than all"
FASTER = "upstream backup is faster on a larger system"
MEMORY = "memory is much the same in every setting"


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (cell((2, 2, 1)), {MEMORY: True}),
        ([*cell((2, 2, 1))[:2], run("prediction", [1], memory=2 << 30)], {MEMORY: False}),
        (cell((2, 2, 1), fault="small") + cell((3, 3, 2)), {LARGER: True, SENSITIVE: True, MEMORY: True}),
        (cell((2, 2, 1), fault="small") + cell((4, 4, 1)), {LARGER: False, SENSITIVE: False, MEMORY: True}),
        (cell((2, 2, 1), data="small") + cell((2, 2, 0.9)), {MORE: False, MEMORY: True}),
        (cell((2, 2, 1.1)) + cell((2, 2, 1), data="small"), {MORE: True, MEMORY: True}),
        (cell((2, 2, 1), data="large"), {BEATEN: False, MEMORY: True}),
        (cell((2, 1, 2), data="large"), {BEATEN: True, MEMORY: True}),
        (cell((2, 2, 1)) + cell((2, 1.5, 1), pes=9), {FASTER: True, MEMORY: True}),
        (cell((2, 2, 1)) + cell((2, 2.5, 1), pes=9), {FASTER: False, MEMORY: True}),
    ],
)
def test_findings_between_cells_need_those_cells(cells, expected):
    results = verdicts(cells)
    assert {name: results.get(name) for name in (LARGER, SENSITIVE, MORE, BEATEN, FASTER, MEMORY) if name in results} == expected


CHANGES = {
    "at most 39%": {"latencies_s": (3.0, 9.0, 3.0)},
    "at most 46%": {"latencies_s": (3.0, 9.0, 3.0)},
    "deadline as timeout": {"latencies_s": (1.0, 4.0, 2.0)},
    "longest": {"latencies_s": (1.0, 8.0, 1.0)},
    "dips": {"rows_s": (0.0,) * 40},
    "more CPU": {"usage": Usage(cpu_s=100.0, memory_bytes=1 << 30)},
    "12 % more": {"usage": Usage(cpu_s=120.0, memory_bytes=1 << 30)},
    "memory": {"usage": Usage(cpu_s=110.0, memory_bytes=2 << 30)},
    "sends less": {"usage": Usage(written_bytes=1 << 20)},
    "receives less": {"usage": Usage(read_bytes=1 << 22)},
    "within 5 %": {"accuracy": 0.7},
    "corrected": {"corrected": False},
}
ONE_CELL = set(verdicts(runs()))
BETWEEN_CELLS = {LARGER, SENSITIVE, MORE, BEATEN, FASTER}


@pytest.mark.parametrize("part", CHANGES)
def test_finding_fails_with_other_data_of_prediction(part):
    *others, prediction = runs()
    results = verdicts([*others, replace(prediction, **CHANGES[part])])
    (name,) = [name for name in results if part in name]
    assert not results[name]


def test_nothing_corrected_is_no_correction_and_no_prediction_not_accurate():
    exact = [replace(each, qualities={"exact": 3}, accuracy=None) for each in runs()]
    failing = {name for name, holds in verdicts(exact).items() if not holds}
    assert failing == {name for name in ONE_CELL if "corrected" in name or "within 5 %" in name}


def test_every_finding_of_one_cell_has_data_that_make_it_fail():
    assert {name for name in ONE_CELL if not any(part in name for part in CHANGES)} == {ALIKE}
    assert not verdicts(cell((2, 3, 1)))[ALIKE]


def test_settings_that_were_not_run_have_no_findings():
    assert ALIKE not in verdicts(cell((2, 2, 1), fault="small"))
    assert ALIKE in verdicts(cell((2, 2, 1)))


def test_findings_need_the_settings_that_they_compare():
    assert late_findings(runs()[:2]) == []
    without_baseline, all_settings = verdicts(runs()[1:]), verdicts(runs())
    assert [name for name in all_settings if name in without_baseline] == list(without_baseline)
    assert len(without_baseline) == 6


def test_page_has_the_papers_figures():
    page = "".join(late_parts(runs(), about=scaled(runs())))
    assert "524.27, 6667.13" in page
    assert "epochs of 1 s" in page
    assert "prediction uses 12 % more CPU than the others" in page
    assert "Table 4 itself yields 46%" in page
    assert page.count("<svg") == 6  # end-to-end time, throughput, CPU, memory, bytes written, bytes read


def test_progress_of_a_cell_is_in_seconds_of_its_runs(monkeypatch):
    lines, now = [], SimpleNamespace(time=lambda: 130.0)
    monkeypatch.setattr(late_runs_module, "time", now)
    show = late_runs_module._progress_callback(lines.append, 60.0, 75.0)
    show({}, [], None)  # nothing has begun
    for opened_s in (131.0, 100.0, 10.0):
        show({}, [], Timeline(first=1, last=75, epoch_s=1.0, opened_s=opened_s))
    assert lines == [60.0, 90.0, 135.0]
    assert late_runs_module.cell_s(["upstream", "prediction"], seconds=75.0) == 60.0 + 2 * 75.0


def test_stored_and_current_runs_are_printed(tmp_path, ran, capsys):
    cells = [Cell(5, fault, "medium") for fault in ("small", "large")]
    make_runs(tmp_path, cells=cells[:1])
    capsys.readouterr()
    make_runs(tmp_path, cells=cells)
    text = capsys.readouterr().err
    assert f"4 of 8 runs are in {tmp_path / 'runs.jsonl'}" in text
    assert "5 PEs, large faults, medium input, seed 2 (2 of 2): a minute of warm-up, then upstream, prediction, 150 s each" in text
