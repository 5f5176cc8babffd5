"""PPA's Figure 9 as real runs on Spark: what checkpoints cost a task, of what its epochs do, by interval and rate.

Tasks that do the same work on the same stream side by side differ in how often they are checkpointed. Seconds are those that a
replica spent, on a clock: the CPU time of a task is spread over the threads of Python, of the JVM and of the object store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from holdfast.documents import HistoryEvent
from holdfast.errors import HoldfastError
from holdfast.trial import LocalCluster
from holdfast_papers.finding import Finding
from holdfast_papers.ppa.even_windows import completed, write_windows

RATES = (500, 1000)
INTERVALS = (1, 5, 15, 30)
"""Epochs, of a second each, between checkpoints."""
WINDOW, KEYS = 30, 50
SECONDS = 122
"""A window to fill, three of the longest intervals, and a little."""
PES = {f"every_{interval}": interval for interval in INTERVALS}

APPLICATION = f'''
from pyspark.sql import functions as F

from holdfast import App, last_epochs

app = App("checkpoints", epoch_s=1.0)
source = app.source("source", "seq long, time timestamp, key long, value double")


def window(rows):
    """Per key the sum over a sliding window of {WINDOW} epochs."""
    once = rows.groupBy("epoch", "key").agg(F.max("seq").alias("seq"), F.sum("value").alias("value"))
    reach = F.explode(F.expr("sequence(epoch, epoch + {WINDOW - 1})"))
    spread = once.select("seq", reach.alias("epoch"), "key", "value")
    return spread.groupBy("epoch", "key").agg(F.max("seq").alias("seq"), F.sum("value").alias("value"))


for name in {tuple(PES)!r}:
    made = app.operator(inputs=source, keep=last_epochs({WINDOW - 1}), name=name)(window)
    app.sink(f"{{name}}_out", made)
    app.score(f"{{name}}_out", "sum(value)")
'''


@dataclass(frozen=True, slots=True)
class Cost:
    """What a task's checkpoints took of its time, at a rate and interval: the median of `checkpoints`, of so many `rows`, took
    `checkpoint_s` and the median epoch between them `epoch_s`; `share` is the one by as many of the other as there are between two.

    Medians, because the machine may have had something else to do at one of a few checkpoints.
    """

    rate: int
    interval_s: int
    checkpoints: int
    rows: float
    checkpoint_s: float
    epoch_s: float
    share: float


Run = dict[str, Any]
"""A rate, its costs by interval and the machine's load."""


def run_rates(rates: Sequence[int], work: Path, *, done: Callable[[Run], None] = lambda run: None) -> list[Run]:
    """Every rate, one run after the other on one cluster."""
    work.mkdir(parents=True, exist_ok=True)
    application = work / "checkpoints.py"
    application.write_text(APPLICATION)
    terms = {"contracts": {pe: {"checkpoint_epochs": interval} for pe, interval in PES.items()}}
    found = []
    with LocalCluster(work / "cluster", nodes=2) as cluster:
        cluster.start()
        for rate in rates:
            trace = work / f"trace-{rate}.parquet"
            write_windows(trace, seconds=SECONDS, rate=rate, keys=KEYS)
            ran = completed(cluster, f"rate-{rate}", application, trace, terms, what=f"{rate} tuples/s")
            assert ran.timeline is not None
            events = [event for event in ran.events if event.at_s >= ran.timeline.opened_s]
            costs = [asdict(cost) for cost in costs_of(events, rate, full=ran.timeline.first + WINDOW - 1)]
            run = {"rate": rate, "costs": costs, "load": round(psutil.getloadavg()[0], 2)}
            found.append(run)
            done(run)
    return found


def costs_of(events: Iterable[HistoryEvent], rate: int, *, full: int) -> list[Cost]:
    """What the history tells of each task's checkpoints once its window is full, which it is after the epoch `full`.

    The last one of a job, which comes before its turn, is left out. Raises HoldfastError for a task without any.
    """
    told = [event.about for event in events if event.kind == "checkpoint"]
    found = []
    for pe, interval in PES.items():
        mine = [
            each
            for each in told
            if each["task"] == f"{pe}/0" and each["since"] >= full and each["epoch"] - each["since"] >= interval
        ]
        if not mine:
            wanted = f"wanted a checkpoint every {interval} epochs after epoch {full}"
            raise HoldfastError(f"PE '{pe}': {wanted}, and the history tells of none")
        took_s = median(each["took_s"] for each in mine)
        epoch_s = median(each["worked_s"] / (each["epoch"] - each["since"]) for each in mine)
        between = sum(each["epoch"] - each["since"] for each in mine) / len(mine)
        rows = median(each["rows"] for each in mine)
        found.append(Cost(rate, interval, len(mine), rows, took_s, epoch_s, took_s / (between * epoch_s)))
    return found


def findings(runs: Sequence[Mapping[str, Any]]) -> list[Finding]:
    """What section VI-A says of Figure 9, as checks of real runs."""
    shares = {run["rate"]: {cost["interval_s"]: cost["share"] for cost in run["costs"]} for run in runs}
    every = [[by[interval] for interval in INTERVALS] for by in shares.values()]

    def said(by: Mapping[int, float]) -> str:
        return ", ".join(f"{interval} s {by[interval]:.1%}" for interval in INTERVALS)

    return [
        Finding(
            "Figure 9, real runs: checkpoints cost more the more often they are made",
            "increases quickly with shorter intervals",
            "; ".join(f"{rate} tuples/s: {said(by)}" for rate, by in shares.items()),
            all(often > rarely for each in every for often, rarely in pairwise(each)),
        ),
        Finding(
            "Figure 9, real runs: one every second is prohibitive",
            "prohibitively expensive",
            ", ".join(f"{rate} tuples/s: {by[1]:.1%} of what processing takes" for rate, by in shares.items()),
            all(by[1] > 1 for by in shares.values()),
        ),
    ]
