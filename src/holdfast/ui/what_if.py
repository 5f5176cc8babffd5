"""Predict what would happen if replicas were lost: which replicas take over, which tasks stop, and which outputs that affects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from holdfast.documents.job import Contract, Policy

RUNNING_STATES = frozenset({"running", "finished"})
IDLE_STATES = frozenset({"idle"})
STARTING_STATES = frozenset({"placed", "starting"})
EFFECTS = ("waits", "tentative", "predicted")


@dataclass(frozen=True, slots=True)
class ReplicaView:
    """One replica of a task: its node and its state."""

    key: str
    replica: int
    node: str
    state: str


@dataclass(frozen=True, slots=True)
class TaskView:
    """A task at one moment: its replicas, and the tasks that read its output."""

    name: str
    kind: str
    replicas: tuple[ReplicaView, ...]
    readers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Consequences:
    """What a loss of replicas leads to.

    `affected` are the tasks that lose a replica. Each of them is in one of three lists: it `continues` with another replica, it
    is `late` because an idle or starting replica must catch up first, or it is `down`. `downstream` are the tasks that read,
    directly or indirectly, from those that are down. `becomes` says what happens to these: they wait, or their output is
    tentative or predicted. `outputs` are the affected sinks and `untouched` the others. `sentences` say all this in words.
    """

    affected: tuple[str, ...] = ()
    continues: tuple[str, ...] = ()
    late: tuple[str, ...] = ()
    down: tuple[str, ...] = ()
    downstream: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    untouched: tuple[str, ...] = ()
    sentences: tuple[str, ...] = ()
    becomes: str = "waits"

    def document(self) -> dict[str, Any]:
        return asdict(self)


def find_consequences(
    tasks: Sequence[TaskView], is_lost: Callable[[ReplicaView], bool], *, contract: Callable[[str], Contract], policy: Policy
) -> Consequences:
    """Return what happens if the replicas that `is_lost` selects are lost now. `contract` returns the contract of a PE."""
    continues: list[str] = []
    late: list[str] = []
    down: list[str] = []
    sentences: list[str] = []
    for task in tasks:
        if not any(r.state in RUNNING_STATES | IDLE_STATES | STARTING_STATES for r in task.replicas if is_lost(r)):
            continue
        remaining = [replica for replica in task.replicas if not is_lost(replica)]
        running, idle, starting = (
            next((replica for replica in remaining if replica.state in states), None)
            for states in (RUNNING_STATES, IDLE_STATES, STARTING_STATES)
        )
        substitute = running or idle or starting
        if substitute is None:
            down.append(task.name)
            sentences.append(_describe_stop(task.name, contract(_pe(task.name)), policy))
        elif running:
            continues.append(task.name)
            sentences.append(_describe_takeover(task.name, running, contract(_pe(task.name))))
        else:
            late.append(task.name)
            action = "is activated" if idle else "finishes starting"
            sentences.append(
                f"{task.name}: replica {substitute.replica} on {substitute.node} {action} "
                "and catches up from the newest checkpoint."
            )
    downstream = find_downstream(tasks, down)
    affected = {*continues, *late, *down}
    by_name = {task.name: task for task in tasks}
    outputs = tuple(name for name in (*down, *downstream) if by_name[name].kind == "sink" or not by_name[name].readers)
    untouched = tuple(task.name for task in tasks if task.kind == "sink" and task.name not in outputs)
    sentences += _describe_downstream(tasks, down, contract)
    if down and outputs:
        sentences.append(f"Affected outputs: {_join(outputs)}.")
    if down and untouched:
        sentences.append(f"Unaffected outputs: {_join(untouched)}.")
    if not affected:
        sentences.append("No running replica would be lost.")
    return Consequences(
        affected=tuple(task.name for task in tasks if task.name in affected),
        continues=tuple(continues),
        late=tuple(late),
        down=tuple(down),
        downstream=tuple(downstream),
        outputs=outputs,
        untouched=untouched,
        sentences=tuple(sentences),
        becomes=max((_effect(contract(_pe(name))) for name in down), key=EFFECTS.index, default=EFFECTS[0]),
    )


def find_downstream(tasks: Sequence[TaskView], start: Sequence[str]) -> list[str]:
    """Return every task that reads from one of these, directly or indirectly, in the order of `tasks`."""
    readers = {task.name: task.readers for task in tasks}
    visited, queue = set(start), list(start)
    while queue:
        for reader in readers.get(queue.pop(), ()):
            if reader not in visited:
                visited.add(reader)
                queue.append(reader)
    return [task.name for task in tasks if task.name in visited and task.name not in start]


def _describe_takeover(name: str, replica: ReplicaView, contract: Contract) -> str:
    when = "at once" if contract.secondary == "eager" else f"within {contract.patience_s:g} s"
    return f"{name}: replica {replica.replica} on {replica.node} continues {when}. No output is lost and no reader waits."


def _describe_stop(name: str, contract: Contract, policy: Policy) -> str:
    stop = f"{name}: no other replica is alive, so it stops."
    if policy.restart == "never":
        return f"{stop} The job's policy does not restart it."
    where = "when its node is back" if policy.restart == "here" else "on another node"
    return f"{stop} The orchestrator restarts it {where}, and it replays at most {contract.checkpoint_epochs} epochs."


def _describe_downstream(tasks: Sequence[TaskView], down: Sequence[str], contract: Callable[[str], Contract]) -> list[str]:
    """Return what the readers of the stopped tasks do: one sentence for all tasks whose contracts have the same effect."""
    groups: dict[str, list[str]] = {}
    for name in down:
        groups.setdefault(_sentence_template(contract(_pe(name))), []).append(name)
    sentences = []
    for template, names in groups.items():
        readers = find_downstream(tasks, names)
        if readers:
            many, several = len(names) > 1, len(readers) > 1
            sentences.append(
                template.format(
                    readers=_join(readers),
                    s="" if several else "s",
                    their="their" if several else "its",
                    it="them" if many else "it",
                    its="their" if many else "its",
                )
            )
    return sentences


def _effect(contract: Contract) -> str:
    if contract.protection == "prediction":
        return "predicted"
    return "waits" if contract.tentative_after_s is None else "tentative"


def _sentence_template(contract: Contract) -> str:
    """Return a sentence about what the readers of a stopped PE do, with fields for the names and pronouns."""
    correction = "is corrected afterwards" if contract.correction else "is not corrected"
    match _effect(contract):
        case "predicted":
            return (
                f"After {contract.deadline_s:g} s an agent predicts {{its}} output, for at most {contract.predicting.most_epochs} "
                f"epochs. The output of {{readers}} is then predicted and {correction}."
            )
        case "tentative":
            return (
                f"After {contract.tentative_after_s:g} s {{readers}} continue{{s}} without {{it}}; "
                f"{{their}} output is tentative and {correction}."
            )
    return "{readers} wait{s} for {it}; {their} earlier output stays exact."


def _pe(task: str) -> str:
    return task.rpartition("/")[0]


def _join(names: Sequence[str], *, limit: int = 6) -> str:
    listing = ", ".join(names[:limit])
    return f"{listing} and {len(names) - limit} more" if len(names) > limit else listing
