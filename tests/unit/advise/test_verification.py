"""Real kills are compared with stated costs, in hand-written histories."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from holdfast.advise.verification import (
    Kill,
    StatedCost,
    Verified,
    kills_of,
    progress_of,
    run_s,
    schedule_of,
    seconds_for,
    victims_of,
)
from holdfast.app import App
from holdfast.documents.history import HistoryEvent
from holdfast.trial.checkers import Verdict

STATED = {"count": StatedCost(True, 0.9, 1.0, 1.0), "sum": StatedCost(False, 0.5, 1.2, 3.0)}
VICTIMS = {"count": ("count/0",), "sum": ("sum/0",)}


def history(*, noticed=("count", "sum"), inexact=()):
    """Epoch n leaves at second n; count is killed at 10 and sum at 20."""
    events = [
        HistoryEvent(float(at), "chaos", "fault", {"what": f"crash {pe}", "tasks": []}) for at, pe in ((10, "count"), (20, "sum"))
    ]
    events += [
        HistoryEvent(at + 0.5, "orchestrator", "detected", {"tasks": [f"{pe}/0"]})
        for at, pe in ((10, "count"), (20, "sum"))
        if pe in noticed
    ]
    for epoch in range(30):
        quality = "tentative" if epoch in inexact else "exact"
        events.append(
            HistoryEvent(float(epoch), "sink", "output", {"sink": "out", "as": "first", "epoch": epoch, "quality": quality})
        )
    return sorted(events, key=lambda event: event.at_s)


def kills(events, quality=lambda epochs: 1.0, victims=VICTIMS):
    return kills_of(events, victims, STATED, opened_s=2.0, quality=quality, epoch_s=1.0)


def test_kill_is_judged_by_output_until_the_next_kill():
    observed = []
    one, other = kills(history(inexact=[5, 21, 22]), lambda epochs: observed.append(list(epochs)) or 0.8)
    assert (one.at_s, one.epochs, one.inexact) == (8.0, 10, 0)
    assert (other.epochs, other.inexact, other.holds) == (10, 2, True)  # without a replica: 2 of 10 s, and 3 were stated
    assert one.holds is False  # with one, 1 s was the worst that was stated
    assert observed == [list(range(10, 20)), list(range(20, 30))]


def test_result_states_what_kills_do_not_show():
    verified = Verified(kills(history()), ())
    assert verified.lines()[-1] == verified.document()["shown"] == verified.shown
    assert "A PE without a replica restarts from its checkpoint before an outage of the trials would end" in verified.shown
    assert "of the loss of a node, or of several failures at once." in verified.shown


def test_progress_counts_from_the_first_epoch():
    shown_lines, clock = [], iter([99.0, 105.5, 500.0])
    show = progress_of(2, lambda *seconds: shown_lines.append(seconds), clock=lambda: next(clock))
    show({}, [], None)
    for _ in range(3):
        show({}, [], SimpleNamespace(opened_s=100.0))
    assert run_s(2) == 28.0
    assert shown_lines == [(0, 28), (5, 28), (28, 28)]


def test_epoch_counts_once_for_several_sinks():
    one_sink = history(inexact=[21])
    other = [replace(event, about={**event.about, "sink": "log"}) for event in one_sink if event.kind == "output"]
    one, two = kills(sorted([*one_sink, *other], key=lambda event: event.at_s))
    assert (one.epochs, one.inexact, two.epochs, two.inexact) == (10, 0, 10, 1)


def test_kill_with_a_replica_must_not_affect_output():
    one, _ = kills(history(inexact=[12]))
    assert one.holds is False and "1 of 10 epochs were tentative or absent" in str(one)


def test_unnoticed_kill_proves_nothing():
    verified = Verified(kills(history(noticed=["sum"])), ())
    assert verified.kills[0].holds is None and not verified.holds
    assert "did not detect the kill" in verified.lines()[1]


def test_kill_after_the_end_of_the_run_proves_nothing():
    events = [event for event in history() if not (event.kind == "fault" and event.at_s == 20)]
    verified = Verified(kills(events), ())
    assert [kill.holds for kill in verified.kills] == [True, None]
    assert verified.lines()[-2] == "sum (without one): the run ended before the kill, so it shows nothing"
    never = json.loads(json.dumps(verified.document(), allow_nan=False))["kills"][1]
    assert (never["at_s"], never["quality"], never["holds"]) == (None, None, None)


def test_unexpected_output_breaks_the_stated_cost():
    one, _ = kills(history(), quality=lambda epochs: float("inf"))
    assert one.holds is False
    assert "infinite quality: there was output where none was expected" in str(one)
    assert json.loads(json.dumps(Verified((one,), ()).document(), allow_nan=False))["kills"][0]["quality"] is None


def test_kill_is_noticed_when_all_its_tasks_are_detected():
    two = {"count": ("count/0", "count/1"), "sum": ("sum/0",)}
    assert [kill.noticed for kill in kills(history(), victims=two)] == [False, True]
    missed = HistoryEvent(10.6, "orchestrator", "detected", {"tasks": ["count/1"]})
    events = sorted([*history(), missed], key=lambda event: event.at_s)
    assert [kill.noticed for kill in kills(events, victims=two)] == [True, True]


@pytest.mark.parametrize(("quality", "holds"), [(1.0, True), (0.5, True), (0.49, False), (1.5, True), (1.51, False)])
def test_kill_may_cost_less_than_stated_but_not_more(quality, holds):
    assert Kill("sum", 10.0, True, 3, 2, quality, StatedCost(False, 0.9, 1.2, 3.0), 2.0).holds is holds
    assert "at most as many seconds of output" in Verified((), ()).lines()[0]


def test_cost_of_a_kill_scales_with_its_epochs():
    stated = StatedCost(False, 0.43, 0.97, 15.0)  # a long outage over a longer stretch, of which much was left
    short, long = (Kill("market", 44.0, True, epochs, 6, 0.14, stated, 1.0) for epochs in (9, 90))
    assert (short.holds, long.holds) == (True, False)
    assert str(short).endswith("; quality 0.14, which costs 7.74 s of output; stated: 15 s of it at most (quality 0.43 to 0.97)")
    assert Verified((short,), ()).document()["kills"][0]["cost_s"] == pytest.approx(7.74)


def test_failed_checker_breaks_the_verification():
    lost = Verdict("nothing lost", False, "1 epoch never left")
    assert not Verified(kills(history()), (lost,)).holds
    assert (
        Verified(kills(history()), (Verdict("nothing lost", True, "all left"),))
        .lines()[0]
        .startswith("Real kills: the promise held. A kill may cost at most")
    )


def test_all_tasks_of_a_unit_are_killed_together():
    app = App("line")
    rows = app.source("rows", "seq long, time timestamp, x double, key string", key="key", parallelism=3)
    a = app.operator(inputs=rows, name="a", pe="both")(lambda rows: rows)
    app.sink("out", app.operator(inputs=a, name="b", pe="both")(lambda rows: rows))
    victims = victims_of(app.graph(), ["a+b", "rows"])
    assert victims == {"a+b": ("both/0",), "rows": ("rows/0", "rows/1", "rows/2")}
    faults = schedule_of(victims.values()).faults
    assert [(fault.at_s, fault.target) for fault in faults] == [(12.0, ("both/0.0",)), (20.0, ("rows/0.0", "rows/1.0", "rows/2.0"))]


@pytest.mark.parametrize(("epoch_s", "wanted"), [(1.0, 36.0), (0.5, 36.0), (10.0, 360.0)])
def test_long_epochs_are_replayed_faster(epoch_s, wanted):
    assert seconds_for(3, epoch_s) == wanted
