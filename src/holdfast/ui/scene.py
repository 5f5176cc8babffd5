"""What a page can be shown: a running orchestrator, or a run that is over. Plain values, ready to be sent."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from holdfast.ui.what_if import COMING, LIVING, TaskAt

QUALITIES = ("exact", "tentative", "predicted", "absent")
SAMPLES = 900
"""Samples kept of a job: a quarter of an hour, one a second."""

TaskRow: TypeAlias = tuple[Any, ...]
"""(state, quality, live epoch, clean epoch, lag_s, rows_s, latency_s, replicas); the replicas are rows of `ReplicaRow`."""

ReplicaRow: TypeAlias = tuple[Any, ...]
"""(number, node, state, rank, active, incarnation, failures, error, live epoch, lag_s)."""


@dataclass(frozen=True, slots=True)
class Sample:
    """How a job did at a moment: its largest lag, rates in and out, latency and quality at its outputs, tasks by quality, CPU.

    CPU is in cores, by node; None stands for what is not known.
    """

    at_s: float
    lag_s: float | None
    rows_in_s: float | None
    rows_out_s: float | None
    latency_s: float | None
    quality: str | None
    counts: tuple[int, ...]
    cpu: dict[str, float]

    def row(self) -> list[Any]:
        return [
            round(self.at_s, 2), _short(self.lag_s), _short(self.rows_in_s), _short(self.rows_out_s), _short(self.latency_s),
            self.quality, list(self.counts), {node: round(share, 3) for node, share in self.cpu.items()},
        ]  # fmt: skip


class Scene(Protocol):
    """A source of what the page shows. A scene is asked several times a second; only `picture` may take long."""

    def hello(self) -> dict[str, Any]:
        """What there is to know before anything else."""

    def now_s(self) -> float:
        """The moment that the scene shows."""

    def jobs(self) -> list[dict[str, Any]]:
        """The jobs, newest first; the `quality` of each is that of its output now, where that is known."""

    def mark(self, job: int) -> Hashable:
        """Changes whenever the job's picture does. None where there is no such job."""

    async def picture(self, job: int) -> dict[str, Any]:
        """What of a job stays: its tasks with their places, edges, plan and contract."""

    def tasks(self, job: int) -> Sequence[TaskRow]:
        """How each task of the picture is doing, in its order."""

    def nodes(self) -> list[dict[str, Any]]:
        """The nodes, by name."""

    def events(self, after: int) -> tuple[list[dict[str, Any]], int]:
        """What happened after a number, oldest first, and the last number."""

    def samples(self, job: int, after_s: float) -> list[list[Any]]:
        """The samples of a job after a moment, oldest first."""

    def views(self, job: int) -> Sequence[TaskAt]:
        """The tasks as `consequences` wants them. Raises HoldfastError where there is no such job."""


def task_row(replicas: Sequence[ReplicaRow], statuses: Sequence[Any], *, now_s: float, since_s: float, base: int | None) -> TaskRow:
    """A task's row from its replicas: the one that is furthest speaks for it. With none alive it is `absent`, and ever later.

    `statuses` are the replicas' own words (None where they said nothing); `base` is subtracted from epochs, None hides them.
    """
    best: Any = None
    state = "down"
    for row, status in zip(replicas, statuses, strict=True):
        if row[2] in LIVING and status is not None and (best is None or (status.live or -1) > (best.live or -1)):
            best, state = status, row[2]
    if best is None:
        state = next(
            (row[2] for row in replicas if row[2] in COMING), next((row[2] for row in replicas if row[2] == "idle"), "down")
        )
        heads = [status for status in statuses if status is not None]
        last = max(heads, key=lambda status: status.live or -1, default=None)
        dead = state == "down" and bool(replicas)
        return (
            state if replicas else "none", "absent" if dead else None,
            epoch(last and last.live, base), epoch(last and last.clean, base),
            round(max(0.0, now_s - since_s), 1) if dead else None, 0.0 if dead else None, None, tuple(replicas),
        )  # fmt: skip
    return (
        state, best.quality, epoch(best.live, base), epoch(best.clean, base), _short(best.lag_s), _short(best.rows_s),
        _short(best.latency_s), tuple(replicas),
    )  # fmt: skip


def epoch(number: int | None, base: int | None) -> int | None:
    """An epoch as people count it, from the job's first."""
    return None if number is None or base is None else number - base


def sample_of(rows: Sequence[TaskRow], *, at_s: float, first: Iterable[int], last: Iterable[int], cpu: dict[str, float]) -> Sample:
    """A sample from the rows of a job's tasks. `first` are the tasks that read nothing, `last` those whose output nobody reads."""
    ends = [rows[index] for index in last]
    qualities = [row[1] for row in ends if row[1] is not None]
    return Sample(
        at_s,
        max((row[4] for row in rows if row[4] is not None), default=None),
        _sum([rows[index][5] for index in first]),
        _sum([row[5] for row in ends]),
        max((row[6] for row in ends if row[6] is not None), default=None),
        max(qualities, key=QUALITIES.index, default=None),
        tuple(sum(row[1] == quality for row in rows) for quality in QUALITIES),
        cpu,
    )


def _sum(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _short(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
