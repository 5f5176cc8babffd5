"""How a running job looks: one table of its PEs, one of the nodes."""

import time
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from holdfast.log.timeline import Timeline

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


MOST_SAID = 300
"""Characters of what is in a replica's way that are shown; all of it is in the verdict and in the node's log."""


class View:
    """A live picture on a terminal; on anything else a line every few seconds."""

    EVERY_S = 5.0

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, refresh_per_second=4, transient=True) if console.is_terminal else None
        self._said = 0.0
        self._cpu: dict[str, tuple[float, float]] = {}

    def __enter__(self) -> "View":
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, story: dict[str, Any], nodes: list[dict[str, Any]], timeline: Timeline | None) -> None:
        if self._live is not None:
            said = [Text(each, style="yellow") for each in replica_errors(story)]
            self._live.update(Group(tasks_table(story, timeline), self._nodes_table(nodes), *said))
        elif time.monotonic() - self._said >= self.EVERY_S:
            self._said = time.monotonic()
            self._console.print(one_line(story, nodes, timeline), highlight=False, soft_wrap=True)

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


def tasks_table(story: dict[str, Any], timeline: Timeline | None) -> Table:
    """Per task: how far, how late, how fast, how good, and which replicas are where."""
    table = Table("PE", "epoch", "lag", "rows/s", "latency", "quality", "replicas", box=None, pad_edge=False)
    table.title = f"{story['name']}: {story['state']}" + (f", epoch {_closed(timeline)}" if timeline else "")
    table.title_justify = "left"
    for task in story["tasks"]:
        best = _best(task)
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


def one_line(story: dict[str, Any], nodes: list[dict[str, Any]], timeline: Timeline | None) -> str:
    """The same in a line, for a log."""
    sinks = [task for task in story["tasks"] if task["kind"] == "sink"]
    said = [f"{story['name']} {story['state']}"]
    if timeline is not None:
        said.append(f"epoch {_closed(timeline)}")
    for sink in sinks:
        status = ((_best(sink) or {}).get("status")) or {}
        at, quality = _epoch(status.get("live"), timeline), status.get("quality") or "-"
        said.append(f"{sink['task']} at {at} ({quality}, {_number(status.get('latency_s'), 's')} after its close)")
    lost = [node["name"] for node in nodes if node["state"] == "lost"]
    return "; ".join([", ".join([*said, *([f"lost: {' '.join(lost)}"] if lost else [])]), *replica_errors(story)])


def replica_errors(story: dict[str, Any]) -> list[str]:
    """What is in the way of replicas that live, such as a full log, and why those that failed did: each once, with who says so."""
    by: dict[str, list[str]] = {}
    for task in story["tasks"]:
        for replica in task["replicas"]:
            error = (replica["status"] or {}).get("error") or (replica["error"] if replica["state"] in ("failed", "lost") else None)
            if error:
                who = by.setdefault(shortened(error.splitlines()[0]), [])
                who += [task["task"]] if task["task"] not in who else []
    return [f"{', '.join(who)}: {error}" for error, who in by.items()]


def shortened(text: str) -> str:
    """A text that fits into a few lines of a terminal.

    >>> shortened("x" * 1000)[-5:]
    'x ...'
    """
    return text if len(text) <= MOST_SAID else f"{text[:MOST_SAID]} ..."


def _best(task: dict[str, Any]) -> dict[str, Any] | None:
    running = [replica for replica in task["replicas"] if replica["status"]]
    return max(running, key=lambda r: (r["state"] in ("running", "finished"), r["status"].get("live") or -1), default=None)


def _epoch(epoch: int | None, timeline: Timeline | None) -> str:
    return "-" if epoch is None or timeline is None else str(epoch - timeline.first + 1)


def _closed(timeline: Timeline) -> str:
    of = f" of {timeline.last - timeline.first + 1}" if timeline.last is not None else ""
    return f"{timeline.last_closed_epoch(time.time()) - timeline.first + 1}{of}"


def _number(value: float | None, unit: str) -> str:
    return "-" if value is None else f"{value:.1f} {unit}".strip() if unit else f"{value:.0f}"
