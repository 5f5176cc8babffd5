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
        rows = [row.split(" | ") for row in table(machine).splitlines()]
        for state, event, row in machine.transitions():
            assert any(cells[0] == f"| {state}" and event in cells[1].split(", ") and cells[2] == row.next for cells in rows)
        drawn = diagram(machine)
        assert all(name in drawn for name in machine.states)


def test_further_machines_are_described_by_their_differences():
    finite = shipped_page().split("## finite")[1]
    assert "| dispatching | finished | completed |" in finite
    assert "parsing" not in finite
