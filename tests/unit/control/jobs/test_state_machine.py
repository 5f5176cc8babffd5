"""The step function: from a lifecycle and an event to the next lifecycle and its commands."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.control.jobs.machine_document import parse_machine, shipped_machines
from holdfast.control.jobs.state_machine import WRITE, Event, IllegalTransition, begin_lifecycle, is_stale, step
from holdfast.control.plugins import shipped_actions

MACHINES = shipped_machines(shipped_actions())

SMALL = """
machine = "small"
begins = "new"
[states.new]
number = 1
properties = { updatedb = true }
transitions.go = { next = "busy", do = ["a.one", "a.two"], before = ["a.zero"] }
transitions.recover = { next = "busy" }
[states.busy]
number = 2
transitions.poke = { next = "busy", do = ["a.one"] }
transitions.stop = { next = "over" }
[states.over]
number = 3
end = true
properties = { updatedb = true }
"""


def small(text: str = SMALL):
    return parse_machine(text, actions={"a.zero", "a.one", "a.two"}, thing="machine 'small'")


def event(name: str, **given: object) -> Event:
    return Event(7, name, 12.5, **given)


def test_step_orders_before_actions_write_and_actions():
    machine = small(
        SMALL.replace("number = 2", "number = 2\nproperties = { updatedb = true }\ntransitions.recover = { next = 'busy' }")
    )
    lifecycle, commands = step(machine, begin_lifecycle(machine, 4, at_s=1.0), event("go", cause="asked"))
    assert [command.name for command in commands] == ["a.zero", WRITE, "a.one", "a.two"]
    assert [command.before for command in commands] == [True, False, False, False]
    assert {command.job for command in commands} == {4}
    assert (lifecycle.state, lifecycle.version, lifecycle.history[-1].cause) == ("busy", 1, "asked")


def test_state_is_written_only_on_first_entry():
    machine = MACHINES["streaming"]
    lifecycle = begin_lifecycle(machine, 1, at_s=0.0)
    written = []
    for name in ("parse", "parsed", "mapped", "optim", "instantiated", "peStatusUpdate", "started", "peStatusUpdate", "restart"):
        lifecycle, commands = step(machine, lifecycle, event(name))
        written.append((lifecycle.state, WRITE in [command.name for command in commands]))
    assert [state for state, wrote in written if wrote] == ["mapping", "dispatching", "running"]


def test_illegal_transition_names_possible_events_and_history():
    machine = small()
    lifecycle, _ = step(machine, begin_lifecycle(machine, 4, at_s=1.0), event("go"))
    with pytest.raises(
        IllegalTransition, match=r"job 4 is busy and takes no 'go'; it takes: poke, stop \(its history: new -> busy\)"
    ):
        step(machine, lifecycle, event("go"))
    lifecycle, _ = step(machine, lifecycle, event("stop"))
    with pytest.raises(IllegalTransition, match="job 4 is over and takes no 'poke'; it has ended"):
        step(machine, lifecycle, event("poke"))


def test_event_of_an_earlier_state_is_stale():
    machine = small()
    lifecycle = begin_lifecycle(machine, 4, at_s=1.0)
    late = event("stop", since=lifecycle.version)
    assert not is_stale(lifecycle, late)
    lifecycle, _ = step(machine, lifecycle, event("go"))
    assert is_stale(lifecycle, late)
    assert not is_stale(lifecycle, event("stop"))


@given(st.sampled_from(sorted(MACHINES)), st.lists(st.integers(0, 99), max_size=60))
def test_lifecycle_writes_each_state_once_and_stays_ended(name, choices):
    machine = MACHINES[name]
    lifecycle = begin_lifecycle(machine, 1, at_s=0.0)
    written = [machine.begins]
    for choice in choices:
        rows = sorted(machine.states[lifecycle.state].transitions)
        if not rows:
            break
        before = lifecycle
        lifecycle, commands = step(machine, lifecycle, event(rows[choice % len(rows)]))
        if WRITE in [command.name for command in commands]:
            written.append(lifecycle.state)
        assert (lifecycle.version == before.version + 1) == (lifecycle.state != before.state)
    assert len(written) == len(set(written))
    assert set(written) == lifecycle.written
