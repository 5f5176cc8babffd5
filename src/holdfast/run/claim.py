"""Whose a log is: a job that finds one goes on with it, and none may go on with another's."""

import json
from collections.abc import Iterable
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.log import Store
from holdfast.model.job import Job, Task

NAME = "claim"


def claim(store: Store, job: Job, application: str, tasks: Iterable[Task]) -> None:
    """Note in a log what is made there, unless it is noted already. Raises HoldfastError where that is something else: records
    and checkpoints go by the names of tasks and epochs, which say nothing of what they were made from."""
    mine = _of(job, application, tasks)
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


def _of(job: Job, application: str, tasks: Iterable[Task]) -> dict[str, Any]:
    """What must be the same for a log to be gone on with. Replicas, contracts and nodes may all be others."""
    made = {task.name: sorted(task.makes) for task in tasks if task.kind != "sink"}
    return {"application": application, "trace": job.feed.trace, "columns": job.feed.columns, "streams": job.streams, "tasks": made}


def _told(what: str, said: Any) -> str:
    if what == "tasks":
        return f"the tasks {', '.join(sorted(said or ()))}"
    return f"no {what}" if said in (None, {}) else f"{what} {said!r}"
