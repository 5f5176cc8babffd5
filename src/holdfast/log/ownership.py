"""Whose a log is: a job that finds one goes on with it, and none may go on with another's."""

import json
from collections.abc import Iterable
from typing import Any

from holdfast.documents.job import Job, Task
from holdfast.errors import HoldfastError
from holdfast.log import Store
from holdfast.log.trimming import TRIMMED_FOR

NAME = "claim"
UNCORRECTED = "uncorrected"
"""The name in a log of the PEs that have ever gone on without correction."""


def claim_log(store: Store, job: Job, application: str, tasks: Iterable[Task]) -> None:
    """Note in a log what is made there, unless it is noted already. Raises HoldfastError where that is something else: records
    and checkpoints go by the names of tasks and epochs, which say nothing of what they were made from."""
    listed = list(tasks)
    mine = _of(job, application, listed)
    content = store.read(NAME)
    if content is None:
        store.create(NAME, json.dumps(mine).encode())  # another node may have, just now
        content = store.read(NAME)
    held: dict[str, Any] = json.loads(content) if content is not None else mine
    for what, said in mine.items():
        if held.get(what) != said:
            raise HoldfastError(
                f"the log at '{store.root}' is that of {_told(what, held.get(what))}, and job '{job.job}' has {_told(what, said)}; "
                "give each a log of its own"
            )
    _require_correctable(store, job, listed)


def require_inputs_of_all_tasks(store: Store, job: Job) -> None:
    """Raise HoldfastError where a part of the application went on alone, for jobs that shared it, when its own had ended: what the
    rest of it would need next has been forgotten."""
    content = store.read(TRIMMED_FOR)
    if content is not None:
        raise HoldfastError(
            f"the log at '{store.root}' was gone on with by {', '.join(json.loads(content))} alone, for jobs that shared them: the "
            f"rest of what job '{job.job}' makes would lack its input; give it a log of its own"
        )


def _require_correctable(store: Store, job: Job, tasks: Iterable[Task]) -> None:
    """Raise HoldfastError where a PE is to make exact results that has gone on without correction before: its checkpoints may be
    of incomplete input, and epochs that were left incomplete are waited for in vain."""
    without = {task.pe for task in tasks if task.kind != "source" and not job.contract_of(task.pe).correction}
    held = set(json.loads(store.read(UNCORRECTED) or b"[]"))
    if lossy := ", ".join(sorted(held - without)):
        raise HoldfastError(
            f"the log at '{store.root}' was written without correction by {lossy}: what is incomplete in it stays so, and job "
            f"'{job.job}' has correction; go on without it, or give the job a log of its own"
        )
    if without - held:
        store.replace(UNCORRECTED, json.dumps(sorted(without)).encode())


def _of(job: Job, application: str, tasks: Iterable[Task]) -> dict[str, Any]:
    """What must be the same for a log to be gone on with. Replicas, nodes and most of the contracts may be others."""
    made = {task.name: sorted(task.makes) for task in tasks if task.kind != "sink"}
    fed = {"trace": job.feed.trace, "columns": job.feed.columns, "checkpoints": job.feed.checkpoints}
    return {"application": application, **fed, "streams": job.streams, "tasks": made}


def _told(what: str, said: Any) -> str:
    if what == "tasks":
        return f"the tasks {', '.join(sorted(said or ()))}"
    return f"no {what}" if said in (None, {}) else f"{what} {said!r}"
