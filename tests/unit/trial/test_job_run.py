"""Following a job: how long an orchestrator that does not answer, and a job that stands still, are waited for."""

import pytest
from obstore.store import MemoryStore

from holdfast.errors import HoldfastError
from holdfast.log import Store
from holdfast.log.timeline import Timeline
from holdfast.protocol.client import ClientError, OrchestratorUnreachable
from holdfast.trial.job_run import _follow, _Movement, _Seen


class Client:
    """Answers as it is told to, one answer a call."""

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


class Calm:
    def check(self):
        pass


def follow(*answers, settle_s):
    return _follow(Cluster(Client(*answers)), 1, Store(MemoryStore()), Calm(), _Seen(), for_s=None, settle_s=settle_s, show=None)


def test_an_orchestrator_that_never_answers_again_is_not_waited_for_without_end():
    with pytest.raises(HoldfastError, match="the orchestrator has not answered for 0 s: nobody is there"):
        follow(OrchestratorUnreachable("nobody is there"), settle_s=0.0)


def test_one_that_is_away_for_a_while_is_waited_for():
    away = [OrchestratorUnreachable("nobody"), ClientError("it recovers", status=503)]
    story, timeline = follow(*away, "completed", settle_s=60.0)
    assert (story["state"], timeline) == ("completed", None)


def test_a_call_that_is_refused_is_told_at_once():
    with pytest.raises(ClientError, match="no job 1"):
        follow(ClientError("no job 1", status=404), settle_s=60.0)


def story(clean, state="running"):
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
def test_a_job_may_stand_still_until_it_begins_and_then_for_three_epochs_beside_what_it_is_given(timeline, limit_s):
    now = [0.0]
    movement = _Movement(120.0, clock=lambda: now[0])
    assert movement.look(story(4), timeline) is None
    now[0] = 100.0
    assert movement.look(story(5), timeline) is None
    now[0] += limit_s
    assert movement.look(story(5), timeline) is None
    now[0] += 1
    said = f"job 'j' has not moved for {limit_s} s (it is running): a/0 running; a/0: waits for the log: it is full"
    assert movement.look(story(5), timeline) == said


def test_a_job_whose_replicas_are_started_anew_again_and_again_and_get_no_further_is_not_followed_without_end():
    now, line = [0.0], Timeline(0, 9, epoch_s=1.0, opened_s=0.0)
    movement = _Movement(117.0, clock=lambda: now[0])
    assert movement.look(story(5), line) is None
    for number in range(1, 7):
        now[0] = 100.0 * number
        assert movement.look(story(4 + number % 2, "starting" if number % 2 else "running"), line) is None
    now[0] = 601.0
    assert movement.look(story(5), line) == (
        "job 'j' has got no further for 600 s, though its replicas were started anew (it is running): a/0 running; "
        "a/0: waits for the log: it is full"
    )
    assert movement.look(story(6), line) is None


def test_a_job_that_stands_still_has_failed_with_all_that_is_known_of_it(monkeypatch):
    monkeypatch.setattr(_Movement, "look", lambda movement, story, timeline: "it has not moved")
    found, _ = follow("running", settle_s=60.0)
    assert (found["state"], found["reason"]) == ("failed", "it has not moved")
