"""Series of a run over time, each computed from its history: output by quality, lag, CPU, placements and decisions."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from holdfast.documents.history import HistoryEvent
from holdfast.documents.job import Task
from holdfast.log import AGENT_PREFIX, Quality
from holdfast.log.timeline import Timeline

CORRECTED = "corrected"
KINDS = (*(quality.value for quality in Quality), CORRECTED)
"""The kinds of rows at a sink: the quality of a first record, or the correction of one."""

TOGETHER_S = 3.0
"""Decisions with the same text that are at most this far apart count as one."""

_ENDED = ("failed", "lost", "abandoned")


def output_rates(events: Iterable[HistoryEvent], sink: str, *, from_s: float, every_s: float, count: int) -> dict[str, list[float]]:
    """Return the rows per second that left a sink in each of `count` intervals, by kind."""
    rates = {kind: [0.0] * count for kind in KINDS}
    for event in _outputs(events, sink):
        interval = int((event.at_s - from_s) // every_s)
        if 0 <= interval < count:
            rates[_kind(event)][interval] += event.about["rows"] / every_s
    return rates


@dataclass(frozen=True, slots=True)
class SinkOutput:
    """An epoch, or a correction of one, that left a sink `latency_s` after the epoch closed."""

    epoch: int
    closed_s: float
    latency_s: float
    kind: str


def sink_outputs(events: Iterable[HistoryEvent], sink: str) -> list[SinkOutput]:
    """Return every epoch and every correction that left a sink, ordered by time."""
    return [
        SinkOutput(event.about["epoch"], event.at_s - event.about["latency_s"], event.about["latency_s"], _kind(event))
        for event in _outputs(events, sink)
    ]


def _outputs(events: Iterable[HistoryEvent], sink: str) -> Iterator[HistoryEvent]:
    return (event for event in events if event.kind == "output" and event.about["sink"] == sink)


def _kind(output: HistoryEvent) -> str:
    return str(output.about["quality"]) if output.about["as"] == "first" else CORRECTED


def lags(
    events: Iterable[HistoryEvent], tasks: Sequence[Task], timeline: Timeline, *, at_s: Sequence[float]
) -> dict[str, list[float | None]]:
    """Return, for each PE, how many seconds of closed epochs it had not yet processed at each of the ascending times `at_s`.

    The lag of a PE is that of its slowest task. A correction counts like an epoch in time, because the first record may have been
    absent. Predicted records do not count. The lag is None before the first epoch opens.
    """
    producers = {(stream, task.task): task.name for task in tasks for stream in task.makes}
    sinks = {task.pe: task.name for task in tasks if task.kind == "sink"}
    newest = dict.fromkeys((task.name for task in tasks), timeline.first - 1)
    completions = iter([*_completions(events, producers, sinks), (float("inf"), "", 0)])
    completed_s, name, epoch = next(completions)
    lag_of_pe: dict[str, list[float | None]] = {task.pe: [] for task in tasks}
    for now_s in at_s:
        while completed_s <= now_s:
            newest[name] = max(newest[name], epoch)
            completed_s, name, epoch = next(completions)
        if now_s < timeline.opened_s:
            for lag in lag_of_pe.values():
                lag.append(None)
            continue
        last_closed = timeline.last_closed_epoch(now_s)
        for pe, lag in lag_of_pe.items():
            epochs_behind = max(last_closed - newest[task.name] for task in tasks if task.pe == pe)
            lag.append(max(0, epochs_behind) * timeline.epoch_s / timeline.speed)
    return lag_of_pe


def _completions(
    events: Iterable[HistoryEvent], producers: Mapping[tuple[str, int], str], sinks: Mapping[str, str]
) -> Iterator[tuple[float, str, int]]:
    """Yield the time, the task and the epoch of each record that a task itself committed and each epoch that left a sink."""
    for event in events:
        about = event.about
        if event.kind == "commit" and about["quality"] != "absent" and not about["producer"].startswith(AGENT_PREFIX):
            name = producers.get((about["stream"], about["task"]))
        elif event.kind == "output":
            name = sinks.get(about["sink"])
        else:
            continue
        if name is not None:
            yield event.at_s, name, about["epoch"]


@dataclass(slots=True)
class Usage:
    """The memory of a node's PE host, and the cores it used between its last two reports."""

    share: float | None = None
    memory_bytes: int | None = None
    last: tuple[int, float, float] | None = None

    def update(self, at_s: float, about: Mapping[str, Any]) -> None:
        """Take in a report of the PE host. After a restart the share is None until the second report of the new process."""
        if self.last is not None and self.last[0] == about["pid"] and at_s > self.last[1]:
            self.share = max(0.0, about["cpu_s"] - self.last[2]) / (at_s - self.last[1])
        else:
            self.share = None
        self.last = about["pid"], at_s, about["cpu_s"]
        self.memory_bytes = about["memory_bytes"]


def cpu_of_nodes(events: Iterable[HistoryEvent]) -> dict[str, list[tuple[float, float | None]]]:
    """Return, for each node, the times of its reports and the cores its PE host used; None at the first report of a process."""
    usages: dict[str, Usage] = {}
    series: dict[str, list[tuple[float, float | None]]] = {}
    for event in events:
        if event.kind == "usage":
            usage = usages.setdefault(event.about["node"], Usage())
            usage.update(event.at_s, event.about)
            series.setdefault(event.about["node"], []).append((event.at_s, usage.share))
    return dict(sorted(series.items()))


@dataclass(frozen=True, slots=True)
class Placement:
    """A replica on a node, from its start until it failed or moved; `to_s` is None if it stayed until the run ended."""

    task: str
    replica: int
    node: str
    from_s: float
    to_s: float | None = None


def placements(events: Iterable[HistoryEvent]) -> list[Placement]:
    """Return where each replica was, ordered by task, replica and time."""
    current: dict[str, Placement] = {}
    past: list[Placement] = []
    for event in events:
        about = event.about
        if event.kind == "start":
            if (before := current.pop(about["replica"], None)) is not None:
                past.append(replace(before, to_s=before.to_s or event.at_s))
            task, number = _task_and_number(about["replica"])
            current[about["replica"]] = Placement(task, number, about["node"], event.at_s)
        elif event.kind == "orchestrator" and about["what"] == "replica" and about.get("replica") in current:
            placement, state = current[about["replica"]], about["text"].partition(":")[0]
            if state in _ENDED and placement.to_s is None and placement.node == about.get("node"):
                current[about["replica"]] = replace(placement, to_s=about["reported_s"])
    return sorted([*past, *current.values()], key=lambda placement: (placement.task, placement.replica, placement.from_s))


def _task_and_number(replica: str) -> tuple[str, int]:
    """Return the task and the number of a replica.

    >>> _task_and_number("1:vwap/0.1")
    ('vwap/0', 1)
    """
    task, _, number = replica.partition(":")[2].rpartition(".")
    return task, int(number)


@dataclass(frozen=True, slots=True)
class Decision:
    """What the orchestrator did about some replicas, tasks or nodes; `epochs` counts the absent epochs that it committed."""

    from_s: float
    to_s: float
    what: str
    about: tuple[str, ...] = ()
    epochs: int = 0


def decisions(events: Iterable[HistoryEvent]) -> list[Decision]:
    """Return activations, adaptations, recoveries and absent epochs, ordered by time.

    Decisions with the same text that follow one another within TOGETHER_S are one.
    """
    merged: list[Decision] = []
    newest: dict[str, int] = {}
    for decision in sorted(_decisions(events), key=lambda decision: decision.from_s):
        index = newest.get(decision.what)
        if index is not None and decision.from_s - merged[index].to_s <= TOGETHER_S:
            earlier = merged[index]
            about = tuple(dict.fromkeys((*earlier.about, *decision.about)))
            merged[index] = replace(earlier, to_s=decision.to_s, about=about, epochs=earlier.epochs + decision.epochs)
        else:
            newest[decision.what] = len(merged)
            merged.append(decision)
    return merged


def _decisions(events: Iterable[HistoryEvent]) -> Iterator[Decision]:
    for event in events:
        about = event.about
        if event.kind == "unprotected":
            yield Decision(event.at_s, event.at_s, f"not protected by prediction: {about['why']}", (about["task"],))
        if event.kind != "orchestrator":
            continue
        at_s, text = about["reported_s"], str(about["text"])
        replica = ("{} replica {}".format(*_task_and_number(about["replica"])),) if about.get("replica") else ()
        if about["what"] == "decision":
            if "epochs" in about:
                yield Decision(at_s, at_s, "committed absent epochs", (about["task"],), about["epochs"])
            elif "task" in about:
                yield Decision(at_s, at_s, text.removeprefix(f"{about['task']} "), (about["task"],))
            else:
                yield Decision(at_s, at_s, text, replica)
        elif about["what"] == "replica" and text.startswith(("moved from", "started again", "activated", "idled")):
            yield Decision(at_s, at_s, text, replica)
        elif about["what"] == "node" and (" is lost" in text or " is back" in text):
            yield Decision(at_s, at_s, text)
