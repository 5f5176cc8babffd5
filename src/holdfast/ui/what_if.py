"""What would happen if replicas were gone: who takes over, what stops, and which outputs that reaches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from holdfast.documents.job import Contract, Policy

LIVING = frozenset({"running", "finished"})
WAITING = frozenset({"idle"})
COMING = frozenset({"placed", "starting"})
BECOMES = ("waits", "tentative", "predicted")


@dataclass(frozen=True, slots=True)
class ReplicaAt:
    """One replica of a task: where it is and what it does."""

    key: str
    replica: int
    node: str
    state: str


@dataclass(frozen=True, slots=True)
class TaskAt:
    """A task at a moment: its replicas, and the tasks that read what it makes."""

    name: str
    kind: str
    replicas: tuple[ReplicaAt, ...]
    readers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Consequences:
    """What follows from a loss. `goes_on`, `late` and `down` are the struck tasks; `downstream` reads of those that are down.

    `late`: nothing runs now, and a replica that waits or starts will. `outputs` are the sinks that a loss reaches. `becomes` says
    what happens downstream: it waits, or what it makes is tentative or predicted.
    """

    struck: tuple[str, ...] = ()
    goes_on: tuple[str, ...] = ()
    late: tuple[str, ...] = ()
    down: tuple[str, ...] = ()
    downstream: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    untouched: tuple[str, ...] = ()
    said: tuple[str, ...] = ()
    becomes: str = "waits"

    def document(self) -> dict[str, Any]:
        return asdict(self)


def consequences(
    tasks: Sequence[TaskAt], gone: Callable[[ReplicaAt], bool], *, contract: Callable[[str], Contract], policy: Policy
) -> Consequences:
    """What follows when the replicas that `gone` picks are lost at this moment, in lists and in sentences."""
    struck: list[str] = []
    goes_on: list[str] = []
    late: list[str] = []
    down: list[str] = []
    said: list[str] = []
    for task in tasks:
        left = [replica for replica in task.replicas if not gone(replica)]
        if len(left) == len(task.replicas) or not any(r.state in LIVING | WAITING | COMING for r in task.replicas if gone(r)):
            continue
        struck.append(task.name)
        promise = contract(_pe(task.name))
        running = [replica for replica in left if replica.state in LIVING]
        waiting = [replica for replica in left if replica.state in WAITING]
        coming = [replica for replica in left if replica.state in COMING]
        if running:
            goes_on.append(task.name)
            said.append(_takes_over(task.name, running[0], promise))
        elif waiting or coming:
            late.append(task.name)
            other, how = (waiting[0], "is activated") if waiting else (coming[0], "is still starting")
            said.append(f"{task.name}: replica {other.replica} on {other.node} {how} and catches up from the newest checkpoint.")
        else:
            down.append(task.name)
            said.append(_stops(task.name, promise, policy))
    downstream = reached(tasks, down)
    kinds, readers = {task.name: task.kind for task in tasks}, _readers(tasks)
    outputs = tuple(name for name in (*down, *downstream) if kinds[name] == "sink" or not readers[name])
    untouched = tuple(task.name for task in tasks if task.kind == "sink" and task.name not in outputs)
    becomes = max((_becomes(contract(_pe(name))) for name in down), key=BECOMES.index, default=BECOMES[0])
    said += _downstream(tasks, down, contract)
    if down and outputs:
        said.append(f"Output reached: {_list(outputs)}.")
    if down and untouched:
        said.append(f"Output not reached: {_list(untouched)}.")
    if not struck:
        said.append("Nothing that runs would be lost.")
    return Consequences(
        struck=tuple(struck),
        goes_on=tuple(goes_on),
        late=tuple(late),
        down=tuple(down),
        downstream=tuple(downstream),
        outputs=outputs,
        untouched=untouched,
        said=tuple(said),
        becomes=becomes,
    )


def reached(tasks: Sequence[TaskAt], start: Sequence[str]) -> list[str]:
    """Every task that reads of these, at whatever distance, in the order of the tasks."""
    readers = _readers(tasks)
    seen, waiting = set(start), list(start)
    while waiting:
        for reader in readers.get(waiting.pop(), ()):
            if reader not in seen:
                seen.add(reader)
                waiting.append(reader)
    return [task.name for task in tasks if task.name in seen and task.name not in start]


def _readers(tasks: Sequence[TaskAt]) -> Mapping[str, tuple[str, ...]]:
    return {task.name: task.readers for task in tasks}


def _takes_over(name: str, other: ReplicaAt, promise: Contract) -> str:
    when = "at once" if promise.secondary == "eager" else f"within {promise.patience_s:g} s"
    return f"{name}: replica {other.replica} on {other.node} goes on {when}; nothing is lost and nothing waits."


def _stops(name: str, promise: Contract, policy: Policy) -> str:
    where = {
        "here": "when its node is back",
        "elsewhere": "on another node",
        "missing": "on another node",
        "never": "never by itself",
    }[policy.restart]
    again = f"It is started again {where}" if policy.restart != "never" else "It is not started again"
    replay = f" and replays at most {promise.checkpoint_epochs} epochs, as one job" if policy.restart != "never" else ""
    return f"{name}: no other replica lives, so it stops. {again}{replay}."


def _downstream(tasks: Sequence[TaskAt], down: Sequence[str], contract: Callable[[str], Contract]) -> list[str]:
    """What those who read of the tasks that are down do, per way in which their contracts deal with that."""
    alike: dict[str, list[str]] = {}
    for name in down:
        alike.setdefault(_goes_on(contract(_pe(name))), []).append(name)
    found = []
    for how, names in alike.items():
        readers = reached(tasks, names)
        if readers:
            many = len(readers) > 1
            words = {
                "who": _list(readers),
                "s": "" if many else "s",
                "es": "" if many else "es",
                "they": _they(readers),
                "it": _it(names),
            }
            found.append(how.format(**words))
    return found


def _becomes(promise: Contract) -> str:
    if promise.protection == "prediction":
        return "predicted"
    return "waits" if promise.tentative_after_s is None else "tentative"


def _goes_on(promise: Contract) -> str:
    """How readers of a dead PE go on, as a sentence to be filled in."""
    after = "is corrected afterwards" if promise.correction else "is not made again"
    match _becomes(promise):
        case "predicted":
            return (
                f"After {promise.deadline_s:g} s an agent predicts {{it}}, for at most {promise.predicting.most_epochs} epochs; "
                f"what {{who}} make{{s}} of that is predicted and {after}."
            )
        case "tentative":
            return (
                f"After {promise.tentative_after_s:g} s {{who}} go{{es}} on without {{it}}; "
                f"what {{they}} make{{s}} is tentative and {after}."
            )
    return "{who} wait{s} for {it}; what {they} made stays exact."


def _pe(task: str) -> str:
    return task.rpartition("/")[0]


def _it(names: Sequence[str]) -> str:
    return "them" if len(names) > 1 else "it"


def _they(names: Sequence[str]) -> str:
    return "they" if len(names) > 1 else "it"


def _list(names: Sequence[str], *, most: int = 6) -> str:
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown
