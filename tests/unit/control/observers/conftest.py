"""A log in memory, commits to it and views of replicas, for tests of observers without processes."""

import pytest
from obstore.store import MemoryStore

from holdfast.control.observers.absent_epochs import AbsentCommitter
from holdfast.control.observers.job_observers import Activate, ReplicaView
from holdfast.documents.job import Contract, Job, Reading, Task
from holdfast.log import EpochLog, Quality, Record, Store
from holdfast.log.timeline import Timeline
from holdfast.protocol.messages import ReplicaStatus

TIMELINE = Timeline(first=1, last=None, epoch_s=1.0, opened_s=100.0)
TASKS = (
    Task(pe="src", kind="source", makes=("src",)),
    Task(pe="a", reads=(Reading(stream="src"),), makes=("a",)),
    Task(pe="b", reads=(Reading(stream="a"),), makes=("b",)),
    Task(pe="out", kind="sink", reads=(Reading(stream="b"),)),
)


def replica(task, state="running", *, number=0, live=None, active=True, caught_up=False, incarnation=1, since_s=0.0):
    status = None
    if live is not None:
        status = ReplicaStatus(key=task, incarnation=incarnation, state="running", live=live, caught_up=caught_up)
    key, node = f"1:{task}.{number}", f"n{number + 1}"
    return ReplicaView(key, task, number, node, incarnation, number, active, state, since_s, None, None, status)


def commit(store, stream, epoch, *, at_s=0.0, rows=0, quality=Quality.EXACT):
    EpochLog(store).offer(Record(stream, 0, epoch, quality, (), rows, None, None, "x", "p", committed_s=at_s))


def first_qualities(store, stream, epochs=range(1, 6)):
    log = EpochLog(store)
    return [record and record.quality.value for record in (log.first(stream, 0, epoch=epoch) for epoch in epochs)]


def absent_committer(store, *, after_s=2.0, tasks=TASKS):
    job = Job(job="j", application="app.py", log="x", contract=Contract(tentative_after_s=after_s))
    return AbsentCommitter(job, tasks, store, TIMELINE)


def activated(decisions):
    return {decision.task: decision.replicas for decision in decisions if isinstance(decision, Activate)}


@pytest.fixture
def store():
    return Store(MemoryStore())
