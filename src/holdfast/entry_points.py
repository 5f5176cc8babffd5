"""Entry points of installed packages: how other packages add commands, plug-ins, PE host kinds, faults, planners and predictors."""

from functools import cache
from importlib.metadata import EntryPoints, entry_points
from typing import Any


def installed_entry_points(group: str) -> EntryPoints:
    """Return the entry points that installed packages declare for a group."""
    selected: EntryPoints = _all_entry_points().select(group=group)
    return selected


@cache  # the lookup scans every installed package, and an orchestrator repeats it for each plug-in
def _all_entry_points() -> Any:  # one type up to Python 3.11 and another since; both have `select`
    return entry_points()
