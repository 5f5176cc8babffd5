"""Checks that a job may continue an existing log: a log belongs to one application with the same tasks and the same input."""

import json
from collections.abc import Iterable
from typing import Any

from holdfast.documents.job import Job, Task
from holdfast.errors import HoldfastError
from holdfast.log import Store
from holdfast.log.trimming import TRIMMED_FOR

NAME = "claim"
UNCORRECTED = "uncorrected"
"""The object that names the PEs that have ever run without correction."""


def claim_log(store: Store, job: Job, application: str, tasks: Iterable[Task]) -> None:
    """Note in a log which application and input it belongs to, unless it is noted already.

    Raises HoldfastError if the log belongs to another one. Tasks and epochs name the records and checkpoints; these names do not
    show which input they were computed from.
    """
    task_list = list(tasks)
    claim = _claim_of(job, application, task_list)
    content = store.read(NAME)
    if content is None:
        store.create(NAME, json.dumps(claim).encode())  # another node may have created it just now
        content = store.read(NAME)
    owner: dict[str, Any] = json.loads(content) if content is not None else claim
    for field, value in claim.items():
        if owner.get(field) != value:
            raise HoldfastError(
                f"the log at '{store.root}' belongs to {_describe(field, owner.get(field))}, "
                f"but job '{job.job}' has {_describe(field, value)}; give each a log of its own"
            )
    _require_correctable(store, job, task_list)


def require_inputs_of_all_tasks(store: Store, job: Job) -> None:
    """Raise HoldfastError if the log was trimmed for some tasks alone, which ran for other jobs after their own job had ended."""
    content = store.read(TRIMMED_FOR)
    if content is not None:
        raise HoldfastError(
            f"the log at '{store.root}' was continued by {', '.join(json.loads(content))} alone, for jobs that shared them: the "
            f"other tasks of job '{job.job}' would lack their input; give it a log of its own"
        )


def _require_correctable(store: Store, job: Job, tasks: Iterable[Task]) -> None:
    """Raise HoldfastError if a PE with correction has run without correction before.

    Its checkpoints may be based on incomplete input, and incomplete epochs would never get a final record.
    """
    uncorrected = {task.pe for task in tasks if task.kind != "source" and not job.contract_of(task.pe).correction}
    before = set(json.loads(store.read(UNCORRECTED) or b"[]"))
    if now_corrected := ", ".join(sorted(before - uncorrected)):
        raise HoldfastError(
            f"the log at '{store.root}' was written without correction by {now_corrected}: incomplete epochs stay incomplete, "
            f"but job '{job.job}' has correction; run it without correction, or give it a log of its own"
        )
    if uncorrected - before:
        store.replace(UNCORRECTED, json.dumps(sorted(uncorrected)).encode())


def _claim_of(job: Job, application: str, tasks: Iterable[Task]) -> dict[str, Any]:
    """Return what must be the same for a job to continue a log. Replicas, nodes and most of the contract may differ."""
    streams = {task.name: sorted(task.makes) for task in tasks if task.kind != "sink"}
    feed = {"trace": job.feed.trace, "columns": job.feed.columns, "checkpoints": job.feed.checkpoints}
    return {"application": application, **feed, "streams": job.streams, "tasks": streams}


def _describe(field: str, value: Any) -> str:
    if field == "tasks":
        return f"the tasks {', '.join(sorted(value or ()))}"
    return f"no {field}" if value in (None, {}) else f"{field} {value!r}"
