"""The step function of state machines: from a lifecycle and an event to the next lifecycle and the commands to execute.

It is pure: it reads no clock and does no I/O.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from holdfast.control.jobs.machine_document import Action, Machine, split_action
from holdfast.errors import HoldfastError

WRITE = "persistence.write_transition"
"""The command that makes a transition durable. It comes after the actions `before` and before all others."""


@dataclass(frozen=True, slots=True)
class Event:
    """An event of a job. `cause` explains to users why it happened; `id` identifies it.

    `since` is the version of the lifecycle when the work that raised the event began. If the version has changed, the event is
    stale.
    """

    id: int
    name: str
    at_s: float
    cause: str = ""
    data: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    since: int | None = None


@dataclass(frozen=True, slots=True)
class StateChange:
    """One entry of a job's history: the state that it entered, when, and by which event."""

    state: str
    at_s: float
    event: str
    cause: str = ""


@dataclass(frozen=True, slots=True)
class Command:
    """An action to execute for a job because of an event. `before`: before the transition is persisted."""

    name: str
    job: int
    event: Event
    before: bool = False
    settings: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class Lifecycle:
    """Where a job is in its state machine.

    `written` holds the persisted states that it has been in, `version` counts its changes of state.
    """

    job: int
    state: str
    written: frozenset[str] = frozenset()
    version: int = 0
    history: tuple[StateChange, ...] = ()


class IllegalTransition(HoldfastError):
    """The job's state has no transition for an event."""

    def __init__(self, lifecycle: Lifecycle, event: str, *, possible: list[str]) -> None:
        self.lifecycle, self.event = lifecycle, event
        states = " -> ".join(change.state for change in lifecycle.history[-6:]) or lifecycle.state
        advice = f"it takes: {', '.join(possible)}" if possible else "it has ended"
        super().__init__(f"job {lifecycle.job} is {lifecycle.state} and takes no '{event}'; {advice} (its history: {states})")


def begin_lifecycle(machine: Machine, job: int, *, at_s: float, cause: str = "") -> Lifecycle:
    """Return the lifecycle of a new job. The caller writes its first state."""
    first = StateChange(machine.begins, at_s, "submit", cause)
    return Lifecycle(job, machine.begins, frozenset({machine.begins}), 0, (first,))


def step(machine: Machine, lifecycle: Lifecycle, event: Event) -> tuple[Lifecycle, list[Command]]:
    """Advance a lifecycle by one event. Raises IllegalTransition.

    The commands are in the order of execution: first the actions `before`; then the write, if the next state is persisted and the
    job enters it for the first time; then the actions `do`.
    """
    state = machine.states[lifecycle.state]
    row = state.transitions.get(event.name)
    if row is None:
        raise IllegalTransition(lifecycle, event.name, possible=sorted(state.transitions))
    entered = machine.states[row.next]
    write = entered.persisted and row.next not in lifecycle.written
    commands = [_command(action, lifecycle.job, event, before=True) for action in row.before]
    if write:
        commands.append(Command(WRITE, lifecycle.job, event))
    commands.extend(_command(action, lifecycle.job, event) for action in row.do)
    if row.next == lifecycle.state:
        return lifecycle, commands
    advanced = replace(
        lifecycle,
        state=row.next,
        written=lifecycle.written | {row.next} if write else lifecycle.written,
        version=lifecycle.version + 1,
        history=(*lifecycle.history, StateChange(row.next, event.at_s, event.name, event.cause)),
    )
    return advanced, commands


def is_stale(lifecycle: Lifecycle, event: Event) -> bool:
    """Return whether the event comes from work of a state that the job has left."""
    return event.since is not None and event.since != lifecycle.version


def _command(action: str | Action, job: int, event: Event, *, before: bool = False) -> Command:
    name, settings = split_action(action)
    return Command(name, job, event, before, settings)
