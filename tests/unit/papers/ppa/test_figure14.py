"""The comparison of planners: measurements, findings, and resuming after an interruption."""

import json

import pytest
from click.testing import CliRunner

from holdfast.errors import HoldfastError
from holdfast_papers.ppa.figure14 import AWARE, GREEDY, LITERAL, OURS, RATIOS, SETTINGS, findings, panels, table, units
from holdfast_papers.ppa.plans_command import ppa_plans


def record(unit, *, greedy: float, aware: float, ours: float, literal: float = 1.0, bound: float = 1.0) -> dict:
    rising = [ratio / RATIOS[-1] for ratio in RATIOS]
    return {
        "key": unit.key,
        "quality": {
            GREEDY: [greedy * r * r for r in rising],  # further behind at small ratios
            LITERAL: [literal * aware * r for r in rising],
            AWARE: [aware * r for r in rising],
            OURS: [ours * r for r in rising],
        },
        "bound": [bound * ours * r for r in rising],
    }


AS_IN_THE_PAPER = {
    "uniform": 0.5,
    "zipf 0.1": 0.6,
    "1 to 20 tasks": 0.65,
    "1 to 40 tasks": 0.7,
    "structured": 0.7,
    "full": 0.4,
    "no joins": 0.8,
}


def held(*, literal: float = 1.0, bound: float = 1.0, **changes) -> dict[str, bool]:
    aware = AS_IN_THE_PAPER | changes
    records = [
        record(
            unit,
            greedy=aware[unit.setting] * (0.95 if unit.setting == "full" else 0.7),
            aware=aware[unit.setting],
            ours=0.9,
            literal=literal,
            bound=bound,
        )
        for unit in units(1, 2)
    ]
    return {finding.name: finding.holds for finding in findings(panels(records))}


def test_shared_settings_are_computed_once():
    kinds = {(unit.panel, unit.setting) for unit in units(1, 5)}
    assert len(kinds) == len({repr(r) for settings in SETTINGS.values() for r in settings.values()}) == 7
    assert len({unit.key for unit in units(1, 5)}) == 35


def test_findings_hold_with_the_papers_numbers():
    holds = held()
    assert holds.pop("the advantage reaches an order of magnitude") is True
    assert all(holds.values())


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"uniform": 0.7}, "skewed workloads give higher fidelity"),
        ({"1 to 40 tasks": 0.3}, "more parallelism gives higher fidelity"),
        ({"full": 0.75}, "structured beat full topologies"),
        ({"no joins": 0.5}, "joins lower fidelity"),
        ({"structured": 0.95}, "ours is never below structure-aware"),
        ({"bound": 1.1}, "most of our plans are proven best"),
        ({"literal": 0.5}, "Algorithm 5 as printed is ahead of greedy in every setting and at every ratio"),
    ],
)
def test_finding_fails_with_other_numbers(changes, name):
    assert held(**changes)[name] is False


def test_table_has_every_planner_setting_and_ratio():
    rows = table(panels([record(unit, greedy=0.1, aware=0.2, ours=0.3) for unit in units(1, 1)]))
    assert len(rows) == sum(map(len, SETTINGS.values())) * 4 * len(RATIOS)
    assert {row["of"] for row in rows if row["ratio"] == RATIOS[-1]} == {0.1, 0.2, 0.3}


def test_run_writes_tables_and_pictures_and_resumes(tmp_path, monkeypatch):
    calls = []

    def measured(unit):
        calls.append(unit.key)
        return record(unit, greedy=0.1, aware=0.5, ours=0.6)

    monkeypatch.setattr("holdfast_papers.ppa.plans_command.measure_unit", measured)
    arguments = ["--out", str(tmp_path), "--topologies", "2", "--workers", "1", "--json"]
    first = CliRunner().invoke(ppa_plans, arguments)
    assert first.exit_code == 0, first.output
    assert len(calls) == 14
    report = json.loads(first.stdout)
    assert {check["holds"] for check in report["findings"]} == {True, False}
    assert sorted(p.name for p in tmp_path.iterdir() if not p.name.startswith(".")) == [
        "figure14.csv",
        *(f"figure14{panel}.svg" for panel in "abcd"),
        "findings.md",
        "records.jsonl",
        "report.json",
        "settings.json",
    ]
    records = tmp_path / "records.jsonl"
    lines = records.read_text().splitlines()
    records.write_text("\n".join(lines[:-1]) + "\n" + lines[-1][:20])  # killed while writing the last
    calls.clear()
    second = CliRunner().invoke(ppa_plans, arguments)
    assert second.stdout == first.stdout
    assert len(calls) == 1
    assert "13 of 14 records exist already" in second.stderr


def test_numbers_out_of_range_are_refused(tmp_path):
    result = CliRunner().invoke(ppa_plans, ["--out", str(tmp_path), "--topologies", "0"])
    assert isinstance(result.exception, HoldfastError)
    assert "--topologies must be at least 1, got 0" in str(result.exception)
