"""Describes state machines in docs/machines.md: a diagram and a table, generated from the machine's document."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from holdfast.control.jobs.machine_document import Action, Machine, split_action

HEAD = """# The state machines

A state machine is a document that defines the lifecycle of a job. The machines on this page ship with holdfast, in
`src/holdfast/control/jobs/machines`. A job's `type` names its machine; `holdfast serve --machine FILE` adds one. States with a bold
edge are written to the database when a job first enters them, before the transition's actions run. An action is a method of a
plug-in. The actions `enter` of a state follow those of every transition from another state to it. `scripts/write_generated_docs.py`
writes this page.
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


def table(machine: Machine, *, base: Machine | None = None) -> str:
    """Return a table of the transitions. Those of a state that lead to the same state by the same actions share a row.

    With a base, the table contains only what the base does not have.
    """
    lines = ["| state | transitions | next | actions |", "|---|---|---|---|"]
    for name, state in machine.states.items():
        rows: dict[tuple[str, str], list[str]] = {}
        for event, row in sorted(state.transitions.items()):
            if base is None or name not in base.states or base.states[name].transitions.get(event) != row:
                actions = ", ".join((*_names(row.before, "before: "), *_names(row.do)))
                rows.setdefault((row.next, actions), []).append(event)
        lines += [f"| {name} | {', '.join(events)} | {end} | {actions} |" for (end, actions), events in rows.items()]
    return "\n".join(lines)


def page(machines: Iterable[Machine]) -> str:
    """Return the page about these machines, in Markdown. The first is described completely, the others by their differences."""
    first, *others = machines
    parts = [HEAD, f"{_heading(first)}\n\n```mermaid\n{diagram(first)}\n```\n\n{table(first)}\n"]
    for machine in others:
        missing = [f"{state}.{event}" for state, event, _ in first.transitions() if not _has(machine, state, event)]
        lacks = f"It lacks {', '.join(missing)}. " if missing else ""
        parts.append(f"{_heading(machine)} {lacks}It differs from `{first.name}` in:\n\n{table(machine, base=first)}\n")
    return "\n".join(parts)


def _heading(machine: Machine) -> str:
    return f"## {machine.name}\n\n{' '.join(machine.about.split())}"


def _has(machine: Machine, state: str, event: str) -> bool:
    return state in machine.states and event in machine.states[state].transitions


def _names(actions: Iterable[str | Action], prefix: str = "") -> Iterator[str]:
    return (f"{prefix}`{split_action(action)[0]}`" for action in actions)


def shipped_page() -> str:
    """Return the page about the machines that ship."""
    from holdfast.control.jobs.machine_document import shipped_machines
    from holdfast.control.plugins import shipped_actions

    machines = shipped_machines(shipped_actions())
    return page(machines[name] for name in sorted(machines, reverse=True))
