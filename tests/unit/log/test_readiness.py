"""Who is waited for before a trace begins."""

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


def test_a_trace_waits_for_its_readers_and_for_the_agents_of_those_that_are_protected():
    job = Job(job="j", application="app.py", log="x", contract=PREDICTED, contracts={"a": Contract()})
    wanted = awaited_names(job, TASKS)
    assert wanted == {"a/0", "b/1", "out/0", "agent of b/1"}
    store = Store(MemoryStore())
    for name in sorted(wanted):
        assert not all_ready(store, wanted)
        mark_ready(store, name)
    assert all_ready(store, wanted)


def test_without_protection_it_waits_for_no_agent():
    job = Job(job="j", application="app.py", log="x")
    assert awaited_names(job, TASKS) == {"a/0", "b/1", "out/0"}
