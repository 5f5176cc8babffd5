"""The owner of a log: the same application may continue it, another is refused."""

import pytest
from obstore.store import MemoryStore

from holdfast.documents.job import Contract, Feed, Job, Task
from holdfast.errors import HoldfastError
from holdfast.log import Store
from holdfast.log.log_owner import claim_log

TASKS = (Task(pe="s", kind="source", makes=("s",)), Task(pe="f", makes=("f",)), Task(pe="out", kind="sink"))


def job(**fields):
    return Job(job="one", application="app.py", log="memory", **{"feed": Feed(trace="a.parquet"), **fields})


@pytest.fixture
def store():
    claimed = Store(MemoryStore())
    claim_log(claimed, job(), "shop", TASKS)
    return claimed


def test_replicas_and_contract_may_change(store):
    replicated = [task.model_copy(update={"replicas": 2}) for task in TASKS]
    claim_log(store, job(contract=Contract(tentative_after_s=1.0)), "shop", replicated)


@pytest.mark.parametrize(
    ("job", "application", "tasks", "error"),
    [
        (job(), "bank", TASKS, "belongs to application 'shop', but job 'one' has application 'bank'"),
        (job(feed=Feed(trace="b.parquet")), "shop", TASKS, "belongs to trace 'a.parquet', but job 'one' has trace 'b.parquet'"),
        (job(feed=Feed()), "shop", TASKS, "belongs to trace 'a.parquet', but job 'one' has no trace"),
        (
            job(feed=Feed(trace="a.parquet", checkpoints="/c")),
            "shop",
            TASKS,
            "belongs to no checkpoints, but job 'one' has checkpoints '/c'",
        ),
        (job(), "shop", TASKS[:1], "belongs to the tasks f/0, s/0, but job 'one' has the tasks s/0"),
        (job(streams={"s": "other:s"}), "shop", TASKS, "belongs to no streams, but job 'one' has streams {'s': 'other:s'}"),
    ],
)
def test_log_of_another_application_or_input_is_refused(store, job, application, tasks, error):
    with pytest.raises(HoldfastError) as caught:
        claim_log(store, job, application, tasks)
    assert error in str(caught.value)
    assert str(caught.value).endswith("; give each a log of its own")


LOSSY = Contract(correction=False)


def test_log_written_without_correction_is_refused_with_correction(store):
    claim_log(store, job(contracts={"f": LOSSY, "out": LOSSY}), "shop", TASKS)
    claim_log(store, job(contract=LOSSY), "shop", TASKS)
    error = "was written without correction by f, out: incomplete epochs stay incomplete, but job 'one' has correction"
    with pytest.raises(HoldfastError, match=error):
        claim_log(store, job(), "shop", TASKS)
    with pytest.raises(HoldfastError, match="was written without correction by out:"):
        claim_log(store, job(contracts={"f": LOSSY}), "shop", TASKS)


def test_correction_of_a_source_does_not_matter(store):
    claim_log(store, job(contracts={"s": LOSSY}), "shop", TASKS)
    claim_log(store, job(), "shop", TASKS)
