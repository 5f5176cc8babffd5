"""The live view of a running job in the terminal: a table of its tasks and a table of the nodes."""

import time
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from holdfast.log.timeline import Timeline
from holdfast.plural import counted

COLOURS = {"exact": "green", "tentative": "yellow", "predicted": "magenta", "absent": "red"}
STATES = {
    "running": "green",
    "finished": "green",
    "idle": "dim",
    "failed": "red",
    "lost": "red",
    "starting": "yellow",
    "placed": "yellow",
}

MAX_ERROR_CHARS = 300
"""How much of a replica's error is shown. The verdict and the node's log contain all of it."""


class RunView:
    """Shows a live view on a terminal, and otherwise prints a line every EVERY_S seconds. `name` is the application's."""

    EVERY_S = 5.0

    def __init__(self, console: Console, name: str) -> None:
        self._console, self._name = console, name
        self._live = Live(console=console, refresh_per_second=4, transient=True) if console.is_terminal else None
        self._printed_s = 0.0
        self._cpu: dict[str, tuple[float, float]] = {}

    def __enter__(self) -> "RunView":
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, document: dict[str, Any], nodes: list[dict[str, Any]], timeline: Timeline | None) -> None:
        document = {**document, "name": self._name}
        if self._live is not None:
            errors = [Text(error, style="yellow") for error in replica_errors(document)]
            self._live.update(Group(tasks_table(document, timeline), self._nodes_table(nodes), *errors))
        elif time.monotonic() - self._printed_s >= self.EVERY_S:
            self._printed_s = time.monotonic()
            self._console.print(one_line(document, nodes, timeline), highlight=False, soft_wrap=True)

    def _nodes_table(self, nodes: list[dict[str, Any]]) -> Table:
        table = Table("node", "state", "replicas", "CPU", "memory", box=None, pad_edge=False)
        for node in nodes:
            host = node["host_status"] or {}
            table.add_row(
                node["name"],
                Text(node["state"], style="red" if node["state"] == "lost" else ""),
                str(node["replicas"]),
                self._cpu_share(node["name"], host),
                f"{host.get('memory_bytes', 0) >> 20} MiB",
            )
        return table

    def _cpu_share(self, node: str, host: dict[str, Any]) -> str:
        now = float(host.get("beat_s", 0.0)), float(host.get("cpu_s", 0.0))
        before = self._cpu.get(node, now)
        if now[0] - before[0] >= 1 or node not in self._cpu:
            self._cpu[node] = now
        return f"{100 * (now[1] - before[1]) / (now[0] - before[0]):.0f} %" if now[0] > before[0] else "-"


def tasks_table(document: dict[str, Any], timeline: Timeline | None) -> Table:
    """Return a table with the epoch, lag, rate, latency, quality and replicas of each task."""
    table = Table("PE", "epoch", "lag", "rows/s", "latency", "quality", "replicas", box=None, pad_edge=False)
    table.title = f"{document['name']}: {document['state']}" + (f", epoch {_closed(timeline)}" if timeline else "")
    table.title_justify = "left"
    for task in document["tasks"]:
        best = _furthest_replica(task)
        status = (best or {}).get("status") or {}
        table.add_row(
            task["task"],
            _epoch(status.get("live"), timeline),
            _number(status.get("lag_s"), "s"),
            _number(status.get("rows_s"), ""),
            _number(status.get("latency_s"), "s"),
            Text(status.get("quality") or "-", style=COLOURS.get(status.get("quality") or "", "")),
            Text(" ").join(Text(f"{r['node']}:{r['state']}", style=STATES.get(r["state"], "")) for r in task["replicas"]),
        )
    return table


def one_line(document: dict[str, Any], nodes: list[dict[str, Any]], timeline: Timeline | None) -> str:
    """Return the state of the job, its sinks and the lost nodes in one line, for a log."""
    sinks = [task for task in document["tasks"] if task["kind"] == "sink"]
    progress = f"epoch {_closed(timeline)}" if timeline else _started(document)
    parts = [", ".join(filter(None, (f"{document['name']}: {document['state']}", progress)))]
    parts += [f"{sink['task']}: {_output_text((_furthest_replica(sink) or {}).get('status') or {}, timeline)}" for sink in sinks]
    lost = [node["name"] for node in nodes if node["state"] == "lost"]
    if lost:
        parts.append(f"lost nodes: {', '.join(lost)}")
    return "; ".join([*parts, *replica_errors(document)])


def _started(document: dict[str, Any]) -> str:
    """Return how many replicas have started; empty before they are placed."""
    states = [replica["state"] for task in document["tasks"] for replica in task["replicas"]]
    started = sum(state not in ("placed", "starting") for state in states)
    return f"{started} of {counted(len(states), 'replica')} started" if states else ""


def _output_text(status: dict[str, Any], timeline: Timeline | None) -> str:
    live = status.get("live")
    if timeline is None or live is None or live < timeline.first:
        return "no output yet"
    text = f"{status.get('quality') or ''} output of epoch {_epoch(live, timeline)}".strip()
    latency_s = status.get("latency_s")
    return text if latency_s is None else f"{text}, {latency_s:.1f} s after its close"


def replica_errors(document: dict[str, Any]) -> list[str]:
    """Return each distinct error once, after the tasks that have it.

    An error is what a running replica waits for, such as a full log, or why a replica failed.
    """
    tasks_of_error: dict[str, list[str]] = {}
    for task in document["tasks"]:
        for replica in task["replicas"]:
            error = (replica["status"] or {}).get("error") or (replica["error"] if replica["state"] in ("failed", "lost") else None)
            if error:
                tasks = tasks_of_error.setdefault(shortened(error.splitlines()[0]), [])
                tasks += [task["task"]] if task["task"] not in tasks else []
    return [f"{', '.join(tasks)}: {error}" for error, tasks in tasks_of_error.items()]


def shortened(text: str) -> str:
    """Return a text shortened to a few lines of a terminal.

    >>> shortened("x" * 1000)[-5:]
    'x ...'
    """
    return text if len(text) <= MAX_ERROR_CHARS else f"{text[:MAX_ERROR_CHARS]} ..."


def _furthest_replica(task: dict[str, Any]) -> dict[str, Any] | None:
    """Return the replica that stands for the task in the view: a running one if possible, and of those the furthest."""
    running = [replica for replica in task["replicas"] if replica["status"]]
    return max(running, key=lambda r: (r["state"] in ("running", "finished"), r["status"].get("live") or -1), default=None)


def _epoch(epoch: int | None, timeline: Timeline | None) -> str:
    return "-" if epoch is None or timeline is None else str(epoch - timeline.first + 1)


def _closed(timeline: Timeline) -> str:
    total = f" of {timeline.last - timeline.first + 1}" if timeline.last is not None else ""
    return f"{timeline.last_closed_epoch(time.time()) - timeline.first + 1}{total}"


def _number(value: float | None, unit: str) -> str:
    return "-" if value is None else f"{value:.1f} {unit}".strip() if unit else f"{value:.0f}"
