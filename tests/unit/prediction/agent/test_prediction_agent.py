"""A prediction agent on a real log, without processes: what it commits and when."""

import pyarrow as pa
import pytest

from holdfast.documents.job import Predicting
from holdfast.log import Quality
from holdfast.log.row_files import read_rows

from .watched_task import RACKS, TIMELINE, WatchedTask


def test_late_epoch_is_predicted_shortly_before_its_deadline():
    task = WatchedTask()
    task.run(range(1, 13))
    task.now_s = TIMELINE.closes_s(13)
    task.commit_input(13)
    task.agent.step()
    task.now_s += 0.7
    task.agent.step()
    assert task.first_quality(13) is None
    task.now_s += 0.15
    task.agent.step()
    record = task.log.first("racks", 0, epoch=13)
    assert record.quality is Quality.PREDICTED
    rows = read_rows(task.store, record.files[0])
    assert rows["rack"].to_pylist() == list(RACKS)
    assert rows["cpu"].to_pylist() == pytest.approx([10.0, 20.0, 30.0])
    assert rows["epoch"].to_pylist() == [13] * 3
    assert all(1300 < seq <= 1400 for seq in rows["seq"].to_pylist())
    assert record.committed_s <= TIMELINE.closes_s(13) + 1.0


def test_while_the_pe_is_late_epochs_are_predicted_with_their_input():
    task = WatchedTask()
    task.run(range(1, 13))
    task.run([13], commits=False)
    task.now_s = TIMELINE.closes_s(14)
    task.commit_input(14)
    task.agent.step()
    assert task.first_quality(14) == "predicted"


def test_tentative_output_shows_that_the_pe_is_back():
    task = WatchedTask()
    task.run(range(1, 13))
    task.run(range(13, 17), commits=False)
    task.now_s = TIMELINE.closes_s(17)
    task.commit_input(17)
    task.agent.step()
    assert task.first_quality(17) is None
    task.now_s += 0.1
    task.commit_output(17, Quality.TENTATIVE)
    task.agent.step()
    assert (task.first_quality(17), task.agent.state) == ("tentative", "watching")


def test_returned_pe_gets_its_deadline_and_its_corrections_are_learned():
    task = WatchedTask()
    task.run(range(1, 13))
    task.run(range(13, 16), commits=False)
    for epoch in (13, 14, 15):
        task.commit_output(epoch)
    task.agent.step()
    assert task.agent.corrected == 3
    assert task.agent.monitor.predicted_in_a_row == 0
    assert task.agent.streams[0].newest_learned == 15
    assert task.log.final("racks", 0, epoch=14).producer == "racks/0.0 on n1"
    task.now_s = TIMELINE.closes_s(16)
    task.commit_input(16)
    task.now_s += 0.5
    task.agent.step()
    assert task.first_quality(16) is None


def test_late_output_is_learned_but_not_counted_if_dropped():
    task = WatchedTask()
    task.contract = task.contract.model_copy(update={"correction": False})
    task.agent = task.new_agent()
    task.run(range(1, 13))
    task.run(range(13, 15), commits=False)
    for epoch in (13, 14):
        task.commit_output(epoch)
    task.agent.step()
    document = task.agent.view()()
    assert (document["predicted"], document["corrected"], document["state"]) == (2, 0, "watching")
    assert document["streams"]["racks"]["scored_epochs"] == 2
    assert task.first_quality(13) == "predicted"


def test_committed_predictions_are_scored_on_the_exact_output():
    task = WatchedTask()
    task.run(range(1, 13))
    task.run([13], commits=False)
    task.commit_output(13)
    task.agent.step()
    (stream,) = task.agent.view()()["streams"].values()
    assert (stream["accuracy"], stream["scored_epochs"]) == (1.0, 1)


def test_agent_hands_over_after_the_most_epochs_in_a_row():
    task = WatchedTask(most_epochs=2)
    task.run(range(1, 13))
    task.run(range(13, 17), commits=False)
    assert [task.first_quality(epoch) for epoch in range(13, 17)] == ["predicted", "predicted", None, None]
    assert (task.agent.state, task.agent.predicted) == ("handed over", 2)
    for epoch in range(13, 17):
        task.commit_output(epoch)
    task.agent.step()
    assert task.agent.state == "watching"


def test_suspended_agent_predicts_at_most_the_allowed_epochs():
    task = WatchedTask(most_epochs=4)
    task.run(range(1, 13))
    task.run([13], commits=False)
    for epoch in range(14, 24):
        task.now_s = TIMELINE.closes_s(epoch)
        task.commit_input(epoch)
    task.agent.step()
    assert [task.first_quality(epoch) for epoch in range(13, 19)] == ["predicted"] * 4 + [None] * 2
    assert task.agent.state == "handed over"


def test_without_history_it_abstains_once_per_epoch():
    task = WatchedTask()
    task.run([1, 2], commits=False)
    assert task.first_quality(1) is None
    assert task.agent.abstained == 1
    assert task.agent.why == "no output was observed yet; a prediction needs 8 per key"
    assert [kind for kind, _ in task.events] == ["abstained"]


def test_keys_with_too_little_history_are_left_out_by_contract():
    task = WatchedTask(short="abstain", least_outputs=8)
    task.run([1, 2, 3])
    task.run([4], commits=False)
    assert task.first_quality(4) is None
    assert task.agent.why == "3 of 3 keys have had fewer than 8 outputs; a prediction needs 8: they are left out"


def test_predicted_seqs_of_an_empty_input_stay_before_the_next_epoch():
    task = WatchedTask()
    task.run(range(1, 13))
    task.now_s = TIMELINE.closes_s(13)
    task.commit("src", 13, pa.table({"seq": pa.array([], pa.int64())}))
    task.agent.step()
    task.now_s += 0.9
    task.agent.step()
    assert task.log.first("racks", 0, epoch=13).last_seq == 1300  # the last that went in before


def test_prediction_that_lost_to_the_task_is_not_scored():
    task = WatchedTask()
    task.run(range(1, 13))
    task.now_s = TIMELINE.closes_s(13)
    task.commit_input(13)
    task.agent.step()
    predict = task.agent.streams[0].predict

    def slow(epoch, **more):
        task.commit_output(epoch)  # while the agent predicts
        return predict(epoch, **more)

    task.agent.streams[0].predict = slow
    task.now_s += 0.9
    task.agent.step()
    task.agent.step()
    assert (task.first_quality(13), task.agent.streams[0].newest_learned) == ("exact", 13)
    assert (task.agent.predicted, task.agent.streams[0].view()()["scored_epochs"]) == (0, 0)


def test_tentative_output_is_no_miss_and_is_not_learned():
    task = WatchedTask()
    task.run(range(1, 13))
    task.now_s = TIMELINE.closes_s(13)
    task.commit_input(13)
    task.commit_output(13, Quality.TENTATIVE)
    task.agent.step()
    assert task.agent.monitor.misses == 0
    assert task.agent.streams[0].newest_learned == 12


def test_unpredictable_columns_break_only_the_agent():
    task = WatchedTask(keys=("server",))
    task.run(range(1, 4))
    assert task.agent.state == "broken"
    assert "the key names column 'server', which does not exist" in task.agent.error
    task.run([4], commits=False)
    assert task.first_quality(4) is None


def test_contract_without_keys_makes_one_series():
    task = WatchedTask(keys=("server",))
    task.contract = task.contract.model_copy(update={"predicting": Predicting(keys=())})
    task.agent = task.new_agent()
    task.run(range(1, 13))
    task.run([13], commits=False)
    assert (task.agent.error, task.first_quality(13)) == (None, "predicted")
