"""The engine of state machines: one event in, the moved life and the commands to execute out. Reads no clock, does no I/O."""

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

    `since` is the number of moves that the life had made when the work that raised the event began: if the life has moved
    on, the event speaks of a state that is over.
    """

    id: int
    name: str
    at_s: float
    cause: str = ""
    data: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    since: int | None = None


@dataclass(frozen=True, slots=True)
class Move:
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
class Life:
    """Where a job is in its machine. `written` are the persisted states it has been in; `moves` counts changes of state."""

    job: int
    state: str
    written: frozenset[str] = frozenset()
    moves: int = 0
    history: tuple[Move, ...] = ()


class IllegalTransition(HoldfastError):
    """An event that the job's state has no transition for."""

    def __init__(self, life: Life, event: str, *, known: list[str]) -> None:
        self.life, self.event = life, event
        told = " -> ".join(move.state for move in life.history[-6:]) or life.state
        can = f"it takes: {', '.join(known)}" if known else "it has ended"
        super().__init__(f"job {life.job} is {life.state} and takes no '{event}'; {can} (its history: {told})")


def begin(machine: Machine, job: int, *, at_s: float, cause: str = "") -> Life:
    """A life that has just begun, its first state to be written by whoever submits the job."""
    move = Move(machine.begins, at_s, "submit", cause)
    return Life(job, machine.begins, frozenset({machine.begins}), 0, (move,))


def step(machine: Machine, life: Life, event: Event) -> tuple[Life, list[Command]]:
    """Advance one life by one event. Raises IllegalTransition.

    The commands stand in the order of execution: those before persisting; the write, where the next state is persisted and
    this life enters it for the first time; the actions.
    """
    state = machine.states[life.state]
    row = state.transitions.get(event.name)
    if row is None:
        raise IllegalTransition(life, event.name, known=sorted(state.transitions))
    entered = machine.states[row.next]
    write = entered.persisted and row.next not in life.written
    commands = [_command(action, life.job, event, before=True) for action in row.before]
    if write:
        commands.append(Command(WRITE, life.job, event))
    commands.extend(_command(action, life.job, event) for action in row.do)
    if row.next == life.state:
        return life, commands
    moved = replace(
        life,
        state=row.next,
        written=life.written | {row.next} if write else life.written,
        moves=life.moves + 1,
        history=(*life.history, Move(row.next, event.at_s, event.name, event.cause)),
    )
    return moved, commands


def is_stale(life: Life, event: Event) -> bool:
    """Whether the event comes from work of a state that the life has left."""
    return event.since is not None and event.since != life.moves


def _command(action: Action, job: int, event: Event, *, before: bool = False) -> Command:
    return Command(action.name, job, event, before, action.settings)
