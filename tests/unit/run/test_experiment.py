"""Following a job: how long an orchestrator that does not answer is waited for."""

import pytest
from obstore.store import MemoryStore

from holdfast.errors import HoldfastError
from holdfast.log import Store
from holdfast.manage.client import ClientError, OrchestratorAway
from holdfast.run.experiment import _follow, _Seen


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


class Calm:
    def check(self):
        pass


def follow(*answers, away_s):
    limits = {"for_s": None, "settle_s": 60.0, "away_s": away_s}
    return _follow(Client(*answers), 1, Store(MemoryStore()), Calm(), _Seen(), **limits, show=None)


def test_an_orchestrator_that_never_answers_again_is_not_waited_for_without_end():
    with pytest.raises(HoldfastError, match="the orchestrator has not answered for 0 s: nobody is there"):
        follow(OrchestratorAway("nobody is there"), away_s=0.0)


def test_one_that_is_away_for_a_while_is_waited_for():
    away = [OrchestratorAway("nobody"), ClientError("it recovers", status=503)]
    story, timeline = follow(*away, "completed", away_s=60.0)
    assert (story["state"], timeline) == ("completed", None)


def test_a_call_that_is_refused_is_told_at_once():
    with pytest.raises(ClientError, match="no job 1"):
        follow(ClientError("no job 1", status=404), away_s=60.0)
