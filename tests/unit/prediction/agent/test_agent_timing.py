"""How often an agent polls, and that it is on time."""

import pytest

from holdfast.prediction.agent.prediction_agent import CALM_POLL_S, POLL_S
from holdfast.prediction.contract_terms import check_orders

from .watched_task import TIMELINE, WatchedTask, step_until


def test_agent_that_abstains_or_handed_over_polls_seldom():
    task = WatchedTask(short="abstain", least_outputs=8)
    task.run([1, 2, 3])
    task.run([4], commits=False)
    task.agent.streams[0].predictor.predict = None  # nothing was learned, so it is not called again
    assert task.agent.step() == POLL_S
    task = WatchedTask(most_epochs=1)
    task.run(range(1, 13))
    task.run([13, 14], commits=False)
    assert task.agent.state == "handed over"
    assert task.agent.step() == POLL_S


def test_agent_polls_seldom_while_its_pe_is_in_time():
    task = WatchedTask()
    task.run(range(1, 13))
    assert task.agent.step() == pytest.approx(0.2)
    task.agent.change(check_orders({"deadline_s": 30.0}, task.contract, epoch_s=1.0).applied_to(task.contract))
    assert task.agent.step() == CALM_POLL_S


@pytest.mark.parametrize("later_s", [0.0, 0.01, 0.07, 0.13, 0.19])
def test_late_epoch_is_predicted_on_time_despite_seldom_polls(later_s):
    task = WatchedTask()
    task.run(range(1, 13))
    step_until(task, TIMELINE.closes_s(13) + later_s)
    fed_s = task.now_s
    task.commit_input(13)
    step_until(task, fed_s + 2.0)
    assert fed_s + 0.8 <= task.log.first("racks", 0, epoch=13).committed_s <= fed_s + 0.81


@pytest.mark.parametrize("clock_error_s", [-30.0, -3.0, 3.0, 30.0])
def test_wrong_clock_of_a_node_does_not_make_it_late(clock_error_s):
    task = WatchedTask()
    task.clock_error_s = clock_error_s
    for epoch in range(1, 31):
        step_until(task, TIMELINE.closes_s(epoch))
        task.commit_input(epoch)
        step_until(task, TIMELINE.closes_s(epoch) + 0.3)
        task.commit_output(epoch)
    step_until(task, TIMELINE.closes_s(31))
    assert (task.agent.predicted, task.agent.monitor.misses) == (0, 0)
    assert 0.05 <= task.agent.monitor.usual_s <= 0.6
    fed_s = task.now_s
    task.commit_input(31)
    step_until(task, fed_s + 2.0)
    assert fed_s + 0.5 <= task.log.first("racks", 0, epoch=31).committed_s <= fed_s + 1.0


@pytest.mark.parametrize("jump_s", [-3600.0, -0.5, 0.5, 3600.0])
def test_deadline_does_not_move_when_the_agents_clock_is_set(jump_s):
    task = WatchedTask()
    task.run(range(1, 13))
    step_until(task, TIMELINE.closes_s(13))
    fed_s = task.now_s
    task.commit_input(13)
    step_until(task, fed_s + 0.3)
    task.agent_clock_error_s = jump_s
    step_until(task, fed_s + 2.0)
    assert fed_s + 0.6 <= task.log.first("racks", 0, epoch=13).committed_s <= fed_s + 0.81
    assert 0.05 <= task.agent.monitor.usual_s <= 0.6
