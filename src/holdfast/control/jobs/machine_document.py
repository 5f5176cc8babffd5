"""State machines as TOML documents: numbered states, their properties, and transitions with ordered actions.

`read_machine` checks a document as a whole and returns an immutable `Machine`. The step function (`state_machine.py`) depends on no
state and no action by name; the orchestrator depends on the two names below.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import Field

from holdfast.documents.document import Document, FieldError, Part, check_document, unexpected
from holdfast.errors import DocumentError

PERSISTED = "updatedb"
"""The property of a persisted state: the database is updated when a job first enters it."""

RECOVER = "recover"
"""The transition that a new orchestrator triggers for every job that has not ended."""


class ActionPart(Part):
    """An action with settings, which are passed to it unchecked."""

    action: str
    settings: dict[str, Any] = Field(default_factory=dict)


class TransitionPart(Part):
    """A transition. The actions `before` run before it is persisted, the actions `do` after; both in the order given."""

    next: str
    do: tuple[str | ActionPart, ...] = ()
    before: tuple[str | ActionPart, ...] = ()


class StatePart(Part):
    number: int
    end: bool = False
    properties: dict[str, Any] = Field(default_factory=dict)
    transitions: dict[str, TransitionPart] = Field(default_factory=dict)


class MachineDocument(Document):
    """A machine as a document. `begins` names the state of a newly submitted job."""

    machine: str
    about: str = ""
    begins: str
    states: dict[str, StatePart]

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
        reached, ahead = set(), [start]
        while ahead:
            name = ahead.pop()
            if name in reached or name not in self.states:
                continue
            reached.add(name)
            ahead.extend(row.next for row in self.states[name].transitions.values())
        return reached


@dataclass(frozen=True, slots=True)
class Action:
    """An action of a transition: a method of a plug-in, as `plugin.method`, and its settings."""

    name: str
    settings: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class Transition:
    name: str
    next: str
    do: tuple[Action, ...] = ()
    before: tuple[Action, ...] = ()


@dataclass(frozen=True, slots=True)
class State:
    name: str
    number: int
    end: bool
    properties: Mapping[str, Any]
    transitions: Mapping[str, Transition]

    @property
    def persisted(self) -> bool:
        return bool(self.properties.get(PERSISTED, False))


@dataclass(frozen=True, slots=True)
class Machine:
    """A checked machine. Its states are in the order of their numbers."""

    name: str
    about: str
    begins: str
    states: Mapping[str, State]

    def transitions(self) -> Iterator[tuple[State, Transition]]:
        """Yield every transition with its state, in the order of the states' numbers and the transitions' names."""
        for state in self.states.values():
            for name in sorted(state.transitions):
                yield state, state.transitions[name]

    def ends(self) -> frozenset[str]:
        return frozenset(name for name, state in self.states.items() if state.end)


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
    """Return the machine in a text. `actions` are the names of all existing actions. Raises DocumentError."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise DocumentError(thing, [f"not TOML: {error}"]) from None
    return _machine(check_document(data, MachineDocument, thing=thing, also=lambda data: _unknown_actions(data, actions)))


def shipped_machines(actions: Collection[str]) -> dict[str, Machine]:
    """Return the machines that ship with holdfast, by name."""
    folder = files("holdfast.control.jobs") / "machines"
    machines = [
        parse_machine(entry.read_text(encoding="utf-8"), actions=actions, thing=f"machine '{entry.name}'")
        for entry in sorted(folder.iterdir(), key=lambda each: each.name)
        if entry.name.endswith(".toml")
    ]
    return {machine.name: machine for machine in machines}


def _unknown_actions(data: Any, actions: Collection[str]) -> Iterator[FieldError]:
    states = data.get("states")
    for name, state in states.items() if isinstance(states, dict) else ():
        rows = state.get("transitions") if isinstance(state, dict) else None
        for event, row in rows.items() if isinstance(rows, dict) else ():
            for part in ("before", "do"):
                listed = row.get(part, ()) if isinstance(row, dict) else ()
                for action in listed if isinstance(listed, list) else ():
                    name_of = action.get("action") if isinstance(action, dict) else action
                    if isinstance(name_of, str) and name_of not in actions:
                        text = f"there is no action '{name_of}'; actions are: {', '.join(sorted(actions))}"
                        yield FieldError(("states", name, "transitions", event, part), text)


def _machine(document: MachineDocument) -> Machine:
    ordered = sorted(document.states.items(), key=lambda item: item[1].number)
    states = {
        name: State(
            name,
            part.number,
            part.end,
            MappingProxyType(dict(part.properties)),
            MappingProxyType({event: _transition(event, row) for event, row in part.transitions.items()}),
        )
        for name, part in ordered
    }
    return Machine(document.machine, document.about, document.begins, MappingProxyType(states))


def _transition(name: str, part: TransitionPart) -> Transition:
    return Transition(name, part.next, tuple(map(_action, part.do)), tuple(map(_action, part.before)))


def _action(part: str | ActionPart) -> Action:
    return Action(part) if isinstance(part, str) else Action(part.action, MappingProxyType(dict(part.settings)))
