"""What can be said against a call before anything is done about it."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from holdfast.errors import HoldfastError
from holdfast.manage.protocol import SLOTS, Registration
from holdfast.manage.replicas import Replica
from holdfast.model.job import NAME, Job

MAX_CORES = 1_000_000
MAX_LABELS = 100
MAX_TEXT = 1000


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
    if "\0" in document.application:
        raise HoldfastError(f"{whose}: application {document.application[:100]!r} is no path: it has a zero byte")
    path = Path(document.application)
    if applications is not None and not path.resolve().is_relative_to(applications.resolve()):
        raise HoldfastError(f"{whose}: application '{path}' is not under '{applications}', where this orchestrator takes them from")
    if not (os.path.isfile(path) and os.access(path, os.R_OK)):  # noqa: PTH113 - Path.is_file raises for a name that is too long
        raise HoldfastError(f"{whose}: application '{path}' is no file that the orchestrator can read")


def offer_problems(offer: Registration) -> Iterator[str]:
    """Everything wrong with what a node offers. What it says is shown to users and counted with."""
    if not NAME.fullmatch(offer.name):
        yield "wanted a name of letters, digits, '_', '.', '-' (at most 100)"
    if not 0 < offer.cores <= MAX_CORES:
        yield f"wanted cores above 0 and up to {MAX_CORES}, got {offer.cores}"
    if offer.memory_bytes < 0:
        yield f"wanted memory of at least 0 bytes, got {offer.memory_bytes}"
    if max(len(offer.host), len(offer.controller), len(offer.metrics or "")) > MAX_TEXT:
        yield f"wanted a controller, a kind of host and an address of metrics of at most {MAX_TEXT} characters each"
    if len(offer.labels) > MAX_LABELS or any(len(text) > MAX_TEXT for label in offer.labels.items() for text in label):
        yield f"wanted at most {MAX_LABELS} labels of at most {MAX_TEXT} characters"
    slots = offer.labels.get(SLOTS)
    if slots is not None and not (slots.isascii() and slots.isdecimal() and len(slots) <= 7):
        yield f"label '{SLOTS}': wanted a whole number below ten million, got '{slots[:60]}'"


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
