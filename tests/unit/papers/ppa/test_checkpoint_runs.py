"""The cost of checkpoints, computed from a history."""

import pytest

from holdfast.documents.history import HistoryEvent
from holdfast.errors import HoldfastError
from holdfast_papers.ppa.checkpoint_runs import APPLICATION, INTERVALS, PES, RATES, SECONDS, WINDOW, costs_of, findings


def checkpoint(pe: str, since: int, epoch: int, *, took_s: float = 0.5, worked_s: float = 10.0) -> HistoryEvent:
    about = {"task": f"{pe}/0", "since": since, "epoch": epoch, "rows": 100, "took_s": took_s, "worked_s": worked_s}
    return HistoryEvent(float(epoch), "n1", "checkpoint", about)


def history(seconds: int = SECONDS) -> list[HistoryEvent]:
    """Checkpoints of 0.5 s, epochs of 0.25 s, and one at the end."""
    events = []
    for pe, interval in PES.items():
        ends = [*range(interval - 1, seconds - 1, interval), seconds - 1]
        events += [checkpoint(pe, end, next_, worked_s=0.25 * (next_ - end)) for end, next_ in zip([-1, *ends], ends, strict=False)]
    return events


def test_share_is_checkpoint_time_of_processing_time():
    costs = costs_of(history(), 500, full=WINDOW - 1)
    assert [cost.interval_s for cost in costs] == list(INTERVALS)
    assert [cost.share for cost in costs] == [0.5 / (0.25 * interval) for interval in INTERVALS]
    assert {(cost.checkpoint_s, cost.epoch_s, cost.rows, cost.rate) for cost in costs} == {(0.5, 0.25, 100.0, 500)}


def test_early_and_last_checkpoints_do_not_count():
    events = [event for event in history() if event.about["task"] != "every_5/0"]
    early, late = checkpoint("every_5", 24, 29, took_s=9.0), checkpoint("every_5", 119, 121, took_s=9.0)
    costs = costs_of([*events, early, checkpoint("every_5", 29, 34), late], 500, full=29)
    assert [(cost.checkpoints, cost.checkpoint_s) for cost in costs if cost.interval_s == 5] == [(1, 0.5)]


def test_run_has_three_checkpoints_of_the_longest_interval():
    assert costs_of(history(), 500, full=WINDOW - 1)[-1].checkpoints == 3


def test_one_slow_checkpoint_changes_nothing():
    calm = costs_of(history(), 500, full=WINDOW - 1)
    (late,) = [event for event in history() if event.about["task"] == "every_30/0" and event.about["epoch"] == 89]
    late.about["took_s"], late.about["worked_s"] = 60.0, 90.0
    others = [event for event in history() if (event.about["task"], event.about["epoch"]) != ("every_30/0", 89)]
    assert costs_of([*others, late], 500, full=WINDOW - 1) == calm


def test_task_without_checkpoints_is_reported():
    events = [event for event in history() if event.about["task"] != "every_30/0"]
    with pytest.raises(HoldfastError, match="PE 'every_30': expected a checkpoint every 30 epochs after epoch 29, but the history"):
        costs_of(events, 500, full=29)


def test_findings_hold_only_in_the_papers_order():
    def runs(*shares: float) -> list[dict[str, object]]:
        costs = [{"interval_s": interval, "share": share} for interval, share in zip(INTERVALS, shares, strict=True)]
        return [{"rate": rate, "costs": costs} for rate in RATES]

    assert [finding.holds for finding in findings(runs(3.0, 0.6, 0.2, 0.1))] == [True, True]
    assert [finding.holds for finding in findings(runs(0.9, 0.6, 0.2, 0.1))] == [True, False]
    assert [finding.holds for finding in findings(runs(3.0, 0.6, 0.6, 0.1))] == [False, True]


def test_application_can_be_loaded(tmp_path):
    from holdfast.app.load import load_app

    path = tmp_path / "checkpoints.py"
    path.write_text(APPLICATION)
    graph = load_app(str(path)).graph()
    assert [operator.name for operator in graph.operators] == sorted(PES)
