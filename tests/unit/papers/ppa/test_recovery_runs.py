"""Real recoveries, measured from a history."""

from holdfast.app.load import load_app
from holdfast.documents.history import HistoryEvent
from holdfast_papers.ppa.recovery_run_findings import findings
from holdfast_papers.ppa.recovery_runs import APPLICATION, EPOCH_S, PES, TECHNIQUES, Cell, cells, schedule, silence_s


def output(at_s: float, kind: str = "first") -> HistoryEvent:
    return HistoryEvent(at_s, "n1", "output", {"sink": "out", "epoch": int(at_s), "as": kind, "quality": "exact", "rows": 1})


def test_silence_is_the_wait_beyond_an_epoch():
    events = [*(output(at) for at in (1.0, 2.0, 3.0, 7.5, 8.0, 9.0, 12.0)), output(5.0, "final")]
    assert silence_s(events, 3.5, 8.5, epoch_s=1.0) == 3.5
    assert silence_s(events, 8.5, float("inf"), epoch_s=1.0) == 2.0
    assert silence_s(events, 0.0, 2.5, epoch_s=1.0) == 0.0


def test_silence_ends_at_the_next_fault():
    events = [output(at) for at in (9.5, 13.0, 14.0, 15.0, 16.0, 26.0, 27.0)]
    one_s, all_s = 10.0, 16.5
    assert silence_s(events, one_s, all_s, epoch_s=1.0) == 2.5
    assert silence_s(events, all_s, float("inf"), epoch_s=1.0) == 9.0
    unended = [output(at) for at in (9.5, 26.0, 27.0)]
    assert silence_s(unended, one_s, all_s, epoch_s=1.0) == 6.0


def test_schedule_kills_only_primaries():
    one, all_ = schedule().faults
    assert one.target == ("o2/0.0",)
    assert set(all_.target) == {f"{pe}/0.0" for pe in PES}


def row(cell: Cell, silence: float, latency: float | None) -> dict[str, object]:
    figures = {"one_silence_s": silence, "all_silence_s": silence, "one_latency_s": latency, "all_latency_s": latency}
    return {"technique": cell.technique.name, "rate": cell.rate, "window": cell.window, **figures}


ORDERED = {
    "active (PPA-1.0)": (0.5, None),
    "half active (PPA-0.5)": (1.0, 1.0),
    "checkpoint 5 s": (2.0, 2.0),
    "checkpoint 15 s (PPA-0)": (3.0, 3.0),
    "source replay": (5.0, 5.0),
}


def test_findings_hold_only_in_the_papers_order():
    plain = cells(varied=False)
    assert all(finding.holds for finding in findings([row(cell, *ORDERED[cell.technique.name]) for cell in plain]))
    assert [finding.holds for finding in findings([row(cell, 1.0, 1.0) for cell in plain])] == [False, False, False, False, True]


def test_half_active_plan_must_lie_between_the_others():
    silences = ORDERED | {"half active (PPA-0.5)": (3.5, 1.0)}
    rows = [row(cell, *silences[cell.technique.name]) for cell in cells(varied=False)]
    failed = [finding.name for finding in findings(rows) if not finding.holds]
    assert failed == ["real runs: PPA-0.5 lies between PPA-1.0 and PPA-0"]


def test_findings_cover_other_rates_and_windows():
    def grown(by_s: float) -> list[bool]:
        rows = []
        for cell in cells(varied=True):
            silence, latency = ORDERED[cell.technique.name]
            later = latency + by_s if latency is not None and cell.name != cell.technique.name else latency
            rows.append(row(cell, silence if latency is not None else silence + by_s / 10, later))
        return [finding.holds for finding in findings(rows)][5:]

    assert grown(1.0) == [True, True, True]
    assert grown(-1.0) == [True, False, False]
    away = [row(cell, 5.0 if cell.rate > 400 else 0.5, 1.0) for cell in cells(varied=True)]
    assert not findings(away)[5].holds


def test_cells_have_unique_names():
    names = [cell.name for cell in cells(varied=True)]
    assert len(set(names)) == len(names) == 5 + 2 * 4
    assert names[:5] == [technique.name for technique in TECHNIQUES]
    assert names[5] == "active (PPA-1.0), 800 tuples/s, window 10 s"


def test_application_can_be_loaded(tmp_path):
    path = tmp_path / "windows.py"
    path.write_text(APPLICATION.format(window=20, pes=PES, epoch_s=EPOCH_S))
    graph = load_app(str(path)).graph()
    assert [operator.name for operator in graph.operators] == list(PES)
    assert {rule.n for operator in graph.operators for rule in operator.keep.values()} == {19}
