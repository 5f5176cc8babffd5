"""What can be said against a call before anything is done about it."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from holdfast.errors import HoldfastError
from holdfast.manage.replicas import Replica
from holdfast.model.job import Job


class Conflict(HoldfastError):
    """A call that the present state of things does not allow."""


class NotThere(HoldfastError):
    """A call about something that does not exist."""


def check_job(document: Job, *, types: Collection[str], applications: Path | None) -> None:
    """Raise HoldfastError for a job that cannot run here: of an unknown type, or with an application that cannot be read."""
    whose = f"job '{document.job}'"
    if document.type not in types:
        raise HoldfastError(f"{whose}: there is no type '{document.type}'; types are: {', '.join(sorted(types))}")
    if document.pes is not None and document.host != "light":
        raise HoldfastError(f"{whose}: PEs that are written out run on a host of kind 'light', got '{document.host}'")
    if document.application is None:
        return
    path = Path(document.application)
    if applications is not None and not path.resolve().is_relative_to(applications.resolve()):
        raise HoldfastError(f"{whose}: application '{path}' is not under '{applications}', where this orchestrator takes them from")
    if not (path.is_file() and os.access(path, os.R_OK)):
        raise HoldfastError(f"{whose}: application '{path}' is no file that the orchestrator can read")


def check_activation(job: int, active: Mapping[str, Sequence[int]], replicas: Sequence[Replica]) -> None:
    """Raise HoldfastError with every task and replica that is named and not there."""
    there: dict[str, set[int]] = {}
    for replica in replicas:
        there.setdefault(replica.task_name, set()).add(replica.replica)
    problems = []
    for task, wanted in active.items():
        if task not in there:
            problems.append(f"task '{task}' is not one of job {job}'s; they are: {', '.join(sorted(there))}")
        elif not wanted:
            problems.append(f"task '{task}' would have no active replica; name at least one")
        elif not set(wanted) <= there[task]:
            problems.append(f"task '{task}' has the replicas {sorted(there[task])}, got {sorted(set(wanted))}")
    if problems:
        raise HoldfastError("; ".join(problems))
