"""The listener that writes the orchestrator's events into a run's history."""

import json
import threading

from holdfast.documents.history import History
from holdfast.trial.job_run import _Listener


class Orchestrator:
    """A cluster and its client. It returns the given events, then none."""

    def __init__(self, events):
        self.client, self._events, self.delivered = self, events, threading.Event()

    def events(self, *, after, wait_s):
        if after:
            self.delivered.set()
            threading.Event().wait(0.01)
        return {"events": [event for event in self._events if event["number"] > after]}


def history_of(tmp_path, events):
    """Return what the listener writes for these events."""
    history, orchestrator = History(tmp_path / "history.jsonl", "run"), Orchestrator(events)
    listener = _Listener(orchestrator, history, 2, since_s=10.0)
    assert orchestrator.delivered.wait(60)
    listener.stop()
    history.close()
    return [json.loads(line) for line in (tmp_path / "history.jsonl").read_text().splitlines()]


def test_absent_epochs_are_written_as_commits(tmp_path):
    data = {"task": "vwap/1", "epochs": 2, "absent": [["vwap", 7, 11.5], ["vwap", 8, 12.5]]}
    note = {"kind": "decision", "text": "committed 2 absent epochs for vwap/1", "data": data, "at_s": 13.5}
    decision, *commits = history_of(tmp_path, [{"number": 1, "job": 2, **note}])
    assert (decision["kind"], decision["task"], decision["epochs"]) == ("orchestrator", "vwap/1", 2)
    about = {"stream": "vwap", "task": 1, "as": "first", "quality": "absent", "rows": 0, "producer": "recovery manager"}
    assert commits == [
        {"at_s": 13.5, "by": "run", "kind": "commit", **about, "epoch": 7, "closed_s": 11.5},
        {"at_s": 13.5, "by": "run", "kind": "commit", **about, "epoch": 8, "closed_s": 12.5},
    ]


def test_task_whose_agent_cannot_predict_is_unprotected(tmp_path):
    about = {"task": "racks/0", "problem": "no column to predict"}
    failure = {"kind": "control", "text": "agent of racks/0 cannot stand in for it: ...", "data": about, "at_s": 13.5}
    refused = {"kind": "control", "text": "agent of racks/0 has not ...", "data": {"task": "racks/0", "refused": "x"}, "at_s": 14.0}
    written = history_of(tmp_path, [{"number": 1, "job": 2, **failure}, {"number": 2, "job": 2, **refused}])
    assert [event for event in written if event["kind"] != "orchestrator"] == [
        {"at_s": 13.5, "by": "run", "kind": "unprotected", "task": "racks/0", "why": "no column to predict"}
    ]


def test_exceeded_rates_are_written(tmp_path):
    note = {"kind": "decision", "text": "no configuration dominates", "data": {"exceeded": {"market": 5.0}}, "at_s": 13.5}
    (decision,) = history_of(tmp_path, [{"number": 1, "job": 2, **note}])
    assert decision["exceeded"] == {"market": 5.0}


def test_older_events_and_other_jobs_are_left_out(tmp_path):
    lost = {"kind": "replica", "text": "failed", "data": {"state": "failed"}, "node": "n1"}
    events = [
        {"number": 1, "at_s": 5.0, "job": 1, "replica": "1:vwap/0.0", **lost},
        {"number": 2, "at_s": 9.0, "job": None, "kind": "node", "text": "n1 is lost", "data": {}},
        {"number": 3, "at_s": 11.0, "job": 1, "replica": "1:vwap/0.0", **lost},
        {"number": 4, "at_s": 12.0, "job": 2, "replica": "2:vwap/0.0", **lost},
        {"number": 5, "at_s": 13.0, "job": None, "kind": "node", "text": "n2 is lost", "data": {}},
    ]
    written = history_of(tmp_path, events)
    assert [(event["kind"], event.get("replica") or event["text"]) for event in written] == [
        ("orchestrator", "2:vwap/0.0"),
        ("detected", "2:vwap/0.0"),
        ("orchestrator", "n2 is lost"),
    ]
