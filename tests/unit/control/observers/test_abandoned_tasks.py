"""The end of a job with an abandoned task, on a real log, without processes."""

import pytest
from obstore.store import MemoryStore

from holdfast.control.observers.abandoned_tasks import AbandonedTasks, fail_if_nothing_can_begin
from holdfast.control.observers.job_observers import FailJob, ReplicaView
from holdfast.documents.job import Contract, Job, Reading, Task
from holdfast.log import EpochLog, Quality, Record, Store
from holdfast.log.stream_progress import StreamProgress
from holdfast.log.timeline import Timeline
from holdfast.protocol.messages import ReplicaStatus

LAST = 3
TASKS = (
    Task(pe="src", kind="source", makes=("src",)),
    Task(pe="bad", reads=(Reading(stream="src"),), makes=("bad",)),
    Task(pe="good", reads=(Reading(stream="src"),), makes=("good",)),
    Task(pe="both", reads=(Reading(stream="bad"), Reading(stream="good")), makes=("both",)),
    Task(pe="out", kind="sink", reads=(Reading(stream="both"),)),
    Task(pe="aside", kind="sink", reads=(Reading(stream="good"),)),
)
BOOM = "operator 'bad' (app.py:7) raised ValueError: boom (epoch 2, input rows with seq 4 to 6, tried 3 times)"
OVER = [FailJob(f"bad/0 abandoned, last: {BOOM}; all that does not need it has finished")]


def replica(task, state, *, at=None, error=None, number=0):
    status = None if at is None else ReplicaStatus(key=task, incarnation=1, state="running", live=at[0], clean=at[1])
    return ReplicaView(f"1:{task}.{number}", task, number, "n1", 1, number, True, state, 0.0, None, error, status)


def commit(store, stream, *epochs, quality=Quality.EXACT):
    for epoch in epochs:
        EpochLog(store).offer(Record(stream, 0, epoch, quality, (), 0, None, None, "x", "p"))


def replicas(**states):
    """Return finished replicas, except those given with a state, or with the positions of a running one."""
    given = {"bad": replica("bad/0", "abandoned", error=BOOM)}
    for pe, state in states.items():
        given[pe] = replica(f"{pe}/0", state) if isinstance(state, str) else replica(f"{pe}/0", "running", at=state)
    return [given.get(task.pe) or replica(task.name, "finished", at=(LAST, LAST)) for task in TASKS]


@pytest.fixture
def store():
    store = Store(MemoryStore())
    for stream in ("src", "good"):
        commit(store, stream, 1, 2, 3)
    commit(store, "bad", 1)
    commit(store, "both", 1)
    return store


def look(store, views, *, after_s=None, last=LAST):
    job = Job(job="j", application="app.py", log="x", contract=Contract(tentative_after_s=after_s))
    heads = StreamProgress(EpochLog(store), Timeline(first=1, last=last, epoch_s=1.0, opened_s=0.0))
    return AbandonedTasks(job, TASKS, heads).check(views, 100.0)


def test_job_fails_when_the_rest_is_done(store):
    assert look(store, replicas(both=(1, 1), out=(1, 1))) == OVER


@pytest.mark.parametrize(
    "states",
    [
        {"aside": (2, 2), "both": (1, 1), "out": (1, 1)},
        {"src": (3, 3), "both": (1, 1), "out": (1, 1)},
        {"both": (0, 0), "out": (0, 0)},
        {"both": (1, 1), "out": (0, 0)},
        {"both": "lost", "out": (1, 1)},
        {"both": (1, 1), "out": "starting"},
    ],
)
def test_job_continues_while_a_task_has_work(store, states):
    assert look(store, replicas(**states)) == []


def test_job_continues_while_the_task_may_return(store):
    for state in ("running", "failed", "lost", "starting"):
        assert look(store, replicas(bad=state, both=(1, 1), out=(1, 1))) == []
    views = [*replicas(both=(1, 1), out=(1, 1)), replica("bad/0", "running", number=1, at=(1, 1))]
    assert look(store, views) == []


def test_endless_job_continues_without_the_task(store):
    assert look(store, replicas(both=(1, 1), out=(1, 1)), last=None) == []


def test_consumers_continue_to_the_last_epoch(store):
    assert look(store, replicas(both=(1, 1), out=(1, 1)), after_s=1.0) == []
    commit(store, "bad", 2, 3, quality=Quality.ABSENT)
    assert look(store, replicas(both=(1, 1), out=(1, 1)), after_s=1.0) == []
    commit(store, "both", 2, 3, quality=Quality.TENTATIVE)
    assert look(store, replicas(both=(3, 1), out=(2, 1)), after_s=1.0) == []
    assert look(store, replicas(both=(3, 1), out=(3, 1)), after_s=1.0) == OVER


def test_job_without_sources_fails():
    torn = replica("src/0", "abandoned", error="trace 'x.parquet' cannot be read: torn")
    waiting = [replica(task.name, "starting") for task in TASKS[1:]]
    decisions = [FailJob("src/0 abandoned, last: trace 'x.parquet' cannot be read: torn; nothing could begin")]
    assert fail_if_nothing_can_begin(TASKS, [torn, *waiting]) == decisions
    assert fail_if_nothing_can_begin(TASKS, [replica("src/0", "failed"), *waiting]) == []
    assert fail_if_nothing_can_begin(TASKS[1:], waiting) == []
