"""Marks in a log of who is ready for a trace to begin: what reads it, and the agents that watch who does."""

from collections.abc import Iterable
from urllib.parse import quote

from holdfast.documents.job import Job, Task
from holdfast.log import Store
from holdfast.log.record import AGENT_PREFIX

FOLDER = "ready"


def mark_ready(store: Store, name: str) -> None:
    """Say that a task, or an agent, is ready."""
    store.create(_mark(name), b"")


def awaited_names(job: Job, tasks: Iterable[Task]) -> frozenset[str]:
    """All whose marks a job's trace waits for: what came before they are there would only be caught up with, or go unwatched."""
    listed = list(tasks)
    readers = {task.name for task in listed if task.kind != "source"}
    return frozenset(readers | {f"{AGENT_PREFIX}{task.name}" for task in listed if job.has_agent(task)})


def all_ready(store: Store, names: Iterable[str]) -> bool:
    return {_mark(name) for name in names} <= set(store.names(f"{FOLDER}/"))


def _mark(name: str) -> str:
    return f"{FOLDER}/{quote(name, safe='')}"
