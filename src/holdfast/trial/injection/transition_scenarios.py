"""How to bring a job to every transition of the machines that ship: what to submit, what to hold up, and what to do meanwhile.

A script is found for a state and a transition, whatever fault is to strike there. Holding a job in a state is itself an injected
fault: a delay among the actions of the transition that enters it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from holdfast.control import InjectionTest, Moment, Trigger
from holdfast.documents.job import Job
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
"""The transition by which a job first comes into a state, on its way to running and, when canceled, from there."""

STRAIGHT = {"parse", "parsed", "mapped", "optim", "instantiated", "started", "peStatusUpdate"}


class NoScenario(HoldfastError):
    """A transition that no scenario leads to."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A way to a transition. `helpers` are faults that hold the job up or push it; `act` is done once the job is held in state `at`
    (or, without a helper, has come there); it ends in one of `ends`. `stages` are faults of orchestrators before the one that is
    to be struck. `restarts` is how many incarnations beyond the first the script itself asks for. `also` are ends that are right
    after a crash: what had gone wrong and was not yet written is not known to the next orchestrator. `while_recovering`: the
    job must be submitted while the orchestrator still waits for a node."""

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
    """The way to a transition. Raises NoScenario where none is known: a machine of one's own needs scripts of its own."""
    base = _Base(machine, name, hold_s)
    if transition == "recover":
        return base.recovered(state)
    if state == "canceling":
        return base.canceling(transition)
    if (state, transition) == ("running", "peStatusUpdate"):
        return base.disturbed(state, "restart")  # a job that runs undisturbed hears nothing new
    if transition in STRAIGHT:
        return base.straight()
    if transition == "cancel":
        return base.canceled(state)
    if transition == "error":
        return base.broken(state)
    if transition == "finished":
        return base.finished(state)
    if transition in ("restart", "gaveUp", "move", "activate"):
        return base.disturbed(state, transition)
    raise NoScenario(f"no scenario leads to transition '{transition}' of state '{state}' of machine '{machine}'")


@dataclass(frozen=True, slots=True)
class _Base:
    machine: str
    name: str
    hold_s: float

    def straight(self) -> Scenario:
        return Scenario(self.job(), frozenset({"running"}))

    def canceled(self, state: str) -> Scenario:
        if state == "submitted":
            return Scenario(self.job(), frozenset({"canceled"}), at="submitted", act="cancel", while_recovering=True)
        held = () if state == "running" else (self.hold(*ENTERED_BY[state]),)
        return Scenario(self.job(), frozenset({"canceled"}), held, at=state, act="cancel")

    def broken(self, state: str) -> Scenario:
        if state == "submitted":
            pushed = self.test("submitted", "parse", "raise", moment="before")
        else:
            pushed = self.test(*ENTERED_BY[state], "raise")
        return Scenario(self.job(), frozenset({"failed"}), (pushed,), also=frozenset({"running"}))

    def finished(self, state: str) -> Scenario:
        held = (self.hold("dispatching", "peStatusUpdate", moment="done"),) if state == "dispatching" else ()
        return Scenario(self.job(lives_s=0.3), frozenset({"completed"}), held)

    def disturbed(self, state: str, transition: str) -> Scenario:
        held = (self.hold("dispatching", "peStatusUpdate", moment="done"),) if state == "dispatching" else ()
        act: dict[str, Act] = {"restart": "fail", "gaveUp": "fail", "move": "drain", "activate": "activate"}
        policy: dict[str, Any] = {"give_up_after": 1} if transition == "gaveUp" else {"restart": "here", "backoff_s": 0.1}
        restarts = 1 if transition in ("restart", "move") else 0
        return Scenario(self.job(policy=policy), frozenset({"running"}), held, at=state, act=act[transition], restarts=restarts)

    def canceling(self, transition: str) -> Scenario:
        if transition == "failed":
            policy = {"give_up_after": 1, "then": "cancel"}
            return Scenario(self.job(policy=policy), frozenset({"failed"}), at="running", act="fail")
        if transition == "error":
            pushed = self.test("running", "cancel", "raise")
            return Scenario(self.job(), frozenset({"failed", "canceled"}), (pushed,), at="running", act="cancel")
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
        """Three PEs, the second with two replicas."""
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
    """A job with a replica on each of so many nodes: an orchestrator that starts anew waits for all of them."""
    return Job.model_validate({"job": name, "host_kind": "light", "pes": {"everywhere": {"replicas": nodes}}})
