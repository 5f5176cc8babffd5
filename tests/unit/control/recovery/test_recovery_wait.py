"""How long a started orchestrator waits for its nodes, by a clock that is played."""

import asyncio
from types import SimpleNamespace

import pytest

from holdfast.control.recovery.orchestrator_recovery import OrchestratorRecovery


class Coming:
    """Nodes that come back at moments of their own; the clock goes on while somebody waits."""

    def __init__(self, *, come):
        self.nodes, self.lost, self.now_s, self._come = {}, {}, 0.0, sorted((at_s, name) for name, at_s in come.items())

    def monotonic_s(self):
        return self.now_s

    async def wait_for_change(self, *, for_s):
        if self._come and self._come[0][0] <= self.now_s + for_s:
            self.now_s, name = self._come.pop(0)
            self.nodes[name] = object()
        else:
            self.now_s += for_s

    def mark_replicas_lost(self, name, why):
        self.lost[name] = self.now_s


def lost(names, *, wait_s, come):
    coming = Coming(come=come)
    events = SimpleNamespace(emit=lambda *told, **about: None)
    settings = SimpleNamespace(recovery_wait_s=wait_s)
    orchestrator = SimpleNamespace(time=coming, resources=coming, events=events, settings=settings, say=lambda text: None)
    asyncio.run(OrchestratorRecovery(orchestrator)._await_nodes(set(names)))
    return coming.lost


def test_each_returning_node_restarts_the_wait():
    assert lost(["n1", "n2", "n3"], wait_s=10.0, come={"n1": 8.0, "n2": 17.0, "n3": 26.0}) == {}


def test_missing_node_is_lost_after_the_wait():
    assert lost(["n1", "n2"], wait_s=10.0, come={"n1": 8.0}) == {"n2": pytest.approx(18.0, abs=1.0)}


def test_unknown_node_does_not_restart_the_wait():
    assert lost(["n1"], wait_s=10.0, come={"n9": 8.0}) == {"n1": pytest.approx(10.0, abs=1.0)}
