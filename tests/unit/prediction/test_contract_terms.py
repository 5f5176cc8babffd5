"""Errors of contracts and orders."""

import pytest

from holdfast.documents.document import check_document
from holdfast.documents.job import Contract, Job, Predicting, Reading, Task
from holdfast.errors import CompoundError, DocumentError
from holdfast.prediction.contract_terms import check_orders, check_protection

from .agent.watched_task import TASK


def test_all_errors_of_orders_are_reported_at_once():
    contract = Contract(protection="prediction", deadline_s=5.0)
    with pytest.raises(DocumentError) as caught:
        check_orders({"from_input": 3, "deadline_s": 0.1, "measure": "x", "speed": 2}, contract, epoch_s=1.0)
    assert "from_input: wanted true or false, got 3" in caught.value.errors
    text = "\n".join(caught.value.errors)
    assert "the deadline of 0.1 s is below the epoch length of 1 s" in text
    assert "measure must be one of within, mae, rmse, mse, got 'x'" in text
    assert "speed: is no field" in text


def test_all_errors_of_a_contract_are_reported_at_once():
    contract = Contract(
        protection="prediction",
        deadline_s=0.5,
        predicting=Predicting(
            depth=1,
            algorithms={"oracle": {}, "last-outcome": {"name": "first"}, "nearest-neighbours": {"k": 60}},
            most_epochs=0,
        ),
    )
    job = Job(job="j", application="app.py", log="x", contract=contract)
    with pytest.raises(CompoundError) as caught:
        check_protection(job, [TASK], epoch_s=1.0)
    text = str(caught.value)
    for part in (
        "PE 'racks': the deadline of 0.5 s is below the epoch length of 1 s",
        "PE 'racks': most_epochs must be a whole number of at least 1, got 0",
        "PE 'racks': depth must be a whole number of at least 2, got 1",
        "PE 'racks': predictor 'oracle' is not installed",
        "PE 'racks': predictor 'last-outcome' calls itself 'first'; the two must be the same",
        "PE 'racks': predictor 'nearest-neighbours' needs 62 values of a series, and depth keeps only 1",
    ):
        assert part in text


def test_error_of_several_pes_is_reported_once():
    contract = Contract(protection="prediction", deadline_s=0.5)
    job = Job(job="j", application="app.py", log="x", contract=contract)
    with pytest.raises(CompoundError) as caught:
        check_protection(job, [TASK, Task(pe="heat", reads=(Reading(stream="racks"),), makes=("heat",))], epoch_s=1.0)
    (error,) = caught.value.errors
    assert error.startswith("PEs 'heat', 'racks': the deadline of 0.5 s is below the epoch length of 1 s")


def test_deadline_is_not_checked_if_another_job_sets_the_epoch_length():
    contract = Contract(protection="prediction", deadline_s=2.0, predicting=Predicting(depth=1))
    job = Job(job="j", application="app.py", log="x", contract=contract)
    fed = TASK.model_copy(update={"reads": (Reading(stream="src", job="feed"),)})
    with pytest.raises(CompoundError) as caught:
        check_protection(job, [fed], epoch_s=5.0)
    assert list(caught.value.errors) == ["PE 'racks': depth must be a whole number of at least 2, got 1"]


@pytest.mark.parametrize("protection", ["upstream", "prediction"])
def test_protected_source_or_sink_is_refused(protection):
    racks = TASK.model_copy(update={"replicas": 2})
    tasks = [Task(pe="src", kind="source", makes=("src",)), racks, Task(pe="out", kind="sink")]
    contract = Contract(protection=protection, deadline_s=2.0)
    check_protection(Job(job="j", application="app.py", log="x", contract=contract), tasks, epoch_s=1.0)
    job = Job(job="j", application="app.py", log="x", contracts={"src": contract, "out": contract, "racks": contract})
    with pytest.raises(CompoundError) as caught:
        check_protection(job, tasks, epoch_s=1.0)
    assert list(caught.value.errors) == [
        f"'out' is a sink, and its contract says protection: {protection}; only operators can be protected",
        f"'src' is a source, and its contract says protection: {protection}; only operators can be protected",
    ]


def test_prediction_without_deadline_is_refused():
    job = {"job": "j", "application": "app.py", "log": "x", "contract": {"protection": "prediction"}}
    with pytest.raises(DocumentError, match=r"job: contract\.deadline_s: is missing; prediction needs the seconds after its last"):
        check_document(job, Job, thing="job")
