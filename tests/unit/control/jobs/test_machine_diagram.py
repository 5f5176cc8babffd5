"""The generated page about state machines matches the documents."""

from pathlib import Path

from holdfast.control.jobs.machine_diagram import diagram, shipped_page, table
from holdfast.control.jobs.machine_document import shipped_machines
from holdfast.control.plugins import shipped_actions

DOCS = Path(__file__).parents[4] / "docs"


def test_machines_page_is_current():
    assert (DOCS / "machines.md").read_text() == shipped_page(), "run: python scripts/write_generated_docs.py"


def test_table_and_diagram_are_complete():
    for machine in shipped_machines(shipped_actions()).values():
        rows = table(machine)
        for state, event, row in machine.transitions():
            written = "yes" if machine.states[state].persisted else "no"
            assert f"| {state} | {written} | {event} | {row.next} |" in rows
        drawn = diagram(machine)
        assert all(name in drawn for name in machine.states)
