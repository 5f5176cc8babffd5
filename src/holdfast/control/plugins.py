"""The plug-ins of an orchestrator, loaded by name. A package can replace one or add one with an entry point."""

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
"""The plug-ins of every orchestrator, in the order in which they are created."""


class Plugin:
    """A part of an orchestrator. `action_names` lists the actions that state machines can name, each as `plugin.method`."""

    action_names: ClassVar[tuple[str, ...]] = ()

    def __init__(self, orchestrator: Orchestrator) -> None:
        self.orchestrator = orchestrator

    def actions(self) -> Mapping[str, ActionMethod]:
        return {name: getattr(self, name.partition(".")[2]) for name in self.action_names}


def plugin_class(name: str, overrides: Mapping[str, str] | None = None) -> Callable[..., Any]:
    """Return the class of a plug-in: from `overrides`, else from an entry point, else the shipped one. Raises MachineError.

    `overrides` maps names to locations such as `package.module:Class`.
    """
    installed = _entry_points()
    if overrides and name in overrides:
        location, origin = overrides[name], "--plugin"
    elif name in installed:
        package = installed[name].dist
        location, origin = installed[name].value, f"package '{package.name}'" if package is not None else "an entry point"
    elif name in SHIPPED:
        location, origin = SHIPPED[name], "holdfast"
    else:
        raise MachineError(f"there is no plug-in '{name}'; plug-ins are: {', '.join(sorted({*SHIPPED, *installed}))}")
    module, _, attribute = location.partition(":")
    try:
        plugin = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise MachineError(
            f"plug-in '{name}' of {origin} cannot be loaded from '{location}': {error}; fix or remove the package that provides it"
        ) from error
    if not callable(plugin):
        raise MachineError(f"plug-in '{name}' of {origin}: wanted a class at '{location}', got {type(plugin).__name__}")
    return plugin  # type: ignore[no-any-return]  # mypy cannot know the type of an imported name


def shipped_actions() -> set[str]:
    """Return the names of all actions of the shipped plug-ins. Needs no orchestrator."""
    names: set[str] = set()
    for name in SHIPPED:
        plugin = plugin_class(name, SHIPPED)
        if isinstance(plugin, type) and issubclass(plugin, Plugin):
            names.update(plugin.action_names)
    return names


def plugin_names(overrides: Mapping[str, str] | None = None) -> list[str]:
    """Return the names of all plug-ins: the shipped ones in their order, then the added ones by name."""
    return [*SHIPPED, *sorted({*_entry_points(), *(overrides or {})} - set(SHIPPED))]


def _entry_points() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in installed_entry_points(GROUP)}
