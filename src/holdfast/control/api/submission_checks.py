"""What can be said against a call before anything is done about it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from holdfast.control.jobs.job_paths import DATA, DEFINES, AllowedPaths, place_errors, with_absolute_paths
from holdfast.control.nodes.replicas import PlacedReplica
from holdfast.documents.document import MAX_ERRORS, FieldError, join_names
from holdfast.documents.job import NAME, Feed, Job
from holdfast.errors import HoldfastError
from holdfast.protocol.messages import LARGEST, SLOTS, Registration

MAX_CORES = 1_000_000
MAX_LABELS = 100
MAX_TEXT = 1000


class Conflict(HoldfastError):
    """A call that the present state of things does not allow."""


class NotFound(HoldfastError):
    """A call about something that does not exist."""


def job_errors(data: object, *, types: Collection[str], bounds: AllowedPaths) -> Iterator[FieldError]:
    """Everything for which a job cannot run here: its type, the places that it names. It is given in plain values, which may be no
    job at all: so that nothing that is wrong with the document itself hides this."""
    if not isinstance(data, dict):
        return
    if isinstance(type := data.get("type"), str) and type not in types:
        yield FieldError(("type",), f"there is no type '{type[:60]}'; types are: {', '.join(sorted(types))}")
    feed = data.get("feed")
    named = Job.model_construct(
        job="", feed=Feed.model_construct(**_places(feed if isinstance(feed, dict) else {})), **_places(data)
    )
    yield from place_errors(with_absolute_paths(named), bounds)


def _places(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name in (*DEFINES, *DATA) and isinstance(value, str)}


def offer_errors(offer: Registration) -> Iterator[str]:
    """Everything wrong with what a node offers. What it says is shown to users and counted with."""
    if not NAME.fullmatch(offer.name):
        yield "wanted a name of letters, digits, '_', '.', '-' (at most 100)"
    if not 0 < offer.cores <= MAX_CORES:
        yield f"wanted cores above 0 and up to {MAX_CORES}, got {offer.cores}"
    if not 0 <= offer.memory_bytes <= LARGEST:
        yield f"wanted memory of 0 to {LARGEST} bytes, got {str(offer.memory_bytes)[:30]}"
    if max(len(offer.host_kind), len(offer.controller), len(offer.metrics or "")) > MAX_TEXT:
        yield f"wanted a controller, a kind of host and an address of metrics of at most {MAX_TEXT} characters each"
    if len(offer.labels) > MAX_LABELS or any(len(text) > MAX_TEXT for label in offer.labels.items() for text in label):
        yield f"wanted at most {MAX_LABELS} labels of at most {MAX_TEXT} characters"
    if not all(text.isprintable() for label in offer.labels.items() for text in label):
        yield "wanted labels of characters that can be printed"
    slots = offer.labels.get(SLOTS)
    if slots is not None and not (slots.isascii() and slots.isdecimal() and len(slots) <= 7):
        yield f"label '{SLOTS}': wanted a whole number below ten million, got '{slots[:60]}'"


def check_activation(job: int, active: Mapping[str, Sequence[int]], replicas: Sequence[PlacedReplica]) -> None:
    """Raise HoldfastError with every task and replica that is named and not there."""
    there: dict[str, set[int]] = {}
    for replica in replicas:
        there.setdefault(replica.task_name, set()).add(replica.replica)
    errors, known = [], join_names(there)
    for task, wanted in active.items():
        if task not in there:
            errors.append(f"task '{task[:100]}' is not one of job {job}'s; they are: {known}")
        elif not wanted:
            errors.append(f"task '{task}' would have no active replica; name at least one")
        elif not set(wanted) <= there[task]:
            errors.append(f"task '{task}' has the replicas {sorted(there[task])}, got {sorted(set(wanted))[:20]}")
        if len(errors) == MAX_ERRORS:
            break
    if errors:
        raise HoldfastError("; ".join(errors))
