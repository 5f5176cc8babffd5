"""Readiness: the tasks and agents that a trace waits for."""

from obstore.store import MemoryStore

from holdfast.documents.job import Contract, Job, Reading, Task
from holdfast.log import Store
from holdfast.log.readiness import all_ready, awaited_names, mark_ready

PREDICTED = Contract(protection="prediction", deadline_s=1.0)
TASKS = (
    Task(pe="src", kind="source", makes=("src",)),
    Task(pe="a", reads=(Reading(stream="src"),), makes=("a",)),
    Task(pe="b", task=1, reads=(Reading(stream="src"),), makes=("b",)),
    Task(pe="out", kind="sink", reads=(Reading(stream="a"),)),
)


def test_trace_waits_for_its_readers_and_their_agents():
    job = Job(job="j", application="app.py", log="x", contract=PREDICTED, contracts={"a": Contract()})
    names = awaited_names(job, TASKS)
    assert names == {"a/0", "b/1", "out/0", "agent of b/1"}
    store = Store(MemoryStore())
    for name in sorted(names):
        assert not all_ready(store, names)
        mark_ready(store, name)
    assert all_ready(store, names)


def test_without_prediction_no_agent_is_awaited():
    job = Job(job="j", application="app.py", log="x")
    assert awaited_names(job, TASKS) == {"a/0", "b/1", "out/0"}
