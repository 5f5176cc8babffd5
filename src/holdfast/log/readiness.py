"""Notes in the log who is ready for a trace to start: PEs and sinks, and the prediction agents that watch them."""

from collections.abc import Iterable

from holdfast.documents.job import Job, Task
from holdfast.log import Store
from holdfast.log.object_names import quoted
from holdfast.log.record import AGENT_PREFIX

FOLDER = "ready"


def mark_ready(store: Store, name: str) -> None:
    """Note that a task or an agent is ready."""
    store.create(_mark(name), b"")


def awaited_names(job: Job, tasks: Iterable[Task]) -> frozenset[str]:
    """Return the names of all tasks and agents that must be ready before a job's trace starts.

    Without waiting, the first epochs would be late or would pass without an agent.
    """
    readers = [task for task in tasks if task.kind != "source"]
    agents = {f"{AGENT_PREFIX}{task.name}" for task in readers if job.has_agent(task)}
    return frozenset(agents | {task.name for task in readers})


def all_ready(store: Store, names: Iterable[str]) -> bool:
    """Return whether all of the named tasks and agents are ready."""
    return {_mark(name) for name in names} <= set(store.names(f"{FOLDER}/"))


def _mark(name: str) -> str:
    return f"{FOLDER}/{quoted(name)}"
