"""Scenarios that lead a job to each transition of the built-in state machines.

A scenario says which job to submit, in which state to hold it, and what to do then. It depends on the state and the transition, not
on the fault under test. A job is held in a state by another injected fault: a delay in the transition that enters the state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from holdfast.control import InjectionTest, Moment, Trigger
from holdfast.documents import Job
from holdfast.errors import HoldfastError

Act = Literal["none", "cancel", "fail", "drain", "activate"]

ENTERED_BY = {
    "parsing": ("submitted", "parse"),
    "mapping": ("parsing", "parsed"),
    "optimizing": ("mapping", "mapped"),
    "instantiating": ("optimizing", "optim"),
    "dispatching": ("instantiating", "instantiated"),
    "running": ("dispatching", "started"),
    "canceling": ("running", "cancel"),
}
"""For each state, the state and the transition from which a job first enters it."""

UNDISTURBED = {"parse", "parsed", "mapped", "optim", "instantiated", "started", "peStatusUpdate"}


class NoScenario(HoldfastError):
    """A transition that no scenario leads to."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """How to lead a job to a transition.

    `ends`: the states in which the job may end. `helpers`: faults that delay the job or make it fail. `act`: what to do when the
    job is in state `at`. `stages`: faults that crash earlier orchestrators, one per orchestrator, before the one under test starts.
    `restarts`: how many additional incarnations the scenario causes. `also`: further end states that are correct after a crash,
    because the next orchestrator does not know of an error that was not yet stored. `while_recovering`: submit the job while the
    orchestrator still waits for a node.
    """

    job: Job
    ends: frozenset[str]
    helpers: tuple[InjectionTest, ...] = ()
    at: str | None = None
    act: Act = "none"
    stages: tuple[InjectionTest, ...] = ()
    restarts: int = 0
    also: frozenset[str] = frozenset()
    while_recovering: bool = False


def scenario_for(machine: str, state: str, transition: str, *, name: str, hold_s: float) -> Scenario:
    """Return the scenario for a transition. Raises NoScenario for transitions that only a user's own state machine has."""
    scenarios = _Scenarios(machine, name, hold_s)
    if transition == "recover":
        return scenarios.recovered(state)
    if state == "canceling":
        return scenarios.canceling(transition)
    if (state, transition) == ("running", "peStatusUpdate"):
        return scenarios.disturbed(state, "restart")  # an undisturbed running job gets no status updates
    if transition in UNDISTURBED:
        return scenarios.undisturbed()
    if transition == "cancel":
        return scenarios.canceled(state)
    if transition == "error":
        return scenarios.broken(state)
    if transition == "finished":
        return scenarios.finished(state)
    if transition in ("restart", "gaveUp", "move", "activate"):
        return scenarios.disturbed(state, transition)
    raise NoScenario(f"no scenario leads to transition '{transition}' of state '{state}' of machine '{machine}'")


@dataclass(frozen=True, slots=True)
class _Scenarios:
    machine: str
    name: str
    hold_s: float

    def undisturbed(self) -> Scenario:
        return Scenario(self.job(), frozenset({"running"}))

    def canceled(self, state: str) -> Scenario:
        if state == "submitted":
            return Scenario(self.job(), frozenset({"canceled"}), at="submitted", act="cancel", while_recovering=True)
        helpers = () if state == "running" else (self.hold(*ENTERED_BY[state]),)
        return Scenario(self.job(), frozenset({"canceled"}), helpers, at=state, act="cancel")

    def broken(self, state: str) -> Scenario:
        if state == "submitted":
            failure = self.test("submitted", "parse", "raise", moment="before")
        else:
            failure = self.test(*ENTERED_BY[state], "raise")
        return Scenario(self.job(), frozenset({"failed"}), (failure,), also=frozenset({"running"}))

    def finished(self, state: str) -> Scenario:
        helpers = (self.hold("dispatching", "peStatusUpdate", moment="done"),) if state == "dispatching" else ()
        return Scenario(self.job(lives_s=0.3), frozenset({"completed"}), helpers)

    def disturbed(self, state: str, transition: str) -> Scenario:
        helpers = (self.hold("dispatching", "peStatusUpdate", moment="done"),) if state == "dispatching" else ()
        act: dict[str, Act] = {"restart": "fail", "gaveUp": "fail", "move": "drain", "activate": "activate"}
        policy: dict[str, Any] = {"give_up_after": 1} if transition == "gaveUp" else {"restart": "here", "backoff_s": 0.1}
        restarts = 1 if transition in ("restart", "move") else 0
        return Scenario(self.job(policy=policy), frozenset({"running"}), helpers, at=state, act=act[transition], restarts=restarts)

    def canceling(self, transition: str) -> Scenario:
        if transition == "failed":
            policy = {"give_up_after": 1, "then": "cancel"}
            return Scenario(self.job(policy=policy), frozenset({"failed"}), at="running", act="fail")
        if transition == "error":
            failure = self.test("running", "cancel", "raise")
            return Scenario(self.job(), frozenset({"failed", "canceled"}), (failure,), at="running", act="cancel")
        return Scenario(self.job(), frozenset({"canceled"}), at="running", act="cancel")

    def recovered(self, state: str) -> Scenario:
        if state == "submitted":
            return Scenario(
                self.job(), frozenset({"running"}), stages=(self.test("submitted", "parse", "crash-orchestrator", "before"),)
            )
        crash = self.test(*ENTERED_BY[state], "crash-orchestrator")
        if state == "canceling":
            return Scenario(self.job(), frozenset({"canceled"}), at="running", act="cancel", stages=(crash,))
        return Scenario(self.job(), frozenset({"running"}), stages=(crash,))

    def hold(self, state: str, transition: str, moment: Moment = "after") -> InjectionTest:
        return self.test(state, transition, "delay", moment, by_s=self.hold_s)

    def test(self, state: str, transition: str, fault: str, moment: Moment = "after", **settings: float) -> InjectionTest:
        return InjectionTest(
            machine=self.machine,
            state=state,
            transition=transition,
            fault=fault,
            moment=moment,
            settings=settings,
            trigger=Trigger(times=1),
        )

    def job(self, *, lives_s: float | None = None, policy: dict[str, Any] | None = None) -> Job:
        """Return a job of three PEs; the second has two replicas."""
        lives = {} if lives_s is None else {"lives_s": lives_s}
        return Job.model_validate(
            {
                "job": self.name,
                "type": self.machine,
                "host_kind": "light",
                "pes": {
                    "source": {"makes": ["rows"], **lives},
                    "work": {"reads": ["rows"], "makes": ["out"], "replicas": 2, **lives},
                    "sink": {"reads": ["out"], **lives},
                },
                "policy": policy or {},
            }
        )


def job_on_every_node(name: str, nodes: int) -> Job:
    """Return a job with one replica on each node, so that a restarted orchestrator waits for all nodes."""
    return Job.model_validate({"job": name, "host_kind": "light", "pes": {"everywhere": {"replicas": nodes}}})
