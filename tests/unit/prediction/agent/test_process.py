"""The process of an agent, run in this one: its status, and that no error ends it."""

import time
from types import SimpleNamespace

from holdfast.documents.job import Contract, Job, Reading, Task
from holdfast.log import Store
from holdfast.log.readiness import all_ready
from holdfast.log.shared_streams import resolve_log_locations
from holdfast.log.timeline import Timeline, agree_on_timeline
from holdfast.prediction.agent import process as agent_process
from holdfast.prediction.agent.process import AgentProcess
from holdfast.protocol.messages import AssignedAgent, Assignment, HostStatus
from holdfast.protocol.node_files import ASSIGNMENT, STATUS, WatchedFile


def test_failed_step_is_reported_and_retried(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(agent_process, "compile_predictors", lambda: None)
    monkeypatch.setattr(agent_process, "RETRY_S", 0.001)
    process, errors = AgentProcess(tmp_path, "n1"), []

    def step(trainer):
        errors.append(process._error)
        if len(errors) <= 2:
            raise ValueError("rows of another shape")
        if len(errors) == 4:
            process.stopping.set()
        return 0.001

    process._step = step
    process.run()
    assert errors == [None, "ValueError: rows of another shape", "ValueError: rows of another shape", None]
    assert [record.getMessage() for record in caplog.records] == ["a step of the agent failed"]


def test_last_status_is_written_when_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(agent_process, "compile_predictors", lambda: None)
    before = time.time()
    process = AgentProcess(tmp_path, "n1")
    process.stopping.set()
    process.run()
    status = WatchedFile(tmp_path / STATUS, HostStatus).read()
    assert (status.about["state"], status.about["node"], status.ready) == ("waiting", "n1", False)
    assert status.beat_s >= before
    assert status.about["written_bytes"] > 0 and status.about["read_bytes"] > 0


def test_unwritable_status_is_written_at_the_next_beat(tmp_path, monkeypatch, capsys):
    process, statuses = AgentProcess(tmp_path, "n1"), []

    def write(work, status):
        statuses.append(status)
        if len(statuses) == 1:
            raise OSError(28, "No space left on device")
        process.stopping.set()

    monkeypatch.setattr(agent_process, "write_status", write)
    monkeypatch.setattr(agent_process, "BEAT_S", 0.001)
    process._beat()
    process._history.close()
    assert len(statuses) == 2
    assert "the agent's status cannot be written: [Errno 28] No space left on device" in capsys.readouterr().err


def test_status_is_built_without_keeping_the_agent_from_its_steps(tmp_path):
    process = AgentProcess(tmp_path, "n1")
    process._agent = SimpleNamespace(view=lambda: lambda: {"state": "watching", "step_waits": process._lock.locked()})
    about = process._status().about
    process._history.close()
    assert (about["state"], about["step_waits"]) == ("watching", False)


TIMELINE = Timeline(first=7, last=None, epoch_s=5.0, opened_s=0.0, speed=5.0)


def assignment_of_shared_stream(tmp_path, **contract):
    """Return the assignment of an agent whose task reads the stream of an ended job, whose log is found in the own log."""
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


def test_agent_of_a_shared_stream_uses_its_own_jobs_timeline(tmp_path):
    own, assigned, assignment = assignment_of_shared_stream(tmp_path, deadline_s=2.0)
    process = AgentProcess(tmp_path, "n2")
    assert process._start_agent(assigned, assignment, None) is None  # the other job has begun, but this one has not
    assert all_ready(own, {"agent of racks/0"})
    agree_on_timeline(own, TIMELINE)
    agent = process._start_agent(assigned, assignment, None)
    assert agent.timeline == TIMELINE
    assert agent.monitor.terms.epoch_s == 1.0
    process._history.close()


def test_deadline_below_the_other_jobs_epoch_length_breaks_the_agent(tmp_path, monkeypatch):
    own, _, assignment = assignment_of_shared_stream(tmp_path, deadline_s=0.5)
    agree_on_timeline(own, TIMELINE)
    monkeypatch.setattr(agent_process, "compile_predictors", lambda: None)
    process = AgentProcess(tmp_path, "n2")
    (tmp_path / ASSIGNMENT).write_text(assignment.model_dump_json())
    monkeypatch.setattr(process.stopping, "wait", lambda pause_s: process.stopping.set())
    process.run()
    about = WatchedFile(tmp_path / STATUS, HostStatus).read().about
    assert about["state"] == "broken"
    assert "the deadline of 0.5 s is below the epoch length of 1 s" in about["error"]
