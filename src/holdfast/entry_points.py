"""Entry points of installed packages: how other packages add commands, plug-ins, PE host kinds, faults, planners and predictors."""

from functools import cache
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from typing import Any

from holdfast.errors import HoldfastError


def installed_entry_points(group: str) -> EntryPoints:
    """Return the entry points that installed packages declare for a group."""
    selected: EntryPoints = _all_entry_points().select(group=group)
    return selected


def create_named(entry: EntryPoint, *, kind: str, method: str) -> Any:
    """Import the class of an entry point and return an object of it. Raises HoldfastError without that method or with another name.

    `kind` is what messages call the object, for example 'planner'.
    """
    try:
        instance = entry.load()()
        actual_name = instance.name if callable(getattr(instance, method, None)) else None
    except Exception as error:  # another package's module may raise anything
        text = f"{type(error).__name__}: {error}"
        raise HoldfastError(f"{kind} '{entry.name}' cannot be created from '{entry.value}': {text}; fix its package") from error
    if actual_name != entry.name:
        raise HoldfastError(
            f"{kind} '{entry.name}': wanted a method '{method}' and the name '{entry.name}' at '{entry.value}', got {instance!r}"
        )
    return instance


@cache  # the lookup scans every installed package, and an orchestrator repeats it for each plug-in
def _all_entry_points() -> Any:  # one type up to Python 3.11 and another since; both have `select`
    return entry_points()
