"""The outages of a job's tasks, stored in its log, so that a restarted orchestrator continues each where the previous one was."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from holdfast.log import Store
from holdfast.log.object_names import quoted


@dataclass(frozen=True)
class Outage:
    """A task's outage: when it was first observed, and when the inputs of its missing epochs became available, both by the
    orchestrator's clock."""

    since_s: float
    ready_s: Mapping[int, float] = field(default_factory=dict)


class Outages:
    """The outages of the tasks of one job. A change is written to the log before anything is decided from it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[str, Outage | None] = {}

    def of(self, task: str) -> Outage | None:
        """Return the outage of a task; None if it has none. The log is read once per task."""
        if task not in self._known:
            self._known[task] = self._read(_name(task))
        return self._known[task]

    def write(self, task: str, outage: Outage) -> None:
        """Store the outage of a task, unless it is stored like this."""
        if self.of(task) != outage:
            self._store.replace(_name(task), json.dumps(asdict(outage)).encode())
            self._known[task] = outage

    def end(self, task: str) -> None:
        """Remove the outage of a task."""
        self._store.remove([_name(task)])
        self._known[task] = None

    def _read(self, name: str) -> Outage | None:
        content = self._store.read(name)
        if content is None:
            return None
        try:
            stored = json.loads(content)
            return Outage(stored["since_s"], {int(epoch): at_s for epoch, at_s in stored["ready_s"].items()})
        except (ValueError, KeyError) as error:
            raise self._store.damage(name, error) from error


def _name(task: str) -> str:
    return f"outages/{quoted(task)}"
