"""Machines as people see them: a diagram and a table, written from the document."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from holdfast.control.jobs.machine_document import Action, Machine

HEAD = """# The state machines

A document describes the lifecycle of a job. These are the ones that ship, in `src/holdfast/control/jobs/machines`. A job's `type`
names its machine; `holdfast serve --machine FILE` adds one. States with a bold edge are written to the database when a job first
enters them, before the transition's actions run. `python -m holdfast.control.jobs.machine_diagram` writes this page, and a test
keeps it current.
"""


def diagram(machine: Machine) -> str:
    """The machine as a Mermaid state diagram; transitions between the same two states share an arrow."""
    arrows: dict[tuple[str, str], list[str]] = {}
    for state, row in machine.transitions():
        arrows.setdefault((state.name, row.next), []).append(row.name)
    lines = ["stateDiagram-v2", "    classDef persisted stroke-width:3px", f"    [*] --> {machine.begins}"]
    lines += [f"    {here} --> {there}: {', '.join(names)}" for (here, there), names in arrows.items()]
    lines += [f"    {name} --> [*]" for name in sorted(machine.ends(), key=lambda name: machine.states[name].number)]
    written = ",".join(name for name, state in machine.states.items() if state.persisted)
    return "\n".join([*lines, f"    class {written} persisted"])


def table(machine: Machine) -> str:
    """Every transition in a line: from, by, to, and what is done."""
    lines = ["| number | state | written | transition | next | actions |", "|---|---|---|---|---|---|"]
    for state in machine.states.values():
        written = "yes" if state.persisted else "no"
        if not state.transitions:
            lines.append(f"| {state.number} | {state.name} | {written} | (end) | | |")
        for name in sorted(state.transitions):
            row = state.transitions[name]
            done = ", ".join((*_named(row.before, "before: "), *_named(row.do)))
            lines.append(f"| {state.number} | {state.name} | {written} | {name} | {row.next} | {done} |")
    return "\n".join(lines)


def page(machines: Iterable[Machine]) -> str:
    """The page of all machines, in Markdown."""
    parts = [HEAD]
    for machine in machines:
        about = " ".join(machine.about.split())
        parts.append(f"## {machine.name}\n\n{about}\n\n```mermaid\n{diagram(machine)}\n```\n\n{table(machine)}\n")
    return "\n".join(parts)


def _named(actions: Iterable[Action], prefix: str = "") -> Iterator[str]:
    return (f"{prefix}`{action.name}`" for action in actions)


def shipped_page() -> str:
    """The page of the machines that ship."""
    from holdfast.control.jobs.machine_document import shipped_machines
    from holdfast.control.plugins import shipped_actions

    machines = shipped_machines(shipped_actions())
    return page(machines[name] for name in sorted(machines, reverse=True))


if __name__ == "__main__":
    print(shipped_page(), end="")
