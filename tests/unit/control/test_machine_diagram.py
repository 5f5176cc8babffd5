"""The page of machines says what the documents say."""

from pathlib import Path

from holdfast.control.jobs.machine_diagram import diagram, shipped_page, table
from holdfast.control.jobs.machine_document import shipped_machines
from holdfast.control.plugins import shipped_actions

DOCS = Path(__file__).parents[3] / "docs"


def test_the_page_of_machines_is_current():
    assert (DOCS / "machines.md").read_text() == shipped_page(), "run: python scripts/write_generated_docs.py"


def test_every_transition_is_in_the_table_and_every_state_in_the_diagram():
    for machine in shipped_machines(shipped_actions()).values():
        rows = table(machine)
        for state, row in machine.transitions():
            assert f"| {state.name} | {'yes' if state.persisted else 'no'} | {row.name} | {row.next} |" in rows
        drawn = diagram(machine)
        assert all(name in drawn for name in machine.states)
