"""The engine of state machines: one event in, the moved lifecycle and the commands to execute out. Reads no clock, does no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from holdfast.control.jobs.machine_document import Action, Machine
from holdfast.errors import HoldfastError

WRITE = "persistence.write"
"""The command that makes a transition durable. It stands after what comes before persisting and before every other action."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a job. `cause` tells a person why; `id` is carried by everything that follows from it.

    `since` is the number of moves that the lifecycle had made when the work that raised the event began: if the lifecycle has moved
    on, the event speaks of a state that is over.
    """

    id: int
    name: str
    at_s: float
    cause: str = ""
    data: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    since: int | None = None


@dataclass(frozen=True, slots=True)
class StateChange:
    """One line of a job's history."""

    state: str
    at_s: float
    event: str
    cause: str = ""


@dataclass(frozen=True, slots=True)
class Command:
    """An action to execute for a job, in answer to the event `event`; `before`: before the transition is persisted."""

    name: str
    job: int
    event: Event
    before: bool = False
    settings: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class Lifecycle:
    """Where a job is in its machine. `written` are the persisted states it has been in; `moves` counts changes of state."""

    job: int
    state: str
    written: frozenset[str] = frozenset()
    version: int = 0
    history: tuple[StateChange, ...] = ()


class IllegalTransition(HoldfastError):
    """An event that the job's state has no transition for."""

    def __init__(self, lifecycle: Lifecycle, event: str, *, known: list[str]) -> None:
        self.lifecycle, self.event = lifecycle, event
        told = " -> ".join(move.state for move in lifecycle.history[-6:]) or lifecycle.state
        can = f"it takes: {', '.join(known)}" if known else "it has ended"
        super().__init__(f"job {lifecycle.job} is {lifecycle.state} and takes no '{event}'; {can} (its history: {told})")


def begin_lifecycle(machine: Machine, job: int, *, at_s: float, cause: str = "") -> Lifecycle:
    """A lifecycle that has just begun, its first state to be written by whoever submits the job."""
    move = StateChange(machine.begins, at_s, "submit", cause)
    return Lifecycle(job, machine.begins, frozenset({machine.begins}), 0, (move,))


def step(machine: Machine, lifecycle: Lifecycle, event: Event) -> tuple[Lifecycle, list[Command]]:
    """Advance one lifecycle by one event. Raises IllegalTransition.

    The commands stand in the order of execution: those before persisting; the write, where the next state is persisted and
    this lifecycle enters it for the first time; the actions.
    """
    state = machine.states[lifecycle.state]
    row = state.transitions.get(event.name)
    if row is None:
        raise IllegalTransition(lifecycle, event.name, known=sorted(state.transitions))
    entered = machine.states[row.next]
    write = entered.persisted and row.next not in lifecycle.written
    commands = [_command(action, lifecycle.job, event, before=True) for action in row.before]
    if write:
        commands.append(Command(WRITE, lifecycle.job, event))
    commands.extend(_command(action, lifecycle.job, event) for action in row.do)
    if row.next == lifecycle.state:
        return lifecycle, commands
    moved = replace(
        lifecycle,
        state=row.next,
        written=lifecycle.written | {row.next} if write else lifecycle.written,
        version=lifecycle.version + 1,
        history=(*lifecycle.history, StateChange(row.next, event.at_s, event.name, event.cause)),
    )
    return moved, commands


def is_stale(lifecycle: Lifecycle, event: Event) -> bool:
    """Whether the event comes from work of a state that the lifecycle has left."""
    return event.since is not None and event.since != lifecycle.version


def _command(action: Action, job: int, event: Event, *, before: bool = False) -> Command:
    return Command(action.name, job, event, before, action.settings)
