"""Orders change an agent while it runs."""

import pyarrow as pa
import pytest

from holdfast.errors import HoldfastError
from holdfast.log.row_files import read_rows
from holdfast.prediction.agent.process import AgentProcess
from holdfast.prediction.contract_terms import check_orders
from holdfast.protocol.messages import AssignedAgent

from .watched_task import TIMELINE, WatchedTask


def test_orders_replace_the_algorithms():
    task = WatchedTask()
    task.run(range(1, 13))
    change = check_orders({"algorithms": {"stride": {}}, "deadline_s": 2.0}, task.contract, epoch_s=1.0)
    task.agent.change(change.applied_to(task.contract))
    view = task.agent.view()()
    assert [each["name"] for each in view["streams"]["racks"]["algorithms"]] == ["stride"]
    assert view["deadline_s"] == 2.0
    with pytest.raises(HoldfastError, match="predictor 'oracle' is not installed; installed are: last-outcome"):
        check_orders({"algorithms": {"oracle": {}}}, task.contract, epoch_s=1.0)
    with pytest.raises(HoldfastError, match=r"deadline of 0\.5 s is below the epoch length of 1 s"):
        check_orders({"deadline_s": 0.5}, task.contract, epoch_s=1.0)


def test_new_algorithms_predict_from_the_next_epoch():
    task = WatchedTask()
    for epoch in range(1, 13):
        task.now_s = TIMELINE.closes_s(epoch)
        task.commit_input(epoch)
        rising = pa.table({"seq": [100 * epoch + 30], "epoch": [epoch], "rack": ["r1"], "cpu": [10.0 * epoch]})
        task.commit("racks", epoch, rising)
        task.agent.step()
    task.run([13], commits=False)
    change = check_orders({"algorithms": {"long-stride": {"span": 3}}}, task.contract, epoch_s=1.0)
    task.agent.change(change.applied_to(task.contract))
    task.agent.step()
    task.run([14], commits=False)
    record = task.log.first("racks", 0, epoch=14)
    assert record.lineage == ("long-stride: 1 values",)
    assert read_rows(task.store, record.files[0])["cpu"].to_pylist() == pytest.approx([140.0])


def test_withdrawn_orders_restore_the_contract(tmp_path):
    task, process = WatchedTask(), AgentProcess(tmp_path, "n2")
    for revision, orders, deadline_s in ((1, {"deadline_s": 2.0}, 2.0), (2, {"lead_s": 0.1}, 1.0), (3, {"deadline_s": 0.1}, 1.0)):
        process._apply_orders(task.agent, AssignedAgent(job=1, task="racks/0", revision=revision, orders=orders))
        assert task.agent.view()()["deadline_s"] == deadline_s
    assert "the deadline of 0.1 s is below the epoch length of 1 s" in process._refused
    process._history.close()


def test_orders_change_the_measure():
    task = WatchedTask(measure="mae")
    task.run(range(1, 13))
    predictor = task.agent.streams[0].predictor
    assert {rank.measure for rank in predictor.ranks} == {"mae"}
    task.agent.change(check_orders({"measure": "rmse"}, task.contract, epoch_s=1.0).applied_to(task.contract))
    assert {rank.measure for rank in predictor.ranks} == {"rmse"}
    assert task.agent.view()()["streams"]["racks"]["measure"] == "rmse"
    with pytest.raises(HoldfastError, match="measure must be one of within, mae, rmse, mse, got 'luck'"):
        check_orders({"measure": "luck"}, task.contract, epoch_s=1.0)
