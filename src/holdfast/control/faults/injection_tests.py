"""State-machine fault injection (System-S, section 5): tests as documents, and machines with their faults.

A test names a state, a transition, a moment of that transition, and a fault. `add_faults` returns a machine in which the fault is
one of the transition's actions; the original machine does not change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from holdfast.control.faults.fault_library import Fault, setting_errors
from holdfast.control.jobs.machine_document import Action, Machine, Transition
from holdfast.documents.document import Document, FieldError, Part, Place, at_least, read_document
from holdfast.errors import DocumentError

ACTION = "faults.inject"
"""The action that `add_faults` adds. It injects the fault that its settings describe."""

Moment = Literal["before", "after", "done"]
"""When in a transition a fault is injected: before it is persisted, after that and before the first action, or after the last."""


class Trigger(Part):
    """What else must hold for an injection: the job's number, and how many of its replicas have started.

    The fault is then injected after a random time from `min_s` to `max_s`, at most `times` times.
    """

    min_s: float = 0.0
    max_s: float = 0.0
    job: int | None = None
    started: int = 0
    times: int = 1

    def errors_at(self, place: tuple[str | int, ...]) -> Iterable[FieldError]:
        yield from at_least(0, (*place, "min_s"), self.min_s)
        yield from at_least(self.min_s, (*place, "max_s"), self.max_s)
        yield from at_least(0, (*place, "started"), self.started)
        yield from at_least(1, (*place, "times"), self.times)


class InjectionTest(Part):
    """One fault at one transition. `node` and `pe` name its target, unless that is the orchestrator; without them it is the job's
    first replica by key. `settings` are those of the fault."""

    state: str
    transition: str
    fault: str
    moment: Moment = "after"
    machine: str = "streaming"
    node: str | None = None
    pe: str | None = None
    trigger: Trigger = Field(default_factory=Trigger)
    settings: dict[str, Any] = Field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.machine}:{self.state}.{self.transition} {self.moment} {self.fault}"


class InjectionTests(Document):
    """A document of tests. `seed` determines the random times of tests with a timer."""

    seed: int = 0
    tests: tuple[InjectionTest, ...]

    def errors(self) -> Iterable[FieldError]:
        for index, test in enumerate(self.tests):
            yield from test.trigger.errors_at(("tests", index, "trigger"))


def read_tests(path: str | Path, machines: Mapping[str, Machine], *, faults: Mapping[str, Fault]) -> InjectionTests:
    """Return the tests in a document. Raises DocumentError with all its errors, unknown names included."""
    return read_document(path, InjectionTests, also=lambda data: _unknown_names(data, machines, faults))


def check_tests(tests: Sequence[InjectionTest], machines: Mapping[str, Machine], *, faults: Mapping[str, Fault]) -> None:
    """Raise DocumentError with every unknown state, transition and fault that the tests name."""
    errors = list(_unknown_names({"tests": [test.model_dump() for test in tests]}, machines, faults))
    if errors:
        raise DocumentError("fault injection tests", list(map(str, errors)))


def add_faults(machine: Machine, tests: Iterable[InjectionTest]) -> Machine:
    """Return the machine with the faults of the tests that name it."""
    states = dict(machine.states)
    for test in tests:
        if test.machine != machine.name:
            continue
        state = states[test.state]
        transitions = {**state.transitions, test.transition: _with_fault(state.transitions[test.transition], test)}
        states[test.state] = state.model_copy(update={"transitions": transitions})
    return machine.model_copy(update={"states": states})


def _with_fault(row: Transition, test: InjectionTest) -> Transition:
    fault = Action(action=ACTION, settings=test.model_dump(mode="json"))
    if test.moment == "before":
        return row.model_copy(update={"before": (*row.before, fault)})
    return row.model_copy(update={"do": (fault, *row.do) if test.moment == "after" else (*row.do, fault)})


def _unknown_names(data: Any, machines: Mapping[str, Machine], faults: Mapping[str, Fault]) -> Iterator[FieldError]:
    tests = data.get("tests") if isinstance(data, dict) else None
    for index, test in enumerate(tests if isinstance(tests, list) else ()):
        if isinstance(test, dict):
            yield from _unknown_names_of(test, ("tests", index), machines, faults)


def _unknown_names_of(
    test: Mapping[str, Any], place: Place, machines: Mapping[str, Machine], faults: Mapping[str, Fault]
) -> Iterator[FieldError]:
    """Yield an error for each unknown name in a test. The document's own check reports values that are no names."""
    names = {"machine": "streaming", **{key: value for key, value in test.items() if isinstance(value, str)}}
    if "fault" in names and names["fault"] not in faults:
        yield FieldError((*place, "fault"), f"there is no fault '{names['fault']}'; faults are: {', '.join(sorted(faults))}")
    elif "fault" in names and isinstance(settings := test.get("settings", {}), dict):
        for name, text in setting_errors(faults[names["fault"]], settings):
            yield FieldError((*place, "settings", name), text)
    machine = machines.get(names["machine"])
    if machine is None:
        known = ", ".join(sorted(machines))
        yield FieldError((*place, "machine"), f"there is no machine '{names['machine']}'; machines are: {known}")
        return
    state = machine.states.get(names["state"]) if "state" in names else None
    if "state" in names and state is None:
        has = ", ".join(machine.states)
        yield FieldError((*place, "state"), f"machine '{machine.name}' has no state '{names['state']}'; states are: {has}")
    elif state is not None and "transition" in names and names["transition"] not in state.transitions:
        has = ", ".join(sorted(state.transitions)) or "none"
        text = f"state '{names['state']}' has no transition '{names['transition']}'; transitions are: {has}"
        yield FieldError((*place, "transition"), text)
