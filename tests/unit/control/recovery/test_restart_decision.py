"""Restart decisions as a table of situations."""

import pytest

from holdfast.control.recovery.restart_decision import Abandon, LeaveDead, Restart, Situation, Wait, decide
from holdfast.documents.job import Policy

ALONE = Situation(failures=1, living_peers=0, here=True, elsewhere=True)


@pytest.mark.parametrize(
    ("policy", "situation", "decision"),
    [
        ({"restart": "here"}, ALONE, Restart(0.5, "here")),
        ({"restart": "here"}, Situation(1, 0, here=False, elsewhere=True), Wait("its node is not up, or is drained")),
        ({"restart": "elsewhere"}, ALONE, Restart(0.5, "elsewhere")),
        ({"restart": "elsewhere"}, Situation(2, 0, here=True, elsewhere=False), Restart(1.0, "here")),
        ({"restart": "elsewhere"}, Situation(1, 0, here=False, elsewhere=False), Wait("no node has room for it")),
        ({"restart": "missing"}, Situation(1, 1, here=True, elsewhere=True), LeaveDead("another replica of its task lives")),
        ({"restart": "missing"}, ALONE, Restart(0.5, "elsewhere")),
        ({"restart": "never"}, ALONE, Abandon(False, "its policy never restarts it")),
        ({"restart": "never", "then": "cancel"}, ALONE, Abandon(True, "its policy never restarts it")),
        (
            {"restart": "never", "then": "cancel"},
            Situation(1, 1, here=True, elsewhere=True),
            LeaveDead("its policy never restarts it, and another replica of its task lives"),
        ),
        ({"give_up_after": 1}, ALONE, Abandon(False, "it failed once")),
        ({"give_up_after": 3, "then": "cancel"}, Situation(3, 0, True, True), Abandon(True, "it failed 3 times in a row")),
        ({"give_up_after": 3, "then": "cancel"}, Situation(3, 1, True, True), Abandon(False, "it failed 3 times in a row")),
        ({"give_up_after": 3}, Situation(2, 0, True, True, losses=2), Restart(4.0, "elsewhere")),
        ({"backoff_s": 1.0, "backoff_max_s": 3.0}, Situation(3, 0, True, True), Restart(3.0, "elsewhere")),
    ],
)
def test_decision_for_each_policy(policy, situation, decision):
    assert decide(Policy(**policy), situation) == decision
