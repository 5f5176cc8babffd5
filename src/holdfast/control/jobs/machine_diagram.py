"""Describe state machines in docs/machines.md: a diagram and a table, generated from the machine's document."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from holdfast.control.jobs.machine_document import Action, Machine, split_action

HEAD = """# The state machines

A state machine is a document that defines the lifecycle of a job. The machines on this page ship with holdfast, in
`src/holdfast/control/jobs/machines`. A job's `type` names its machine; `holdfast serve --machine FILE` adds one. States with a bold
edge are written to the database when a job first enters them, before the transition's actions run. The script
`scripts/write_generated_docs.py` writes this page, and a test keeps it current.
"""


def diagram(machine: Machine) -> str:
    """Return the machine as a Mermaid state diagram. Transitions between the same two states share an arrow."""
    arrows: dict[tuple[str, str], list[str]] = {}
    for state, event, row in machine.transitions():
        arrows.setdefault((state, row.next), []).append(event)
    lines = ["stateDiagram-v2", "    classDef persisted stroke-width:3px", f"    [*] --> {machine.begins}"]
    lines += [f"    {start} --> {end}: {', '.join(names)}" for (start, end), names in arrows.items()]
    lines += [f"    {name} --> [*]" for name in sorted(machine.ends(), key=lambda name: machine.states[name].number)]
    written = ",".join(name for name, state in machine.states.items() if state.persisted)
    return "\n".join([*lines, f"    class {written} persisted"])


def table(machine: Machine) -> str:
    """Return a table of all transitions with their states and actions."""
    lines = ["| number | state | written | transition | next | actions |", "|---|---|---|---|---|---|"]
    for name, state in machine.states.items():
        written = "yes" if state.persisted else "no"
        if not state.transitions:
            lines.append(f"| {state.number} | {name} | {written} | (end) | | |")
        for event in sorted(state.transitions):
            row = state.transitions[event]
            actions = ", ".join((*_names(row.before, "before: "), *_names(row.do)))
            lines.append(f"| {state.number} | {name} | {written} | {event} | {row.next} | {actions} |")
    return "\n".join(lines)


def page(machines: Iterable[Machine]) -> str:
    """Return the page about these machines, in Markdown."""
    parts = [HEAD]
    for machine in machines:
        about = " ".join(machine.about.split())
        parts.append(f"## {machine.name}\n\n{about}\n\n```mermaid\n{diagram(machine)}\n```\n\n{table(machine)}\n")
    return "\n".join(parts)


def _names(actions: Iterable[str | Action], prefix: str = "") -> Iterator[str]:
    return (f"{prefix}`{split_action(action)[0]}`" for action in actions)


def shipped_page() -> str:
    """Return the page about the machines that ship."""
    from holdfast.control.jobs.machine_document import shipped_machines
    from holdfast.control.plugins import shipped_actions

    machines = shipped_machines(shipped_actions())
    return page(machines[name] for name in sorted(machines, reverse=True))
