"""What real kills are held against, from histories made by hand."""

import pytest

from holdfast.advise.verify import Stated, Verified, kills_of, seconds_for, targets_of
from holdfast.model import App
from holdfast.run.checkers import Verdict
from holdfast.run.history import Event

STATED = {"count": Stated(True, 0.9, 1.0), "sum": Stated(False, 0.5, 1.2)}
TARGETS = {"count": ("count",), "sum": ("sum",)}


def history(*, noticed=("count", "sum"), inexact=()):
    """Epoch n leaves at second n; count is killed at 10 and sum at 20."""
    events = [Event(float(at), "chaos", "fault", {"what": f"crash {pe}", "tasks": []}) for at, pe in ((10, "count"), (20, "sum"))]
    events += [
        Event(at + 0.5, "orchestrator", "detected", {"tasks": [f"{pe}/0"]})
        for at, pe in ((10, "count"), (20, "sum"))
        if pe in noticed
    ]
    for epoch in range(30):
        quality = "tentative" if epoch in inexact else "exact"
        events.append(Event(float(epoch), "sink", "output", {"sink": "out", "as": "first", "epoch": epoch, "quality": quality}))
    return sorted(events, key=lambda event: event.at_s)


def kills(events, quality=lambda epochs: 1.0):
    return kills_of(events, TARGETS, STATED, opened_s=2.0, quality=quality)


def test_each_kill_is_judged_by_what_left_until_the_next():
    seen = []
    one, other = kills(history(inexact=[5, 21, 22]), lambda epochs: seen.append(list(epochs)) or 0.8)
    assert (one.at_s, one.epochs, one.inexact) == (8.0, 10, 0)
    assert (other.epochs, other.inexact, other.holds) == (10, 2, True)  # without a replica, 0.8 lies within 0.5 to 1.2
    assert one.holds is False  # with one, 0.9 was the worst that was stated
    assert seen == [list(range(10, 20)), list(range(20, 30))]


def test_an_operator_with_a_replica_may_not_show_at_all():
    one, _ = kills(history(inexact=[12]))
    assert one.holds is False and "1 of 10 epochs left tentative or absent" in str(one)


def test_a_kill_that_nobody_noticed_proves_nothing():
    verified = Verified(kills(history(noticed=["sum"])), ())
    assert verified.kills[0].holds is None and not verified.holds
    assert "nobody noticed" in verified.said()[1]


def test_a_kill_that_never_came_proves_nothing():
    events = [event for event in history() if not (event.kind == "fault" and event.at_s == 20)]
    assert [kill.holds for kill in kills(events)] == [True, None]


def test_a_run_that_lost_something_breaks_the_promise():
    lost = Verdict("nothing lost", False, "1 epochs never left")
    assert not Verified(kills(history()), (lost,)).holds
    assert Verified(kills(history()), (Verdict("nothing lost", True, "all left"),)).said()[0] == "Real kills: the promise held."


def test_a_pe_is_killed_once_for_all_its_operators():
    app = App("line")
    rows = app.source("rows", "seq long, time timestamp, x double")
    a = app.operator(inputs=rows, name="a", pe="both")(lambda rows: rows)
    app.sink("out", app.operator(inputs=a, name="b", pe="both")(lambda rows: rows))
    assert targets_of(app.graph(), ["a", "rows", "b"]) == {"both": ("a", "b"), "rows": ("rows",)}


@pytest.mark.parametrize(("epoch_s", "wanted"), [(1.0, 36.0), (0.5, 36.0), (10.0, 360.0)])
def test_long_epochs_are_replayed_faster_and_need_more_of_the_trace(epoch_s, wanted):
    assert seconds_for(3, epoch_s) == wanted
