"""The switching time of a run, from small histories."""

from dataclasses import asdict

from holdfast.documents.history import HistoryEvent
from holdfast.trial.switch_times import Switch, describe_switch, switches


def chosen(at_s, configuration):
    about = {"text": f"input configuration is now {configuration}", "what": "decision", "configuration": configuration}
    return HistoryEvent(at_s + 1, "run", "orchestrator", {**about, "reported_s": at_s})  # the listener hears of it later


def ordered(at_s, replica, text):
    return HistoryEvent(at_s + 1, "run", "orchestrator", {"text": text, "what": "replica", "replica": replica, "reported_s": at_s})


def switched(at_s, replica, *, active):
    return HistoryEvent(at_s, "n1", "switched", {"replica": replica, "node": "n1", "active": active})


START = [chosen(1.0, "low"), ordered(1.1, "1:a/0.1", "activated"), switched(1.4, "1:a/0.1", active=True)]
TO_HIGH = [
    chosen(10.0, "high"),
    ordered(10.1, "1:b/0.0", "activated"),
    switched(10.6, "1:b/0.0", active=True),
    ordered(10.7, "1:a/0.1", "idled"),
    ordered(10.7, "1:b/0.1", "idled"),
    switched(10.8, "1:a/0.1", active=False),
    switched(11.5, "1:b/0.1", active=False),
]


def test_switching_takes_until_the_last_replica_has_followed():
    assert switches([*START, *TO_HIGH]) == [Switch("high", 10.0, 0.6, 1.5)]
    assert switches(START) == []  # no change
    line = "switched to high: replicas on after 0.6 s, replicas off after 1.5 s"
    assert describe_switch(asdict(Switch("high", 10.0, 0.6, 1.5))) == line


def test_replica_that_never_follows_leaves_the_switch_open():
    assert switches([*START, *TO_HIGH[:-1]]) == [Switch("high", 10.0, 0.6, None)]


def test_late_effect_belongs_to_the_switch_that_ordered_it():
    back = [chosen(11.0, "low"), ordered(11.1, "1:a/0.1", "activated"), switched(11.9, "1:a/0.1", active=True)]
    assert switches([*START, *TO_HIGH, *back]) == [Switch("high", 10.0, 0.6, 1.5), Switch("low", 11.0, 0.9, None)]
