"""Following a job to its end, and writing the events of its orchestrator into the history."""

import json
import threading

import pytest
from obstore.store import MemoryStore

from holdfast.documents.history import History
from holdfast.errors import HoldfastError
from holdfast.log import Store
from holdfast.log.timeline import Timeline
from holdfast.protocol.client import ClientError, OrchestratorUnreachable
from holdfast.trial.job_run import _follow, _LatestJob, _Listener, _ProgressWatch


class Client:
    """Gives one scripted answer per call. The last answer is repeated."""

    def __init__(self, *answers):
        self.answers = list(answers)

    def job(self, number):
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return {"name": "j", "state": answer, "tasks": []}

    def nodes(self):
        return []


class Cluster:
    def __init__(self, client):
        self.client = client

    def restart_killed(self):
        pass


class NoFaults:
    def check(self):
        pass


def follow(*answers, settle_s):
    cluster, store = Cluster(Client(*answers)), Store(MemoryStore())
    return _follow(cluster, 1, store, NoFaults(), _LatestJob(), for_s=None, settle_s=settle_s, show=None)


def test_orchestrator_that_stays_silent_is_an_error():
    with pytest.raises(HoldfastError, match="the orchestrator has not answered for 0 s: nobody is there"):
        follow(OrchestratorUnreachable("nobody is there"), settle_s=0.0)


def test_orchestrator_may_be_unreachable_for_a_while():
    errors = [OrchestratorUnreachable("nobody"), ClientError("it recovers", status=503)]
    document, timeline = follow(*errors, "completed", settle_s=60.0)
    assert (document["state"], timeline) == ("completed", None)


def test_refused_call_is_raised_at_once():
    with pytest.raises(ClientError, match="no job 1"):
        follow(ClientError("no job 1", status=404), settle_s=60.0)


def job_document(clean, state="running"):
    replicas = [{"state": state, "status": {"clean": clean, "error": "waits for the log: it is full"}, "error": None}]
    return {"name": "j", "state": "running", "tasks": [{"task": "a/0", "replicas": replicas}]}


@pytest.mark.parametrize(
    ("timeline", "limit_s"),
    [
        (None, 600),
        (Timeline(0, 9, epoch_s=300.0, opened_s=0.0), 1020),
        (Timeline(0, 9, epoch_s=300.0, opened_s=0.0, speed=10.0), 210),
    ],
)
def test_job_may_stand_still_for_settle_time_plus_three_epochs(timeline, limit_s):
    now = [0.0]
    watch = _ProgressWatch(120.0, clock=lambda: now[0])
    assert watch.check(job_document(4), timeline) is None
    now[0] = 100.0
    assert watch.check(job_document(5), timeline) is None
    now[0] += limit_s
    assert watch.check(job_document(5), timeline) is None
    now[0] += 1
    reason = f"job 'j' has stood still for {limit_s} s (it is running): a/0 running; a/0: waits for the log: it is full"
    assert watch.check(job_document(5), timeline) == reason


def test_job_that_only_restarts_replicas_is_stuck():
    now, line = [0.0], Timeline(0, 9, epoch_s=1.0, opened_s=0.0)
    watch = _ProgressWatch(117.0, clock=lambda: now[0])
    assert watch.check(job_document(5), line) is None
    for number in range(1, 7):
        now[0] = 100.0 * number
        assert watch.check(job_document(4 + number % 2, "starting" if number % 2 else "running"), line) is None
    now[0] = 601.0
    assert watch.check(job_document(5), line) == (
        "job 'j' has made no progress for 600 s, although its replicas were restarted (it is running): a/0 running; "
        "a/0: waits for the log: it is full"
    )
    assert watch.check(job_document(6), line) is None


def test_stuck_job_is_reported_as_failed(monkeypatch):
    monkeypatch.setattr(_ProgressWatch, "check", lambda watch, document, timeline: "it has stood still")
    document, _ = follow("running", settle_s=60.0)
    assert (document["state"], document["reason"]) == ("failed", "it has stood still")


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
    about = {"task": "racks/0", "error": "no column to predict"}
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
