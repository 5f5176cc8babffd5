"""The data that the page shows, from a running orchestrator or from a run that has ended. All values are ready to be sent."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from holdfast.ui.what_if import RUNNING_STATES, STARTING_STATES, TaskView

QUALITIES = ("exact", "tentative", "predicted", "absent")
MAX_SAMPLES = 900
"""How many samples of a job are kept: one per second for a quarter of an hour."""

TaskRow: TypeAlias = tuple[Any, ...]
"""(state, quality, live epoch, clean epoch, lag_s, rows_s, latency_s, replicas); each replica is a `ReplicaRow`."""

ReplicaRow: TypeAlias = tuple[Any, ...]
"""(number, node, state, rank, active, incarnation, failures, error, live epoch, lag_s, rows behind)."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A job's figures at one moment: its largest lag, its input and output rates, and the latency and quality of its output.

    `counts` is the number of tasks per quality and `cpu` the number of cores used per node. None means unknown.
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
            round(self.at_s, 2), round_ms(self.lag_s), round_ms(self.rows_in_s), round_ms(self.rows_out_s),
            round_ms(self.latency_s), self.quality, list(self.counts), {node: round(cores, 3) for node, cores in self.cpu.items()},
        ]  # fmt: skip


class PageData(Protocol):
    """Supplies what the page shows. A feed calls it several times per second, so only `picture` may be slow."""

    def hello(self) -> dict[str, Any]:
        """Return the version, the orchestrator's term, whether faults are allowed, and the bounds of a past run."""

    def now_s(self) -> float:
        """Return the moment that is shown."""

    def jobs(self) -> list[dict[str, Any]]:
        """Return the jobs, newest first. `quality` is the current quality of a job's output, or None if it is unknown."""

    def picture_version(self, job: int) -> Hashable:
        """Return a value that changes whenever the job's picture does, or None if there is no such job."""

    async def picture(self, job: int) -> dict[str, Any]:
        """Return what does not change while the job runs (see `job_picture`)."""

    def tasks(self, job: int) -> Sequence[TaskRow]:
        """Return a row per task, in the order of the picture."""

    def nodes(self) -> list[dict[str, Any]]:
        """Return the nodes, sorted by name."""

    def events(self, after: int) -> tuple[list[dict[str, Any]], int]:
        """Return the events with a number above `after`, oldest first, and the number of the last one."""

    def samples(self, job: int, after_s: float) -> list[list[Any]]:
        """Return the samples of a job that are newer than `after_s`, oldest first."""

    def task_views(self, job: int) -> Sequence[TaskView]:
        """Return the tasks as `find_consequences` needs them. Raises HoldfastError if there is no such job."""


def build_task_row(
    replicas: Sequence[ReplicaRow], statuses: Sequence[Any], *, now_s: float, since_s: float, epoch_base: int | None
) -> TaskRow:
    """Return the row of a task: that of its most advanced running replica. A task with no replica alive is `absent`.

    `statuses` are the last statuses that the replicas reported, or None. `since_s` is when the task's state last changed.
    `epoch_base` is subtracted from epochs; None hides them.
    """
    best: Any = None
    state = "down"
    for row, status in zip(replicas, statuses, strict=True):
        if row[2] in RUNNING_STATES and status is not None and (best is None or (status.live or -1) > (best.live or -1)):
            best, state = status, row[2]
    if best is None:
        states = [row[2] for row in replicas]
        state = next((each for each in states if each in STARTING_STATES), "idle" if "idle" in states else "down")
        last = max((each for each in statuses if each is not None), key=lambda status: status.live or -1, default=None)
        dead = state == "down" and bool(replicas)
        return (
            state if replicas else "none", "absent" if dead else None,
            relative_epoch(last and last.live, epoch_base), relative_epoch(last and last.clean, epoch_base),
            round(max(0.0, now_s - since_s), 1) if dead else None, 0.0 if dead else None, None, tuple(replicas),
        )  # fmt: skip
    return (
        state, best.quality, relative_epoch(best.live, epoch_base), relative_epoch(best.clean, epoch_base),
        round_ms(best.lag_s), round_ms(best.rows_s), round_ms(best.latency_s), tuple(replicas),
    )  # fmt: skip


def relative_epoch(number: int | None, epoch_base: int | None) -> int | None:
    """Return an epoch's number within its job, where the first is 1, or None if either number is unknown."""
    return None if number is None or epoch_base is None else number - epoch_base


def build_sample(
    rows: Sequence[TaskRow], *, at_s: float, inputs: Iterable[int], outputs: Iterable[int], cpu: dict[str, float]
) -> Sample:
    """Return a sample of a job. `inputs` are the indexes of tasks that read nothing, `outputs` of those that nothing reads."""
    output_rows = [rows[index] for index in outputs]
    qualities = [row[1] for row in output_rows if row[1] is not None]
    return Sample(
        at_s,
        max((row[4] for row in rows if row[4] is not None), default=None),
        _sum_known([rows[index][5] for index in inputs]),
        _sum_known([row[5] for row in output_rows]),
        max((row[6] for row in output_rows if row[6] is not None), default=None),
        max(qualities, key=QUALITIES.index, default=None),
        tuple(sum(row[1] == quality for row in rows) for quality in QUALITIES),
        cpu,
    )


def round_ms(value: float | None) -> float | None:
    """Return a figure rounded to thousandths."""
    return None if value is None else round(value, 3)


def _sum_known(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
