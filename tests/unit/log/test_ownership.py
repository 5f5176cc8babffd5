"""Whose a log is: gone on with by the same job, refused to another."""

import pytest
from obstore.store import MemoryStore

from holdfast.documents.job import Contract, Feed, Job, Task
from holdfast.errors import HoldfastError
from holdfast.log import Store
from holdfast.log.ownership import claim_log

TASKS = (Task(pe="s", kind="source", makes=("s",)), Task(pe="f", makes=("f",)), Task(pe="out", kind="sink"))


def job(**more):
    return Job(job="one", application="app.py", log="memory", **{"feed": Feed(trace="a.parquet"), **more})


@pytest.fixture
def store():
    made = Store(MemoryStore())
    claim_log(made, job(), "shop", TASKS)
    return made


def test_the_same_application_goes_on_with_its_log_whatever_its_replicas_and_contract_are(store):
    more = [task.model_copy(update={"replicas": 2}) for task in TASKS]
    claim_log(store, job(contract=Contract(tentative_after_s=1.0)), "shop", more)


@pytest.mark.parametrize(
    ("job", "application", "tasks", "said"),
    [
        (job(), "bank", TASKS, "is that of application 'shop', and job 'one' has application 'bank'"),
        (job(feed=Feed(trace="b.parquet")), "shop", TASKS, "is that of trace 'a.parquet', and job 'one' has trace 'b.parquet'"),
        (job(feed=Feed()), "shop", TASKS, "is that of trace 'a.parquet', and job 'one' has no trace"),
        (
            job(feed=Feed(trace="a.parquet", checkpoints="/c")),
            "shop",
            TASKS,
            "that of no checkpoints, and job 'one' has checkpoints '/c'",
        ),
        (job(), "shop", TASKS[:1], "is that of the tasks f/0, s/0, and job 'one' has the tasks s/0"),
        (job(streams={"s": "other:s"}), "shop", TASKS, "is that of no streams, and job 'one' has streams {'s': 'other:s'}"),
    ],
)
def test_a_log_of_something_else_is_refused(store, job, application, tasks, said):
    with pytest.raises(HoldfastError) as caught:
        claim_log(store, job, application, tasks)
    assert said in str(caught.value)
    assert str(caught.value).endswith("; give each a log of its own")


LOSSY = Contract(correction=False)


def test_a_log_that_was_written_without_correction_is_gone_on_with_only_so(store):
    claim_log(store, job(contracts={"f": LOSSY, "out": LOSSY}), "shop", TASKS)
    claim_log(store, job(contract=LOSSY), "shop", TASKS)
    said = "was written without correction by f, out: what is incomplete in it stays so, and job 'one' has correction"
    with pytest.raises(HoldfastError, match=said):
        claim_log(store, job(), "shop", TASKS)
    with pytest.raises(HoldfastError, match="was written without correction by out:"):
        claim_log(store, job(contracts={"f": LOSSY}), "shop", TASKS)


def test_whether_a_source_has_correction_does_not_matter(store):
    claim_log(store, job(contracts={"s": LOSSY}), "shop", TASKS)
    claim_log(store, job(), "shop", TASKS)
