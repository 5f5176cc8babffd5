"""Tests of what a run's history takes from its orchestrator."""

import json
import threading

from holdfast.documents.history import History
from holdfast.trial.job_run import _Listener


class Orchestrator:
    """What stands for a cluster's client: it tells some events, then nothing."""

    def __init__(self, events):
        self.client, self._events, self.told = self, events, threading.Event()

    def events(self, *, after, wait_s):
        if after:
            self.told.set()
            threading.Event().wait(0.01)
        return {"events": [event for event in self._events if event["number"] > after]}


def heard(tmp_path, events):
    """What a run's history has of these events."""
    history, orchestrator = History(tmp_path / "history.jsonl", "run"), Orchestrator(events)
    listener = _Listener(orchestrator, history, 2, since_s=10.0)
    assert orchestrator.told.wait(60)
    listener.stop()
    history.close()
    return [json.loads(line) for line in (tmp_path / "history.jsonl").read_text().splitlines()]


def test_absent_epochs_are_commits_of_the_moment_at_which_they_were_made(tmp_path):
    stood_in = {"task": "vwap/1", "epochs": 2, "absent": [["vwap", 7, 11.5], ["vwap", 8, 12.5]]}
    note = {"kind": "decision", "text": "committed 2 absent epochs for vwap/1", "data": stood_in, "at_s": 13.5}
    said, *commits = heard(tmp_path, [{"number": 1, "job": 2, **note}])
    assert (said["kind"], said["task"], said["epochs"]) == ("orchestrator", "vwap/1", 2)
    about = {"stream": "vwap", "task": 1, "as": "first", "quality": "absent", "rows": 0, "producer": "recovery manager"}
    assert commits == [
        {"at_s": 13.5, "by": "run", "kind": "commit", **about, "epoch": 7, "closed_s": 11.5},
        {"at_s": 13.5, "by": "run", "kind": "commit", **about, "epoch": 8, "closed_s": 12.5},
    ]


def test_an_agent_that_cannot_stand_in_for_its_pe_leaves_it_unprotected(tmp_path):
    about = {"task": "racks/0", "problem": "no column to predict"}
    trouble = {"kind": "control", "text": "agent of racks/0 cannot stand in for it: ...", "data": about, "at_s": 13.5}
    refused = {"kind": "control", "text": "agent of racks/0 has not ...", "data": {"task": "racks/0", "refused": "x"}, "at_s": 14.0}
    told = heard(tmp_path, [{"number": 1, "job": 2, **trouble}, {"number": 2, "job": 2, **refused}])
    assert [each for each in told if each["kind"] != "orchestrator"] == [
        {"at_s": 13.5, "by": "run", "kind": "unprotected", "task": "racks/0", "why": "no column to predict"}
    ]


def test_by_how_much_rates_exceed_a_strategy_is_kept(tmp_path):
    note = {"kind": "decision", "text": "no configuration dominates", "data": {"exceeded": {"market": 5.0}}, "at_s": 13.5}
    (said,) = heard(tmp_path, [{"number": 1, "job": 2, **note}])
    assert said["exceeded"] == {"market": 5.0}


def test_events_of_earlier_jobs_and_times_are_not_a_runs_history(tmp_path):
    lost = {"kind": "replica", "text": "failed", "data": {"state": "failed"}, "node": "n1"}
    events = [
        {"number": 1, "at_s": 5.0, "job": 1, "replica": "1:vwap/0.0", **lost},
        {"number": 2, "at_s": 9.0, "job": None, "kind": "node", "text": "n1 is lost", "data": {}},
        {"number": 3, "at_s": 11.0, "job": 1, "replica": "1:vwap/0.0", **lost},
        {"number": 4, "at_s": 12.0, "job": 2, "replica": "2:vwap/0.0", **lost},
        {"number": 5, "at_s": 13.0, "job": None, "kind": "node", "text": "n2 is lost", "data": {}},
    ]
    told = heard(tmp_path, events)
    assert [
        (each["kind"], each.get("replica") or each["text"]) for each in (event.get("about", event) | event for event in told)
    ] == [
        ("orchestrator", "2:vwap/0.0"),
        ("detected", "2:vwap/0.0"),
        ("orchestrator", "n2 is lost"),
    ]
