"""How a run went over time, each a pure function of its history: output by quality, lag, CPU, places and decisions."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from holdfast.documents.history import HistoryEvent
from holdfast.documents.job import Task
from holdfast.log import AGENT_PREFIX, Quality
from holdfast.log.timeline import Timeline

CORRECTED = "corrected"
KINDS = (*(quality.value for quality in Quality), CORRECTED)
"""What rows at a sink can be: of a quality, when they were there in time, or the correction of such rows."""

TOGETHER_S = 3.0
"""Decisions of the same words no further apart than this are one."""

_STOOD_IN = re.compile(r"stood in for (?P<task>.+): (?P<epochs>\d+) epochs absent")
_BACK = re.compile(r"(?P<task>.+) is back; (?P<so>nothing stands in for it any more)")
_DIED = ("failed", "lost", "abandoned")


def output_rates(events: Iterable[HistoryEvent], sink: str, *, from_s: float, every_s: float, count: int) -> dict[str, list[float]]:
    """Rows per second that left a sink in each of `count` intervals, by their kind."""
    rows = {kind: [0.0] * count for kind in KINDS}
    for event in events:
        if event.kind == "output" and event.about["sink"] == sink:
            at = int((event.at_s - from_s) // every_s)
            if 0 <= at < count:
                kind = event.about["quality"] if event.about["as"] == "first" else CORRECTED
                rows[kind][at] += event.about["rows"] / every_s
    return rows


@dataclass(frozen=True, slots=True)
class Leaving:
    """One epoch leaving a sink: when it was over, how long after that it left, and what it was."""

    epoch: int
    closed_s: float
    latency_s: float
    kind: str


def leavings(events: Iterable[HistoryEvent], sink: str) -> list[Leaving]:
    """Every epoch that left a sink, and every correction, in the order of time."""
    return [
        Leaving(
            event.about["epoch"],
            event.at_s - event.about["latency_s"],
            event.about["latency_s"],
            event.about["quality"] if event.about["as"] == "first" else CORRECTED,
        )
        for event in events
        if event.kind == "output" and event.about["sink"] == sink
    ]


def lags(
    events: Iterable[HistoryEvent], tasks: Sequence[Task], timeline: Timeline, *, at_s: Sequence[float]
) -> dict[str, list[float | None]]:
    """How many seconds of epochs that were over each PE had not yet dealt with, at ascending moments.

    A PE of several tasks is as late as its latest one; a correction counts as much as an epoch in time, for others may have stood
    in for it, and what an agent predicted in its place does not count. None before the first epoch is open.
    """
    makers = {(stream, task.task): task.name for task in tasks for stream in task.makes}
    sinks = {task.pe: task.name for task in tasks if task.kind == "sink"}
    done = dict.fromkeys((task.name for task in tasks), timeline.first - 1)
    steps = iter([*_made(events, makers, sinks), (float("inf"), "", 0)])
    when, name, epoch = next(steps)
    found: dict[str, list[float | None]] = {task.pe: [] for task in tasks}
    for moment in at_s:
        while when <= moment:
            done[name] = max(done[name], epoch)
            when, name, epoch = next(steps)
        if moment < timeline.opened_s:
            for late in found.values():
                late.append(None)
            continue
        closed = timeline.closed(moment)
        for pe, late in found.items():
            behind = max(closed - done[task.name] for task in tasks if task.pe == pe)
            late.append(max(0, behind) * timeline.epoch_s / timeline.speed)
    return found


def _made(
    events: Iterable[HistoryEvent], makers: Mapping[tuple[str, int], str], sinks: Mapping[str, str]
) -> Iterator[tuple[float, str, int]]:
    """Each epoch that a task made itself, or a sink let go: the moment, the task's name, the epoch."""
    for event in events:
        about = event.about
        if event.kind == "commit" and about["quality"] != "absent" and not about["producer"].startswith(AGENT_PREFIX):
            name = makers.get((about["stream"], about["task"]))
        elif event.kind == "output":
            name = sinks.get(about["sink"])
        else:
            continue
        if name is not None:
            yield event.at_s, name, about["epoch"]


@dataclass(slots=True)
class Usage:
    """What a node's PE host uses: cores, between the last two times that it said so, and memory."""

    share: float | None = None
    memory_bytes: int | None = None
    last: tuple[int, float, float] | None = None

    def take(self, at_s: float, about: Mapping[str, Any]) -> None:
        """Hear what the host says of itself; of a host that was started anew nothing is known until it speaks again."""
        if self.last is not None and self.last[0] == about["pid"] and at_s > self.last[1]:
            self.share = max(0.0, about["cpu_s"] - self.last[2]) / (at_s - self.last[1])
        else:
            self.share = None
        self.last = about["pid"], at_s, about["cpu_s"]
        self.memory_bytes = about["memory_bytes"]


def cpu_of_nodes(events: Iterable[HistoryEvent]) -> dict[str, list[tuple[float, float | None]]]:
    """Per node the cores that its PE host used, with the moments at which that was told; None where a host was new."""
    usages: dict[str, Usage] = {}
    found: dict[str, list[tuple[float, float | None]]] = {}
    for event in events:
        if event.kind == "usage":
            usage = usages.setdefault(event.about["node"], Usage())
            usage.take(event.at_s, event.about)
            found.setdefault(event.about["node"], []).append((event.at_s, usage.share))
    return dict(sorted(found.items()))


@dataclass(frozen=True, slots=True)
class Stay:
    """A replica of a task on a node, from its start until it died or went elsewhere; None: it was there to the end."""

    task: str
    replica: int
    node: str
    from_s: float
    to_s: float | None = None


def stays(events: Iterable[HistoryEvent]) -> list[Stay]:
    """Where each replica was, by task, replica and time."""
    here: dict[str, Stay] = {}
    over: list[Stay] = []
    for event in events:
        about = event.about
        if event.kind == "start":
            if (before := here.pop(about["replica"], None)) is not None:
                over.append(replace(before, to_s=before.to_s or event.at_s))
            task, number = _named(about["replica"])
            here[about["replica"]] = Stay(task, number, about["node"], event.at_s)
        elif event.kind == "orchestrator" and about["what"] == "replica" and about.get("replica") in here:
            stay, state = here[about["replica"]], about["said"].partition(":")[0]
            if state in _DIED and stay.to_s is None and stay.node == about.get("node"):
                here[about["replica"]] = replace(stay, to_s=about["told_s"])
    return sorted([*over, *here.values()], key=lambda stay: (stay.task, stay.replica, stay.from_s))


def _named(key: str) -> tuple[str, int]:
    """Task and number of a replica.

    >>> _named("1:vwap/0.1")
    ('vwap/0', 1)
    """
    task, _, number = key.partition(":")[2].rpartition(".")
    return task, int(number)


@dataclass(frozen=True, slots=True)
class Decided:
    """What the orchestrator did about `who`: replicas, tasks or nodes; `epochs` where it stood in for them."""

    from_s: float
    to_s: float
    what: str
    who: tuple[str, ...] = ()
    epochs: int = 0


def decisions(events: Iterable[HistoryEvent]) -> list[Decided]:
    """Activation, adaptation, recovery and standing in, in the order of time; the same about several at a time is one."""
    found: list[Decided] = []
    newest: dict[str, int] = {}
    for decided in sorted(_decided(events), key=lambda one: one.from_s):
        at = newest.get(decided.what)
        if at is not None and decided.from_s - found[at].to_s <= TOGETHER_S:
            earlier = found[at]
            who = tuple(dict.fromkeys((*earlier.who, *decided.who)))
            found[at] = replace(earlier, to_s=decided.to_s, who=who, epochs=earlier.epochs + decided.epochs)
        else:
            newest[decided.what] = len(found)
            found.append(decided)
    return found


def _decided(events: Iterable[HistoryEvent]) -> Iterator[Decided]:
    for event in events:
        about = event.about
        if event.kind == "unprotected":
            yield Decided(event.at_s, event.at_s, f"not protected by prediction: {about['why']}", (about["task"],))
        if event.kind != "orchestrator":
            continue
        at_s, said = about["told_s"], str(about["said"])
        who = ("{} replica {}".format(*_named(about["replica"])),) if about.get("replica") else ()
        if about["what"] == "decision":
            if stood_in := _STOOD_IN.fullmatch(said):
                yield Decided(at_s, at_s, "stood in", (stood_in["task"],), int(stood_in["epochs"]))
            elif back := _BACK.fullmatch(said):
                yield Decided(at_s, at_s, back["so"], (back["task"],))
            else:
                yield Decided(at_s, at_s, said, who)
        elif about["what"] == "replica" and said.startswith(("moved from", "started again", "activated", "idled")):
            yield Decided(at_s, at_s, said, who)
        elif about["what"] == "node" and (" is lost" in said or " is back" in said):
            yield Decided(at_s, at_s, said)
