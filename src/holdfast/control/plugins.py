"""Plug-ins: the parts of an orchestrator, loaded by name. A package can replace or add one by an entry point."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from importlib import import_module
from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from holdfast.entry_points import installed_entry_points
from holdfast.errors import MachineError

if TYPE_CHECKING:
    from holdfast.control.jobs.job_state import JobState
    from holdfast.control.jobs.state_machine import Command
    from holdfast.control.orchestrator import Orchestrator

GROUP = "holdfast.plugins"

ActionMethod: TypeAlias = "Callable[[JobState, Command], Awaitable[None]]"

SHIPPED = {
    "time": "holdfast.control.clock:Clock",
    "persistence": "holdfast.control.jobs.persistence:Persistence",
    "resources": "holdfast.control.nodes.resource_manager:ResourceManager",
    "parser": "holdfast.control.jobs.parser:Parser",
    "dataflow": "holdfast.control.jobs.dataflow:Dataflow",
    "placement": "holdfast.control.placement.placement_manager:PlacementManager",
    "dispatch": "holdfast.control.nodes.dispatch:Dispatch",
    "restart_policy": "holdfast.control.recovery.restart_policy:RestartPolicy",
    "observers": "holdfast.control.observers.job_observers:JobObservers",
    "agents": "holdfast.control.nodes.agent_manager:AgentManager",
    "recovery": "holdfast.control.recovery.orchestrator_recovery:OrchestratorRecovery",
    "faults": "holdfast.control.faults.fault_plugin:Faults",
    "api": "holdfast.control.api.routes:Api",
    "page": "holdfast.ui.plugin:Page",
}
"""The plug-ins that every orchestrator has, in the order in which they are made."""


class Plugin:
    """A part of an orchestrator. `action_names` are what machines can call it for, each as `plugin.method`."""

    action_names: ClassVar[tuple[str, ...]] = ()

    def __init__(self, orchestrator: Orchestrator) -> None:
        self.orchestrator = orchestrator

    def actions(self) -> Mapping[str, ActionMethod]:
        return {name: getattr(self, name.partition(".")[2]) for name in self.action_names}


def plugin_class(name: str, places: Mapping[str, str] | None = None) -> Callable[..., Any]:
    """What makes the plug-in of a name: an entry point's where a package brings one, else the shipped one. Raises MachineError."""
    brought = _brought()
    if places and name in places:
        place, whose = places[name], "--plugin"
    elif name in brought:
        package = brought[name].dist
        place, whose = brought[name].value, f"package '{package.name}'" if package is not None else "an entry point"
    elif name in SHIPPED:
        place, whose = SHIPPED[name], "holdfast"
    else:
        known = ", ".join(sorted({*SHIPPED, *brought}))
        raise MachineError(f"there is no plug-in '{name}'; plug-ins are: {known}")
    module, _, attribute = place.partition(":")
    try:
        made = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise MachineError(
            f"plug-in '{name}' of {whose} cannot be loaded from '{place}': {error}; mend or remove the package that brings it"
        ) from error
    if not callable(made):
        raise MachineError(f"plug-in '{name}' of {whose}: wanted a class at '{place}', got {type(made).__name__}")
    return made  # type: ignore[no-any-return]  # what an entry point names has no type that could be known here


def shipped_actions() -> set[str]:
    """The names of all actions that the shipped plug-ins bring, without an orchestrator to run them."""
    names: set[str] = set()
    for name in SHIPPED:
        made = plugin_class(name, SHIPPED)
        if isinstance(made, type) and issubclass(made, Plugin):
            names.update(made.action_names)
    return names


def plugin_names(places: Mapping[str, str] | None = None) -> list[str]:
    """Every plug-in there is: the shipped ones in their order, then added ones by name."""
    return [*SHIPPED, *sorted({*_brought(), *(places or {})} - set(SHIPPED))]


def _brought() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in installed_entry_points(GROUP)}
