"""ISORC'16's real runs, without running them: the application they run, what is kept of them, and what is found."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.errors import HoldfastError
from holdfast.model.load import load_app
from holdfast.report.late_runs import late_parts, scaled
from holdfast.run.late_findings import late_findings
from holdfast.run.late_study import Cell, LateRun, Usage, fused_application

EXAMPLE = Path(__file__).parents[3] / "examples" / "datacenter_monitor.py"


def run(setting, latencies, *, fault="large", **more):
    return LateRun(
        Cell(5, fault, "medium"),
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
        usage=Usage(cpu_s=100.0, written_bytes=1 << 20),
        **more,
    )


def runs(**more):
    return [run("baseline", [1, 8, 5]), run("upstream", [1, 8, 5]), run("prediction", [1, 2, 1], **more)]


def verdicts(found):
    return {finding.name: finding.holds for finding in late_findings(found)}


@pytest.mark.parametrize("pes", [5, 9])
def test_the_monitor_runs_as_so_many_pes(tmp_path, pes):
    graph = load_app(fused_application(EXAMPLE, pes, tmp_path / "monitor.py")).graph()
    assert len(graph.pes) == pes
    assert graph.pes["readings"] == ("readings",)
    assert sum(map(len, graph.pes.values())) == len(graph.operators)


def test_other_numbers_of_pes_and_other_applications_are_refused(tmp_path):
    with pytest.raises(HoldfastError, match="the study runs 5 or 9 PEs, got 7"):
        fused_application(EXAMPLE, 7, tmp_path / "monitor.py")
    other = tmp_path / "other.py"
    other.write_text("app = None")
    with pytest.raises(HoldfastError, match="is not the datacenter monitor that this study knows; it has 0 operators"):
        fused_application(other, 5, tmp_path / "monitor.py")


def test_a_run_is_kept_as_json_and_read_again():
    made = run("prediction", [1.0, 2.5])
    assert LateRun.of(json.loads(json.dumps(made.document()))) == made


def test_findings_are_true_where_prediction_is_in_time():
    found = verdicts(runs())
    assert found["prediction's average end-to-end time is at most 39 % of upstream backup's (timeout 30 s, as in the paper)"]
    assert found["prediction's longest end-to-end time is below upstream backup's in every cell"]
    assert found["with large faults upstream backup differs little from the baseline"]
    assert found["every predicted or tentative result was corrected in the end"]


def test_findings_are_false_where_it_is_not():
    late = [*runs()[:2], replace(runs()[2], latencies_s=(3.0, 9.0, 3.0), corrected=False)]
    found = verdicts(late)
    assert not found["prediction's average end-to-end time is at most 39 % of upstream backup's (timeout 30 s, as in the paper)"]
    assert not found["prediction's longest end-to-end time is below upstream backup's in every cell"]
    assert not found["every predicted or tentative result was corrected in the end"]


def test_without_all_three_settings_nothing_is_found():
    assert late_findings(runs()[:2]) == []


def test_the_page_has_the_paper_s_figures_beside_ours():
    page = "".join(late_parts(runs(), about=scaled(runs())))
    assert "524.27, 6667.13" in page
    assert "epochs of 1 s" in page
