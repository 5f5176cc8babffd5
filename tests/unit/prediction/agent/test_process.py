"""The process of an process, in this one: what it says of itself, and that nothing ends it but being told to stop."""

import time

from holdfast.documents.job import Contract, Job, Reading, Task
from holdfast.log import Store
from holdfast.log.readiness import all_ready
from holdfast.log.shared_streams import resolve_log_locations
from holdfast.log.timeline import Timeline, agree_on_timeline
from holdfast.prediction.agent import process as agent_process
from holdfast.prediction.agent.process import AgentProcess
from holdfast.protocol.messages import AssignedAgent, Assignment, HostStatus
from holdfast.protocol.node_files import ASSIGNMENT, STATUS, WatchedFile


def test_a_step_that_fails_is_told_and_the_agent_goes_on(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(agent_process, "rehearse", lambda: None)
    monkeypatch.setattr(agent_process, "AGAIN_S", 0.001)
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
    monkeypatch.setattr(agent_process, "rehearse", lambda: None)
    before = time.time()
    process = AgentProcess(tmp_path, "n1")
    process.stopping.set()
    process.run()
    status = WatchedFile(tmp_path / STATUS, HostStatus).read()
    assert (status.about["state"], status.about["node"], status.ready) == ("waiting", "n1", False)
    assert status.beat_s >= before
    assert status.about["written_bytes"] > 0


def test_a_status_that_cannot_be_written_ends_no_beat(tmp_path, monkeypatch, capsys):
    process, written = AgentProcess(tmp_path, "n1"), []

    def write(work, status):
        written.append(status)
        if len(written) == 1:
            raise OSError(28, "No space left on device")
        process.stopping.set()

    monkeypatch.setattr(agent_process, "write_status", write)
    monkeypatch.setattr(agent_process, "BEAT_S", 0.001)
    process._beat()
    process._history.close()
    assert len(written) == 2
    assert "the agent's status cannot be written: [Errno 28] No space left on device" in capsys.readouterr().err


TIMELINE = Timeline(first=7, last=None, epoch_s=5.0, opened_s=0.0, speed=5.0)


def fed(tmp_path, **contract):
    """The assignment of an agent whose task reads another job's stream; that job is gone, and only the log remembers its own."""
    own = Store(str(tmp_path / "own"))
    resolve_log_locations(own, {"feed": str(tmp_path / "feed")})
    agree_on_timeline(Store(str(tmp_path / "feed")), Timeline(first=1, last=None, epoch_s=5.0, opened_s=-6.0, speed=5.0))
    task = Task(pe="racks", reads=(Reading(stream="readings", job="feed", name="fed"),), makes=("racks",))
    contract = Contract(protection="prediction", **contract)
    job = Job(job="j", application="app.py", log=str(tmp_path / "own"), contract=contract)
    settings = {
        "job": job.model_dump(mode="json"),
        "tasks": [task.model_dump(mode="json")],
        "keys": {"racks": ["rack"]},
        "logs": {"feed": None},
    }
    assigned = AssignedAgent(job=1, task="racks/0")
    return own, assigned, Assignment(agents=(assigned,), jobs={1: settings})


def test_an_agent_of_a_job_that_another_feeds_finds_that_log_again_and_is_on_its_own_job_s_timeline(tmp_path):
    own, assigned, assignment = fed(tmp_path, deadline_s=2.0)
    process = AgentProcess(tmp_path, "n2")
    assert process._made(assigned, assignment, None) is None  # the feeding job has begun, but this one has not joined it yet
    assert all_ready(own, {"agent of racks/0"})
    agree_on_timeline(own, TIMELINE)
    made = process._made(assigned, assignment, None)
    assert made.timeline == TIMELINE
    assert made.monitor.cover.epoch_s == 1.0
    process._history.close()


def test_a_deadline_that_the_feeding_job_s_epochs_cannot_keep_is_told_as_a_problem_of_the_agent(tmp_path, monkeypatch):
    own, _, assignment = fed(tmp_path, deadline_s=0.5)
    agree_on_timeline(own, TIMELINE)
    monkeypatch.setattr(agent_process, "rehearse", lambda: None)
    process = AgentProcess(tmp_path, "n2")
    (tmp_path / ASSIGNMENT).write_text(assignment.model_dump_json())
    monkeypatch.setattr(process.stopping, "wait", lambda pause_s: process.stopping.set())
    process.run()
    about = WatchedFile(tmp_path / STATUS, HostStatus).read().about
    assert about["state"] == "broken"
    assert "the deadline of 0.5 s is below the epoch length of 1 s" in about["problem"]
