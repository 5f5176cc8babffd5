"""The available planners: built-in ones, and those of installed packages."""

from __future__ import annotations

from importlib.metadata import EntryPoint

from holdfast.entry_points import create_named, installed_entry_points
from holdfast.errors import HoldfastError
from holdfast.planning.ppa.frontier import Frontier
from holdfast.planning.ppa.greedy import Greedy
from holdfast.planning.ppa.planner import Planner
from holdfast.planning.ppa.structure_aware import StructureAware

GROUP = "holdfast.planners"
PLANNERS: dict[str, Planner] = {planner.name: planner for planner in (Frontier(), StructureAware(), Greedy())}
"""The built-in planners, best first."""


def planner_names() -> list[str]:
    """Return the names of all planners: built-in ones, best first, then those of the entry-point group `holdfast.planners`."""
    return [*PLANNERS, *sorted(_installed())]


def planner_of(name: str) -> Planner:
    """Return a planner by name. A package's planner is imported on demand; built-in ones cannot be replaced. Raises HoldfastError.

    >>> planner_of("greedy").name
    'greedy'
    """
    if name in PLANNERS:
        return PLANNERS[name]
    installed = _installed()
    if name not in installed:
        raise HoldfastError(f"there is no planner '{name}' of topologies; planners are: {', '.join(planner_names())}, all")
    planner: Planner = create_named(installed[name], kind="planner", method="plan")
    return planner


def _installed() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in installed_entry_points(GROUP) if entry.name not in PLANNERS}
