"""State machines as documents: all errors of a document are reported at once."""

import pytest

from holdfast.control.jobs.machine_document import parse_machine, shipped_machines
from holdfast.control.plugins import shipped_actions
from holdfast.errors import DocumentError

ACTIONS = shipped_actions()
MACHINES = shipped_machines(ACTIONS)


def test_all_errors_of_a_machine_are_reported():
    text = """
machine = "odd"
begins = "new"
[states.new]
number = 1
transitions.go = { next = "nowhere", do = ["a.unknown"] }
transitions.loop = { next = "trap" }
[states.trap]
number = 1
properties = { updatedb = true }
transitions.again = { next = "trap" }
[states.island]
number = 3
end = true
transitions.leave = { next = "new" }
"""
    with pytest.raises(DocumentError) as caught:
        parse_machine(text, actions={"a.one"}, thing="machine 'odd'")
    wanted = [
        'states.new.transitions.go.next: wanted one of the states island, new, trap, got "nowhere"',
        "states.trap.number: 1 is the number of 'new' already",
        "states.new: must be persisted (updatedb = true): a crash would lose the job otherwise",
        "states.trap: is persisted and has no transition 'recover' for a crash in it",
        "states.island: is an end and has transitions: leave",
        "states.island: cannot be reached from 'new'",
        "states.trap: is a trap: no end can be reached from it",
        "states.new.transitions.go.do: there is no action 'a.unknown'; actions are: a.one",
    ]
    for error in wanted:
        assert error in caught.value.errors


def test_type_error_in_a_machine_hides_no_other_error():
    text = """
machine = "odd"
begins = "new"
[states.new]
number = "one"
properties = { updatedb = "yes" }
transitions.go = { next = "busy", do = [5, { action = "a.unknown" }, { settings = {} }] }
transitions.away = { next = "nowhere" }
[states.busy]
number = 2
transitions = "none"
[states.over]
number = 2
end = true
"""
    with pytest.raises(DocumentError) as caught:
        parse_machine(text, actions={"a.one"}, thing="machine 'odd'")
    assert caught.value.errors == (
        'states.new.number: wanted a whole number, got "one"',
        "states.new.transitions.go.do[0]: wanted text or a mapping, got 5",
        "states.new.transitions.go.do[2].action: is missing",
        'states.busy.transitions: wanted a mapping, got "none"',
        'states.new.transitions.away.next: wanted one of the states busy, new, over, got "nowhere"',
        "states.over.number: 2 is the number of 'busy' already",
        'states.new.properties.updatedb: wanted true or false, got "yes"',
        "states.new: must be persisted (updatedb = true): a crash would lose the job otherwise",
        "states.over: must be persisted (updatedb = true): a crash would lose the job otherwise",
        "states.new.transitions.go.do: there is no action 'a.unknown'; actions are: a.one",
    )


def test_machine_without_states_is_refused():
    with pytest.raises(DocumentError) as caught:
        parse_machine('machine = "m"\nbegins = "a"\n[states]\n', actions=())
    assert caught.value.errors == ("states: is empty; a machine has a state to begin in and an end",)


def test_invalid_toml_is_explained():
    with pytest.raises(DocumentError, match="machine 'm': not TOML"):
        parse_machine("states = [", actions=(), thing="machine 'm'")
    with pytest.raises(DocumentError, match="machine 'm' has 3 errors"):
        parse_machine("", actions=(), thing="machine 'm'")


def test_shipped_machines_persist_the_papers_states():
    for machine in MACHINES.values():
        persisted = {name for name, state in machine.states.items() if state.persisted}
        assert persisted == {"submitted", "mapping", "dispatching", "canceling", "running", "completed", "canceled", "failed"}
        assert machine.ends() == {"completed", "canceled", "failed"}


def test_entry_actions_follow_each_transition_from_another_state():
    text = """
machine = "small"
begins = "new"
[states.new]
number = 1
properties = { updatedb = true }
transitions.go = { next = "over", do = ["a.one"] }
transitions.recover = { next = "new", do = ["a.one"] }
[states.over]
number = 2
end = true
enter = ["a.two", "a.three"]
properties = { updatedb = true }
"""
    new = parse_machine(text, actions={"a.one", "a.two", "a.three"}).states["new"]
    assert new.transitions["go"].do == ("a.one", "a.two", "a.three")
    assert new.transitions["recover"].do == ("a.one",)
    with pytest.raises(DocumentError, match=r"states.over.enter: there is no action 'a.two'; actions are: a.one, a.three"):
        parse_machine(text, actions={"a.one", "a.three"})


@pytest.mark.parametrize("name", sorted(MACHINES))
def test_every_transition_into_canceling_stops_the_replicas(name):
    rows = [row for state, _, row in MACHINES[name].transitions() if row.next == "canceling" and state != "canceling"]
    assert rows and all(row.do == ("dispatch.stop",) for row in rows)
