"""The process of an agent, in this one: what it says of itself, and that nothing ends it but being told to stop."""

import time

from holdfast.manage.files import STATUS, Watched
from holdfast.manage.protocol import HostStatus
from holdfast.run import agent
from holdfast.run.agent import AgentProcess


def test_a_step_that_fails_is_told_and_the_agent_goes_on(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(agent, "rehearse", lambda: None)
    monkeypatch.setattr(agent, "AGAIN_S", 0.001)
    process, said = AgentProcess(tmp_path, "n1"), []

    def step(learner):
        said.append(process._error)
        if len(said) <= 2:
            raise ValueError("rows of another shape")
        if len(said) == 4:
            process.stopping.set()
        return 0.001

    process._step = step
    process.run()
    assert said == [None, "ValueError: rows of another shape", "ValueError: rows of another shape", None]
    assert [record.getMessage() for record in caplog.records] == ["a step of the agent failed"]


def test_its_last_words_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(agent, "rehearse", lambda: None)
    before = time.time()
    process = AgentProcess(tmp_path, "n1")
    process.stopping.set()
    process.run()
    status = Watched(tmp_path / STATUS, HostStatus).read()
    assert (status.about["state"], status.about["node"], status.ready) == ("waiting", "n1", False)
    assert status.beat_s >= before


def test_a_status_that_cannot_be_written_ends_no_beat(tmp_path, monkeypatch, capsys):
    process, written = AgentProcess(tmp_path, "n1"), []

    def write(work, status):
        written.append(status)
        if len(written) == 1:
            raise OSError(28, "No space left on device")
        process.stopping.set()

    monkeypatch.setattr(agent, "write_status", write)
    monkeypatch.setattr(agent, "BEAT_S", 0.001)
    process._beat()
    process._history.close()
    assert len(written) == 2
    assert "the agent's status cannot be written: [Errno 28] No space left on device" in capsys.readouterr().err
