"""What can be said against a call before anything is done about it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from holdfast.errors import HoldfastError, ProblemsError
from holdfast.manage.places import Bounds, place_problems
from holdfast.manage.protocol import LARGEST, SLOTS, Registration
from holdfast.manage.replicas import Replica
from holdfast.model.document import MOST_PROBLEMS, listed
from holdfast.model.job import NAME, Job

MAX_CORES = 1_000_000
MAX_LABELS = 100
MAX_TEXT = 1000


class Conflict(HoldfastError):
    """A call that the present state of things does not allow."""


class NotThere(HoldfastError):
    """A call about something that does not exist."""


def check_job(document: Job, *, types: Collection[str], bounds: Bounds) -> None:
    """Raise ProblemsError with everything for which a job cannot run here: its type, its PEs, the places that it names."""
    problems = []
    if document.type not in types:
        problems.append(f"there is no type '{document.type}'; types are: {', '.join(sorted(types))}")
    if document.pes is not None and document.host != "light":
        problems.append(f"PEs that are written out run on a host of kind 'light', got '{document.host}'")
    problems += place_problems(document, bounds)
    if problems:
        raise ProblemsError(f"job '{document.job}'", problems)


def offer_problems(offer: Registration) -> Iterator[str]:
    """Everything wrong with what a node offers. What it says is shown to users and counted with."""
    if not NAME.fullmatch(offer.name):
        yield "wanted a name of letters, digits, '_', '.', '-' (at most 100)"
    if not 0 < offer.cores <= MAX_CORES:
        yield f"wanted cores above 0 and up to {MAX_CORES}, got {offer.cores}"
    if not 0 <= offer.memory_bytes <= LARGEST:
        yield f"wanted memory of 0 to {LARGEST} bytes, got {str(offer.memory_bytes)[:30]}"
    if max(len(offer.host), len(offer.controller), len(offer.metrics or "")) > MAX_TEXT:
        yield f"wanted a controller, a kind of host and an address of metrics of at most {MAX_TEXT} characters each"
    if len(offer.labels) > MAX_LABELS or any(len(text) > MAX_TEXT for label in offer.labels.items() for text in label):
        yield f"wanted at most {MAX_LABELS} labels of at most {MAX_TEXT} characters"
    if not all(text.isprintable() for label in offer.labels.items() for text in label):
        yield "wanted labels of characters that can be printed"
    slots = offer.labels.get(SLOTS)
    if slots is not None and not (slots.isascii() and slots.isdecimal() and len(slots) <= 7):
        yield f"label '{SLOTS}': wanted a whole number below ten million, got '{slots[:60]}'"


def check_activation(job: int, active: Mapping[str, Sequence[int]], replicas: Sequence[Replica]) -> None:
    """Raise HoldfastError with every task and replica that is named and not there."""
    there: dict[str, set[int]] = {}
    for replica in replicas:
        there.setdefault(replica.task_name, set()).add(replica.replica)
    problems, known = [], listed(there)
    for task, wanted in active.items():
        if task not in there:
            problems.append(f"task '{task[:100]}' is not one of job {job}'s; they are: {known}")
        elif not wanted:
            problems.append(f"task '{task}' would have no active replica; name at least one")
        elif not set(wanted) <= there[task]:
            problems.append(f"task '{task}' has the replicas {sorted(there[task])}, got {sorted(set(wanted))[:20]}")
        if len(problems) == MOST_PROBLEMS:
            break
    if problems:
        raise HoldfastError("; ".join(problems))
