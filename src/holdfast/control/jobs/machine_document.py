"""State machines as TOML documents: numbered states, their properties, and transitions with ordered actions.

`read_machine` checks a document as a whole and returns a `Machine`. The step function (`state_machine.py`) knows no state and no
action by name; the orchestrator knows the two names below.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping
from importlib.resources import files
from operator import itemgetter
from pathlib import Path
from typing import Any

from pydantic import Field

from holdfast.documents.document import Document, FieldError, Part, Place, check_document, unexpected
from holdfast.errors import DocumentError

PERSISTED = "updatedb"
"""The property of a persisted state: the database is updated when a job first enters it."""

RECOVER = "recover"
"""The transition that a new orchestrator triggers for every job that has not ended."""


class Action(Part):
    """An action of a transition: a method of a plug-in, as `plugin.method`, and its settings, which are passed to it unchecked."""

    action: str
    settings: dict[str, Any] = Field(default_factory=dict)


class Transition(Part):
    """A transition. The actions `before` run before it is persisted, the actions `do` after; both in the order given.

    An action without settings may be given by its name alone.
    """

    next: str
    do: tuple[str | Action, ...] = ()
    before: tuple[str | Action, ...] = ()


class State(Part):
    """A state. The actions `enter` run when a job comes from another state, after the actions of the transition."""

    number: int
    end: bool = False
    enter: tuple[str | Action, ...] = ()
    properties: dict[str, Any] = Field(default_factory=dict)
    transitions: dict[str, Transition] = Field(default_factory=dict)

    @property
    def persisted(self) -> bool:
        return bool(self.properties.get(PERSISTED, False))


class Machine(Document):
    """A state machine with the name `machine`. `begins` names the state of a newly submitted job. Do not change its mappings: all
    jobs of the type share them."""

    machine: str
    about: str = ""
    begins: str
    states: dict[str, State]

    @property
    def name(self) -> str:
        return self.machine

    def transitions(self) -> Iterator[tuple[str, str, Transition]]:
        """Yield every transition with the names of its state and its event, in the order of the states, then of the events."""
        for name, state in self.states.items():
            for event, transition in sorted(state.transitions.items(), key=itemgetter(0)):
                yield name, event, transition

    def ends(self) -> frozenset[str]:
        return frozenset(name for name, state in self.states.items() if state.end)

    def errors(self) -> Iterable[FieldError]:
        """Yield everything that would make a job stall or be lost in a crash."""
        if not self.states:
            yield FieldError(("states",), "is empty; a machine has a state to begin in and an end")
            return
        yield from self._unknown_names()
        yield from self._duplicate_numbers()
        yield from self._persistence_errors()
        reached, depends_on = self._reached(self.begins), (("begins",), ("states",))
        for name in self.states:
            if name not in reached:
                yield FieldError(("states", name), f"cannot be reached from '{self.begins}'", depends_on)
            elif not any(self.states[other].end for other in self._reached(name)):
                yield FieldError(("states", name), "is a trap: no end can be reached from it", depends_on)

    def _unknown_names(self) -> Iterator[FieldError]:
        known = ", ".join(sorted(self.states))
        if self.begins not in self.states:
            yield unexpected(("begins",), f"one of the states {known}", self.begins)
        for name, state in self.states.items():
            for event, row in state.transitions.items():
                if row.next not in self.states:
                    yield unexpected(("states", name, "transitions", event, "next"), f"one of the states {known}", row.next)

    def _duplicate_numbers(self) -> Iterator[FieldError]:
        owners: dict[int, str] = {}
        for name, state in self.states.items():
            if state.number in owners:
                yield FieldError(("states", name, "number"), f"{state.number} is the number of '{owners[state.number]}' already")
            owners.setdefault(state.number, name)

    def _persistence_errors(self) -> Iterator[FieldError]:
        for name, state in self.states.items():
            persisted = state.properties.get(PERSISTED, False)
            if not isinstance(persisted, bool):
                yield unexpected(("states", name, "properties", PERSISTED), "true or false", persisted)
            if state.end and state.transitions:
                yield FieldError(("states", name), f"is an end and has transitions: {', '.join(sorted(state.transitions))}")
            if (state.end or name == self.begins) and persisted is not True:
                yield FieldError(("states", name), f"must be persisted ({PERSISTED} = true): a crash would lose the job otherwise")
            if persisted is True and not state.end and RECOVER not in state.transitions:
                yield FieldError(("states", name), f"is persisted and has no transition '{RECOVER}' for a crash in it")

    def _reached(self, start: str) -> set[str]:
        reached, pending = set(), [start]
        while pending:
            name = pending.pop()
            if name in reached or name not in self.states:
                continue
            reached.add(name)
            pending.extend(row.next for row in self.states[name].transitions.values())
        return reached


def read_machine(path: str | Path, *, actions: Collection[str]) -> Machine:
    """Return the machine in a file. Raises DocumentError with all errors of the file."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise DocumentError(str(path), [f"cannot be read: {error.strerror}"]) from error
    except UnicodeDecodeError:
        raise DocumentError(str(path), ["wanted UTF-8 text"]) from None
    return parse_machine(text, actions=actions, thing=str(path))


def parse_machine(text: str, *, actions: Collection[str], thing: str = "machine") -> Machine:
    """Return the machine in a text, with its states in the order of their numbers. Raises DocumentError.

    `actions` are the names of all existing actions.
    """
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise DocumentError(thing, [f"not TOML: {error}"]) from None
    machine = check_document(data, Machine, thing=thing, also=lambda data: _unknown_actions(data, actions))
    states = sorted(machine.states.items(), key=lambda item: item[1].number)
    return machine.model_copy(update={"states": {name: _with_entry_actions(name, state, machine) for name, state in states}})


def _with_entry_actions(name: str, state: State, machine: Machine) -> State:
    """Return a state whose transitions to other states end with the entry actions of these."""
    transitions = {
        event: row if row.next == name else row.model_copy(update={"do": (*row.do, *machine.states[row.next].enter)})
        for event, row in state.transitions.items()
    }
    return state.model_copy(update={"transitions": transitions, "enter": ()})


def shipped_machines(actions: Collection[str]) -> dict[str, Machine]:
    """Return the machines that ship with holdfast, by name."""
    folder = files("holdfast.control.jobs") / "machines"
    machines = [
        parse_machine(entry.read_text(encoding="utf-8"), actions=actions, thing=f"machine '{entry.name}'")
        for entry in sorted(folder.iterdir(), key=lambda each: each.name)
        if entry.name.endswith(".toml")
    ]
    return {machine.name: machine for machine in machines}


def split_action(action: str | Action) -> tuple[str, Mapping[str, Any]]:
    """Return the name and the settings of an action."""
    return (action, {}) if isinstance(action, str) else (action.action, action.settings)


def _unknown_actions(data: Any, actions: Collection[str]) -> Iterator[FieldError]:
    states = data.get("states")
    for name, state in states.items() if isinstance(states, dict) else ():
        if not isinstance(state, dict):
            continue
        yield from _unknown_in(("states", name, "enter"), state.get("enter"), actions)
        rows = state.get("transitions")
        for event, row in rows.items() if isinstance(rows, dict) else ():
            for part in ("before", "do") if isinstance(row, dict) else ():
                yield from _unknown_in(("states", name, "transitions", event, part), row.get(part), actions)


def _unknown_in(place: Place, values: Any, actions: Collection[str]) -> Iterator[FieldError]:
    for value in values if isinstance(values, list) else ():
        action = value.get("action") if isinstance(value, dict) else value
        if isinstance(action, str) and action not in actions:
            yield FieldError(place, f"there is no action '{action}'; actions are: {', '.join(sorted(actions))}")
