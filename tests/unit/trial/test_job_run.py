"""Following a job: how long it waits for a silent orchestrator and for a job that stands still."""

import pytest
from obstore.store import MemoryStore

from holdfast.errors import HoldfastError
from holdfast.log import Store
from holdfast.log.timeline import Timeline
from holdfast.protocol.client import ClientError, OrchestratorUnreachable
from holdfast.trial.job_run import _follow, _LatestJob, _ProgressWatch


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
