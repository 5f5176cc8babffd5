"""The paths and URLs that a job names: make them absolute, and check them against what the orchestrator allows."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from holdfast.documents.document import FieldError, Place
from holdfast.documents.job import Job

DEFINITION_FILES = ("application", "plan", "strategy", "columns")
"""Files that define a job. PE hosts read `columns`; the orchestrator's machine reads the others."""
DATA_PATHS = ("trace", "log", "out", "checkpoints")
"""Where a job's rows are. Only its nodes use these paths; the orchestrator's machine may not reach that storage."""
FEED_FIELDS = ("trace", "columns", "checkpoints")
"""Which of these are fields of the job's `feed`."""
NOT_PLAIN = re.compile(r"[*?\[\]{}%#\\]|(^|/)\.\.?(/|$)")
"""Patterns, escapes, '.' and '..'. Spark and object stores interpret them differently, so they could lead to other folders."""


@dataclass(frozen=True, slots=True)
class AllowedPaths:
    """The paths that jobs may name.

    Files that define a job must be under the folder `applications`, if it is given. Data must be under one of the folders or URLs
    in `data`, if there are any.
    """

    applications: Path | None = None
    data: tuple[str, ...] = ()


def with_absolute_paths(job: Job) -> Job:
    """Return the job with absolute paths. Relative ones are relative to the orchestrator's working folder, not to a node's."""
    feed = {name: _absolute(getattr(job.feed, name)) for name in FEED_FIELDS}
    own = {name: _absolute(getattr(job, name)) for name in ("application", "plan", "strategy", "log", "out")}
    return job.model_copy(update={"feed": job.feed.model_copy(update=feed), **own})


def path_errors(job: Job, allowed: AllowedPaths) -> Iterator[FieldError]:
    """Yield every error in the paths of a job that `with_absolute_paths` returned."""
    for name in DEFINITION_FILES:
        if (path := _path(job, name)) is not None:
            yield from (FieldError(_field(name), text) for text in _definition_errors(name, path, allowed.applications))
    for name in DATA_PATHS:
        if (path := _path(job, name)) is not None:
            yield from (FieldError(_field(name), text) for text in _data_errors(path, allowed.data))


def _definition_errors(name: str, path: str, folder: Path | None) -> Iterator[str]:
    if "\0" in path:
        yield f"{path[:100]!r} is no path: it has a zero byte"
    elif folder is not None and not _real(path).is_relative_to(_real(folder)):
        yield f"'{path}' is not under '{folder}', from which this orchestrator accepts such files"
    elif name != "columns" and not (os.path.isfile(path) and os.access(path, os.R_OK)):  # noqa: PTH113 - Path.is_file raises for a name that is too long
        yield f"'{path}' is not a file that the orchestrator can read"


def _data_errors(path: str, roots: Sequence[str]) -> Iterator[str]:
    if "\0" in path:
        yield f"{path[:100]!r} is no path: it has a zero byte"
    elif roots and NOT_PLAIN.search(path):
        yield f"'{path}' is not plain: if the orchestrator restricts data paths, they have no pattern, escape, '.' or '..'"
    elif roots and not any(_is_under(path, root) for root in roots):
        allowed = " or ".join(f"'{root}'" for root in roots)
        yield f"'{path}' is not under {allowed}, where this orchestrator allows data"


def _is_under(path: str, root: str) -> bool:
    if "://" in path or "://" in root:
        return f"{path}/".startswith(f"{root.rstrip('/')}/")
    return _real(path).is_relative_to(_real(root))


def _real(path: str | Path) -> Path:
    """Return the path with its symbolic links resolved. A circle of links stays unresolved."""
    return Path(os.path.realpath(path))


def _field(name: str) -> Place:
    return ("feed", name) if name in FEED_FIELDS else (name,)


def _path(job: Job, name: str) -> str | None:
    path: str | None = getattr(job.feed if name in FEED_FIELDS else job, name)
    return path


def _absolute(path: str | None) -> str | None:
    return path if path is None or "://" in path or "\0" in path else os.path.abspath(path)  # noqa: PTH100 - a name may be too long
