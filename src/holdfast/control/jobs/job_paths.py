"""Where a job's files are: the same place for every process that reads or writes them, and none that is not allowed here."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from holdfast.documents.document import FieldError, Place
from holdfast.documents.job import Job

DEFINES = ("application", "plan", "strategy", "columns")
"""What says what a job is. All but `columns`, which its PE hosts read, are read beside the orchestrator."""
DATA = ("trace", "log", "out", "checkpoints")
"""What a job reads rows from and writes them to: on its nodes, which may see more than the orchestrator's machine does."""
FED = ("trace", "columns", "checkpoints")
"""What of both stands in a job's `feed`."""
UNPLAIN = re.compile(r"[*?\[\]{}%#\\]|(^|/)\.\.?(/|$)")
"""What may make of one place another: patterns, escapes and steps upwards. Spark and object stores each read them their own way."""


@dataclass(frozen=True, slots=True)
class AllowedPaths:
    """What jobs may name. `applications`: the folder that all that defines a job must be under; None: any. `data`: the folders and
    addresses, one of which its data must be under; none: any."""

    applications: Path | None = None
    data: tuple[str, ...] = ()


def with_absolute_paths(job: Job) -> Job:
    """The job with every path absolute: what is relative is so to the orchestrator's folder, and not to that of each node."""
    feed = {name: _absolute(getattr(job.feed, name)) for name in FED}
    own = {name: _absolute(getattr(job, name)) for name in ("application", "plan", "strategy", "log", "out")}
    return job.model_copy(update={"feed": job.feed.model_copy(update=feed), **own})


def place_errors(job: Job, bounds: AllowedPaths) -> Iterator[FieldError]:
    """Everything wrong with the places that a job, as `located` gives it, names."""
    for name in DEFINES:
        if (place := _named(job, name)) is not None:
            yield from (FieldError(_field(name), text) for text in _definition_errors(name, place, bounds.applications))
    for name in DATA:
        if (place := _named(job, name)) is not None:
            yield from (FieldError(_field(name), text) for text in _data_errors(place, bounds.data))


def _definition_errors(name: str, place: str, folder: Path | None) -> Iterator[str]:
    if "\0" in place:
        yield f"{place[:100]!r} is no path: it has a zero byte"
    elif folder is not None and not _real(place).is_relative_to(_real(folder)):
        yield f"'{place}' is not under '{folder}', where this orchestrator takes them from"
    elif name != "columns" and not (os.path.isfile(place) and os.access(place, os.R_OK)):  # noqa: PTH113 - Path.is_file raises for a name that is too long
        yield f"'{place}' is no file that the orchestrator can read"


def _data_errors(place: str, roots: Sequence[str]) -> Iterator[str]:
    if "\0" in place:
        yield f"{place[:100]!r} is no path: it has a zero byte"
    elif roots and UNPLAIN.search(place):
        yield f"'{place}' is not plain: where data is bounded, a path has no pattern, escape, '.' or '..'"
    elif roots and not any(_is_under(place, root) for root in roots):
        allowed = " or ".join(f"'{root}'" for root in roots)
        yield f"'{place}' is not under {allowed}, where this orchestrator lets jobs have data"


def _is_under(place: str, root: str) -> bool:
    if "://" in place or "://" in root:
        return f"{place}/".startswith(f"{root.rstrip('/')}/")
    return _real(place).is_relative_to(_real(root))


def _real(place: str | Path) -> Path:
    """A path without links; one that cannot be followed, such as a circle of them, stays as far as it can."""
    return Path(os.path.realpath(place))


def _field(name: str) -> Place:
    return ("feed", name) if name in FED else (name,)


def _named(job: Job, name: str) -> str | None:
    found: str | None = getattr(job.feed if name in FED else job, name)
    return found


def _absolute(place: str | None) -> str | None:
    return place if place is None or "://" in place or "\0" in place else os.path.abspath(place)  # noqa: PTH100 - a name may be too long
