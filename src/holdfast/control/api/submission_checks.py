"""The checks of submitted jobs, node registrations and activations, before anything is changed."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from holdfast.control.jobs.job_paths import DATA_PATHS, DEFINITION_FILES, AllowedPaths, path_errors, with_absolute_paths
from holdfast.control.nodes.replicas import PlacedReplica
from holdfast.documents.document import MAX_ERRORS, FieldError, join_names
from holdfast.documents.job import NAME, Feed, Job
from holdfast.errors import HoldfastError
from holdfast.protocol.messages import LARGEST, SLOTS, Registration

MAX_CORES = 1_000_000
MAX_LABELS = 100
MAX_TEXT = 1000


class Conflict(HoldfastError):
    """A call that the present state does not allow."""

    http_status = 409


class NotFound(HoldfastError):
    """A call about something that does not exist."""

    http_status = 404


def job_errors(data: object, *, types: Collection[str], bounds: AllowedPaths) -> Iterator[FieldError]:
    """Yield the reasons why this orchestrator cannot run a job: its type, or a path outside the allowed folders.

    `data` has the plain values of the document, which may not be a valid job. So errors of the document do not hide these errors.
    """
    if not isinstance(data, dict):
        return
    if isinstance(type := data.get("type"), str) and type not in types:
        yield FieldError(("type",), f"there is no type '{type[:60]}'; types are: {', '.join(sorted(types))}")
    feed = data.get("feed")
    paths_only = Job.model_construct(
        job="", feed=Feed.model_construct(**_path_fields(feed if isinstance(feed, dict) else {})), **_path_fields(data)
    )
    yield from path_errors(with_absolute_paths(paths_only), bounds)


def _path_fields(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name in (*DEFINITION_FILES, *DATA_PATHS) and isinstance(value, str)}


def offer_errors(offer: Registration) -> Iterator[str]:
    """Yield the errors of a node's offer. Its values are shown to users and used in calculations."""
    if not NAME.fullmatch(offer.name):
        yield "wanted a name of letters, digits, '_', '.', '-' (at most 100)"
    if not 0 < offer.cores <= MAX_CORES:
        yield f"wanted cores above 0 and up to {MAX_CORES}, got {offer.cores}"
    if not 0 <= offer.memory_bytes <= LARGEST:
        yield f"wanted memory of 0 to {LARGEST} bytes, got {str(offer.memory_bytes)[:30]}"
    if max(len(offer.host_kind), len(offer.controller), len(offer.metrics or "")) > MAX_TEXT:
        yield f"wanted a controller, a host kind and a metrics address of at most {MAX_TEXT} characters each"
    if len(offer.labels) > MAX_LABELS or any(len(text) > MAX_TEXT for label in offer.labels.items() for text in label):
        yield f"wanted at most {MAX_LABELS} labels of at most {MAX_TEXT} characters"
    if not all(text.isprintable() for label in offer.labels.items() for text in label):
        yield "wanted labels of printable characters"
    slots = offer.labels.get(SLOTS)
    if slots is not None and not (slots.isascii() and slots.isdecimal() and len(slots) <= 7):
        yield f"label '{SLOTS}': wanted a whole number below ten million, got '{slots[:60]}'"


def check_activation(job: int, active: Mapping[str, Sequence[int]], replicas: Sequence[PlacedReplica]) -> None:
    """Raise HoldfastError with every named task and replica that does not exist."""
    existing: dict[str, set[int]] = {}
    for replica in replicas:
        existing.setdefault(replica.task_name, set()).add(replica.replica)
    errors, tasks = [], join_names(existing)
    for task, numbers in active.items():
        if task not in existing:
            errors.append(f"task '{task[:100]}' does not exist in job {job}; its tasks are: {tasks}")
        elif not numbers:
            errors.append(f"task '{task}' would have no active replica; name at least one")
        elif not set(numbers) <= existing[task]:
            errors.append(f"task '{task}' has the replicas {sorted(existing[task])}, got {sorted(set(numbers))[:20]}")
        if len(errors) == MAX_ERRORS:
            break
    if errors:
        raise HoldfastError("; ".join(errors))
